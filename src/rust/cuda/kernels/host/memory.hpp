// A weak memory for blocks that take turns, with SEVERAL_BLOCKS: see memory.cpp. Part of cuda.hpp.

#pragma once

// What a launch did.
struct Turns {
  unsigned switches, delayed_writes, stale_words;
};

// Memory that blocks share, nullptr where there is no more; and given back.
void *take_arena(size_t bytes);
void give_arena(void *arena);

// Runs the blocks of a kernel together. They share the `bytes` from `arena` on; all else is their
// own, or never changes. They take turns at random, by a seed. Returns false where they waited for
// each other for ever.
bool launch_together(unsigned blocks, unsigned threads, void *arena, size_t bytes,
                     unsigned long long seed, Turns &turns, std::function<void()> kernel);

// Lets other blocks go on.
void let_others();
void fence();
void acquire();
void begin_atomic(const volatile void *at, size_t bytes);
void end_atomic();

inline void __nanosleep(unsigned) { let_others(); }
inline void __threadfence() { fence(); }
template <class T> T acquire_from(const T *at) {
  T value = *(const volatile T *)at;
  acquire();
  return value;
}
struct Atomic {
  Atomic(const volatile void *at, size_t bytes) { begin_atomic(at, bytes); }
  ~Atomic() { end_atomic(); }
};

// As much of CUDA as the kernels use, for one thread of the CPU: so that a test without a GPU runs
// the kernels as they are, and holds them against the Rust code.
//
// The threads of a block are coroutines. Each runs until it has to wait for others (a barrier, or
// an exchange of values within a warp), then the next one does. They run in ascending or in
// descending order, as `backwards` says, so that results which depend on the order show. Blocks run
// one after the other; with SEVERAL_BLOCKS, memory.hpp lets them take turns.
//
// Compile without contraction of floating-point operations, as the kernels are.

#pragma once

// Coroutines jump between stacks, which the checked longjmp() refuses.
#undef _FORTIFY_SOURCE

#include <cmath>
#include <csetjmp>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <type_traits>
#include <ucontext.h>
#include <vector>

// Functions that ThreadSanitizer leaves alone, see races.hpp.
#ifdef RACES
#define UNSEEN __attribute__((no_sanitize("thread")))
#else
#define UNSEEN
#endif

// ---- the language ----

// Kernels have names like `open`: calls must not find those of the C library.
#define __global__ __attribute__((visibility("hidden")))
#define __host__
#define __device__
#define __forceinline__ inline
#define __noinline__ __attribute__((noinline))
#define __launch_bounds__(...)
#define __grid_constant__
#define __align__(bytes) __attribute__((aligned(bytes)))
// All threads of a block are coroutines of one thread.
#define __shared__ thread_local
// The C library has another one.
#define ulong cuda_ulong

// What the tests call.
#define EXPORT extern "C" __attribute__((visibility("default")))

using std::fabs;
using std::fma;
using std::fmax;
using std::rint;
using std::sqrt;

// ---- types and numbers ----

struct double2 {
  double x, y;
};
struct alignas(16) float4 {
  float x, y, z, w;
};
struct alignas(16) uint4 {
  unsigned x, y, z, w;
};
struct dim3 {
  unsigned x = 1, y = 1, z = 1;
};

inline double2 make_double2(double x, double y) { return {x, y}; }

template <class To, class From> To bits_as(From value) {
  static_assert(sizeof(To) == sizeof(From), "as many bits");
  To bits;
  std::memcpy(&bits, &value, sizeof bits);
  return bits;
}
inline long long __double_as_longlong(double value) { return bits_as<long long>(value); }
inline double __longlong_as_double(long long bits) { return bits_as<double>(bits); }
inline unsigned __float_as_uint(float value) { return bits_as<unsigned>(value); }
inline float __uint_as_float(unsigned bits) { return bits_as<float>(bits); }
inline int __double2hiint(double value) { return bits_as<long long>(value) >> 32; }
inline double __hiloint2double(int high, int low) {
  return bits_as<double>((unsigned long long)(unsigned)high << 32 | (unsigned)low);
}

inline float __fsqrt_rn(float x) { return std::sqrt(x); }
inline float __fdiv_rn(float x, float y) { return x / y; }
inline float __double2float_ru(double x) {
  float rounded = (float)x;
  return rounded < x ? std::nextafter(rounded, INFINITY) : rounded;
}
inline float __double2float_rd(double x) {
  float rounded = (float)x;
  return rounded > x ? std::nextafter(rounded, -INFINITY) : rounded;
}
// The products of the four bytes of each, added to the sum.
inline int __dp4a(int a, int b, int sum) {
  for (int place = 0; place < 32; place += 8)
    sum += (signed char)(a >> place) * (signed char)(b >> place);
  return sum;
}
inline int __popc(unsigned bits) { return __builtin_popcount(bits); }
inline int __ffs(int bits) { return __builtin_ffs(bits); }

template <class A, class B> std::common_type_t<A, B> min(A a, B b) {
  std::common_type_t<A, B> x = a, y = b;
  return y < x ? y : x;
}
template <class A, class B> std::common_type_t<A, B> max(A a, B b) {
  std::common_type_t<A, B> x = a, y = b;
  return x < y ? y : x;
}

// ---- threads ----

inline thread_local dim3 gridDim, blockDim, blockIdx, threadIdx;
inline thread_local bool backwards = false;

// Threads that wait for each other: a block, or a warp. A thread that comes to its next meeting has
// left the last one, so two sets of values are enough for any number of meetings.
struct Meeting {
  unsigned threads = 0, arrived = 0, number = 0;
  unsigned long long values[2][32] = {};
};

// A context is only for the start, since to change it takes a system call.
struct Coroutine {
  ucontext_t start;
  jmp_buf place;
  void *fiber = nullptr; // for ThreadSanitizer
  std::unique_ptr<char[]> stack;
  bool started = false, done = false;
  // The meeting that it waits for, until that has another number.
  const Meeting *meeting = nullptr;
  unsigned number = 0;
};

constexpr size_t STACK = 1 << 17;

struct Block {
  std::vector<Coroutine> threads;
  std::vector<Meeting> warps;
  Meeting all;
  jmp_buf scheduler;
  Coroutine races_scheduler; // in place of `scheduler`, for ThreadSanitizer
  std::function<void()> kernel;
};

inline thread_local Block *block = nullptr;

#ifdef RACES
#include "races.hpp"
#else
__attribute__((noinline)) inline void leave_coroutine() {
  Block *present = block;
  if (!_setjmp(present->threads[threadIdx.x].place)) _longjmp(present->scheduler, 1);
}

// Lets a thread go on until it waits.
__attribute__((noinline)) inline void resume(Block &present, Coroutine &thread) {
  if (_setjmp(present.scheduler)) return;
  if (thread.started) _longjmp(thread.place, 1);
  thread.started = true;
  setcontext(&thread.start);
}

// What ThreadSanitizer must know of a thread and of a meeting.
inline void begin_fiber(Coroutine &) {}
inline void before(const Meeting &, unsigned) {}
inline void after(const Meeting &, unsigned) {}
#endif

// Waits until all threads have come to the meeting; returns which set of values is theirs. If the
// meeting `orders` accesses to memory, those before it come before those after it.
UNSEEN inline unsigned meet(Meeting &meeting, bool orders) {
  unsigned mine = meeting.number;
  if (orders) before(meeting, mine);
  if (++meeting.arrived == meeting.threads) {
    meeting.arrived = 0;
    meeting.number += 1;
  } else {
    Coroutine &me = block->threads[threadIdx.x];
    me.meeting = &meeting;
    me.number = mine;
    leave_coroutine();
  }
  if (orders) after(meeting, mine);
  return mine % 2;
}

// A thread that has left counts as one that has come to every meeting.
UNSEEN inline void leave(Meeting &meeting) {
  before(meeting, meeting.number);
  meeting.threads -= 1;
  if (meeting.threads > 0 && meeting.arrived == meeting.threads) {
    meeting.arrived = 0;
    meeting.number += 1;
  }
}

UNSEEN inline void run_thread();

// The order of a block's threads in each round: number n of so many.
#ifdef SEVERAL_BLOCKS
unsigned thread_in_order(unsigned n, unsigned threads);
#else
inline unsigned thread_in_order(unsigned n, unsigned threads) {
  return backwards ? threads - 1 - n : n;
}
#endif

UNSEEN inline void prepare_block(Block &present, unsigned threads) {
  if (present.threads.size() == threads) return;
  present.threads = std::vector<Coroutine>(threads);
  for (Coroutine &thread : present.threads) thread.stack.reset(new char[STACK]);
}

// Runs the block with this index.
UNSEEN inline void run_block(Block &present, dim3 grid, dim3 index) {
  unsigned threads = present.threads.size();
  block = &present;
  gridDim = grid;
  blockDim = {threads, 1, 1};
  blockIdx = index;
  present.all = Meeting();
  present.all.threads = threads;
  present.warps.assign((threads + 31) / 32, Meeting());
  for (unsigned i = 0; i < threads; i++) {
    Coroutine &thread = present.threads[i];
    present.warps[i / 32].threads += 1;
    thread.started = thread.done = false;
    thread.meeting = nullptr;
    getcontext(&thread.start);
    thread.start.uc_stack.ss_sp = thread.stack.get();
    thread.start.uc_stack.ss_size = STACK;
    thread.start.uc_link = nullptr;
    makecontext(&thread.start, run_thread, 0);
    begin_fiber(thread);
  }
  for (unsigned left = threads, resumed = 0; left > 0; resumed = 0) {
    for (unsigned i = 0; i < threads; i++) {
      threadIdx = {thread_in_order(i, threads), 0, 0};
      Coroutine &thread = present.threads[threadIdx.x];
      bool waits = thread.meeting && thread.meeting->number == thread.number;
      if (thread.done || waits) continue;
      thread.meeting = nullptr;
      resume(present, thread);
      left -= thread.done;
      resumed += 1;
    }
    if (left > 0 && resumed == 0) {
      std::fprintf(stderr, "%u threads of a block wait for each other for ever\n", left);
      std::abort();
    }
  }
  for (unsigned number = 0; number < 2; number++) after(present.all, number);
  block = nullptr;
}

// Runs a kernel, given as a call without its launch: `launch(blocks, threads, [&] { kernel(x); })`.
inline void launch(dim3 grid, unsigned threads, std::function<void()> kernel) {
  static thread_local Block present;
  prepare_block(present, threads);
  present.kernel = std::move(kernel);
  for (unsigned number = 0; number < grid.x * grid.y; number++)
    run_block(present, grid, {number % grid.x, number / grid.x, 0});
}

inline void __syncthreads() { meet(block->all, true); }
UNSEEN inline int __syncthreads_or(int vote) {
  unsigned long long &any = block->all.values[0][0];
  any |= vote != 0;
  __syncthreads();
  int result = any != 0;
  __syncthreads();
  any = 0;
  __syncthreads();
  return result;
}

// All values of the threads of a warp, by lane. On a device, votes and shuffles do not order
// accesses to memory.
template <class T> UNSEEN const unsigned long long *exchange(T value, bool orders = false) {
  Meeting &warp = block->warps[threadIdx.x / 32];
  unsigned long long bits = 0;
  std::memcpy(&bits, &value, sizeof value);
  warp.values[warp.number % 2][threadIdx.x % 32] = bits;
  unsigned set = meet(warp, orders);
  return warp.values[set];
}
template <class T> UNSEEN T from_lane(const unsigned long long *values, unsigned lane) {
  T value;
  std::memcpy(&value, &values[lane], sizeof value);
  return value;
}

inline void __syncwarp() { exchange(0, true); }

UNSEEN inline void run_thread() {
  block->kernel();
  unsigned me = threadIdx.x;
  leave(block->all);
  // The others may still have to read its last value: they have when they come to the next meeting.
  __syncwarp();
  Meeting &warp = block->warps[me / 32];
  warp.values[0][me % 32] = warp.values[1][me % 32] = 0;
  leave(warp);
  block->threads[me].done = true;
  leave_coroutine();
}

template <class T> T __shfl_sync(unsigned, T value, int lane) {
  return from_lane<T>(exchange(value), lane % 32);
}
template <class T> T __shfl_xor_sync(unsigned, T value, int mask) {
  return from_lane<T>(exchange(value), threadIdx.x % 32 ^ mask);
}
template <class T> T __shfl_up_sync(unsigned, T value, unsigned by) {
  unsigned lane = threadIdx.x % 32;
  return from_lane<T>(exchange(value), lane >= by ? lane - by : lane);
}
template <class T> T __shfl_down_sync(unsigned, T value, unsigned by) {
  unsigned lane = threadIdx.x % 32;
  return from_lane<T>(exchange(value), lane + by < 32 ? lane + by : lane);
}
UNSEEN inline unsigned __ballot_sync(unsigned, bool vote) {
  const unsigned long long *votes = exchange((int)vote);
  unsigned ballot = 0;
  for (unsigned lane = 0; lane < 32; lane++) ballot |= (unsigned)votes[lane] << lane;
  return ballot;
}
template <class T> unsigned __match_any_sync(unsigned, T value) {
  const unsigned long long *values = exchange(value);
  unsigned same = 0;
  for (unsigned lane = 0; lane < 32; lane++)
    same |= (unsigned)(from_lane<T>(values, lane) == value) << lane;
  return same;
}
inline bool __any_sync(unsigned mask, bool vote) { return __ballot_sync(mask, vote) != 0; }
// Only for whole warps.
inline bool __all_sync(unsigned mask, bool vote) { return __ballot_sync(mask, vote) == ~0u; }

// ---- memory ----

inline long long clock64() { return 0; }
// A clock that goes on with each look.
inline unsigned long long nanoseconds() {
  static thread_local unsigned long long now = 0;
  return now += 10'000;
}

// What blocks do to each other's memory, for a model of several blocks.
#ifdef SEVERAL_BLOCKS
#include "memory.hpp"
#else
inline void __nanosleep(unsigned) {}
inline void __threadfence() {}
template <class T> T acquire_from(const T *at) { return *(const volatile T *)at; }
inline void acquire() {}
struct Atomic {
  Atomic(const volatile void *, size_t) {}
};
#endif
inline void __threadfence_system() { __threadfence(); }

#ifndef RACES
// Replaces a value by a function of it, atomically. Returns the value before.
template <class T, class F> T change(T *at, F changed) {
  Atomic atomic(at, sizeof *at);
  T old = *at, next = changed(old);
  *at = next;
  return old;
}
// Replaces a value if it is the expected one, atomically. Returns the value before.
template <class T> T change_if(T *at, T expected, T value) {
  Atomic atomic(at, sizeof *at);
  T old = *at;
  if (old == expected) *at = value;
  return old;
}
#endif
template <class T, class U> T atomicAdd(T *at, U value) {
  return change(at, [=](T old) { return old + (T)value; });
}
template <class T, class U> T add_acquiring(T *at, U value) {
  T old = atomicAdd(at, value);
  acquire();
  return old;
}
template <class T> T atomicCAS(T *at, T expected, T value) {
  return change_if(at, expected, value);
}
template <class T, class U> T atomicExch(T *at, U value) {
  return change(at, [=](T) { return (T)value; });
}
template <class T, class U> T atomicOr(T *at, U value) {
  return change(at, [=](T old) { return old | (T)value; });
}
template <class T, class U> T atomicMin(T *at, U value) {
  return change(at, [=](T old) { return min(old, (T)value); });
}
template <class T, class U> T atomicMax(T *at, U value) {
  return change(at, [=](T old) { return max(old, (T)value); });
}
template <class T> T __ldg(const T *at) { return *at; }
template <class T> T __ldcg(const T *at) { return *at; }
template <class T, class U> void __stcg(T *at, U value) { *at = value; }

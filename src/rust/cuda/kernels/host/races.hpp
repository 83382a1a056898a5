// Threads of a block as ThreadSanitizer sees them: each is a fiber, and two accesses of different
// fibers race unless a barrier orders them.

#pragma once

#include <sanitizer/tsan_interface.h>

// A jump between stacks would confuse the sanitizer, so threads change their contexts, which takes
// a system call.
UNSEEN inline void leave_coroutine() {
  Block *present = block;
  Coroutine &me = present->threads[threadIdx.x], &scheduler = present->races_scheduler;
  __tsan_switch_to_fiber(scheduler.fiber, __tsan_switch_to_fiber_no_sync);
  swapcontext(&me.start, &scheduler.start);
}

UNSEEN inline void resume(Block &present, Coroutine &thread) {
  present.races_scheduler.fiber = __tsan_get_current_fiber();
  __tsan_switch_to_fiber(thread.fiber, __tsan_switch_to_fiber_no_sync);
  swapcontext(&present.races_scheduler.start, &thread.start);
}

UNSEEN inline void begin_fiber(Coroutine &thread) {
  if (thread.fiber) __tsan_destroy_fiber(thread.fiber);
  thread.fiber = __tsan_create_fiber(0);
}

// A thread that has left a meeting may come to the next one before another thread goes on. The two
// meetings have different addresses, so that the other thread is not ordered behind what was done
// in between.
UNSEEN inline void *of_number(const Meeting &meeting, unsigned number) {
  return (void *)&meeting.values[number % 2];
}
UNSEEN inline void before(const Meeting &meeting, unsigned number) {
  __tsan_release(of_number(meeting, number));
}
UNSEEN inline void after(const Meeting &meeting, unsigned number) {
  __tsan_acquire(of_number(meeting, number));
}

// Replaces a value by a function of it. Atomic accesses do not race with each other, and order
// nothing. Returns the value before.
template <class T, class F> T change(T *at, F changed) {
  T old, next;
  __atomic_load(at, &old, __ATOMIC_RELAXED);
  do next = changed(old);
  while (!__atomic_compare_exchange(at, &old, &next, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED));
  return old;
}

// Replaces a value if it is the expected one. Returns the value before.
template <class T> T change_if(T *at, T expected, T value) {
  __atomic_compare_exchange(at, &expected, &value, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
  return expected;
}

// Arrays that live until the program ends.
template <class T> T *array(size_t length) { return new T[length](); }

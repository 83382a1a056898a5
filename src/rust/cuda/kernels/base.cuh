// Definitions for all kernels: integer types, the size of a warp, special values, and loads with a
// memory order.

#pragma once

typedef unsigned int uint;
typedef unsigned short ushort;
typedef unsigned long long ulong;

#define WARP 32
#define WHOLE_WARP 0xffffffffu

// No index, slot, shape or cluster.
#define NONE 0xffffffffu

// The bits of infinity, in double and in single precision. As integers, they are greater than the
// bits of any finite number that is not negative.
#define INFINITY_BITS 0x7ff0000000000000ull
#define SINGLE_INFINITY_BITS 0x7f800000u

// The bits of R's NA_real_, a NaN with a payload of its own.
#define NA_BITS 0x7ff00000000007a2ull

// The bits of NaNs in single precision: one with all bits set, and the usual one.
#define SINGLE_NAN_BITS 0xffffffffu
#define SINGLE_QUIET_NAN_BITS 0x7fc00000u

// Bytes of a cache line.
#define LINE_BYTES 128
// Prefetches a line of device memory, so that later reads of it wait less.
__device__ __forceinline__ void prefetch(const void *line) {
#ifdef __CUDACC_RTC__
  asm volatile("{ .reg .u32 unused; ld.global.u32 unused, [%0]; }" ::"l"(line));
#endif
}

// Number of lanes in a ballot with a lower number than this lane.
__device__ __forceinline__ uint lanes_before(uint ballot) {
  return __popc(ballot & ((1u << threadIdx.x % WARP) - 1));
}

// Reads a word that another block has written, with acquire: everything that the block had written
// before it is then visible.
__device__ __forceinline__ uint load_acquire(const uint *from) {
#ifdef __CUDACC_RTC__
  uint value;
  asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(value) : "l"(from) : "memory");
  return value;
#else
  return acquire_from(from);
#endif
}
__device__ __forceinline__ ulong load_acquire(const ulong *from) {
#ifdef __CUDACC_RTC__
  ulong value;
  asm volatile("ld.acquire.gpu.global.u64 %0, [%1];" : "=l"(value) : "l"(from) : "memory");
  return value;
#else
  return acquire_from(from);
#endif
}

// Reads a word to which other threads of the block may add meanwhile.
__device__ __forceinline__ uint load_while_added(uint *from) {
#ifdef RACES
  return atomicAdd(from, 0);
#else
  return *(volatile uint *)from;
#endif
}

// Adds to a word, with acquire as `load_acquire`. Returns the word before the addition.
__device__ __forceinline__ uint add_acquire(uint *to, uint value) {
#ifdef __CUDACC_RTC__
  uint before;
  asm volatile("atom.acquire.gpu.global.add.u32 %0, [%1], %2;"
               : "=r"(before)
               : "l"(to), "r"(value)
               : "memory");
  return before;
#else
  return add_acquiring(to, value);
#endif
}

__device__ __forceinline__ double infinity() { return __longlong_as_double(INFINITY_BITS); }
__device__ __forceinline__ float single_infinity() { return __uint_as_float(SINGLE_INFINITY_BITS); }

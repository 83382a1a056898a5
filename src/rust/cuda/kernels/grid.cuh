// All blocks of a cooperative launch working together.

#pragma once

#include "base.cuh"

// The same for all threads of a launch, block by block; all of them are resident.
struct Barrier {
  uint *arrived;
  uint target = 0;
  __device__ __forceinline__ void wait() {
    target += gridDim.x;
    __syncthreads();
    if (threadIdx.x == 0) {
      __threadfence();
      atomicAdd(arrived, 1);
      while (*(volatile uint *)arrived < target) {}
      __threadfence();
    }
    __syncthreads();
  }
};

// What the host and products.cu must agree on beside the argument.
// src/neighbours/products.rs has the same, and a test compares them.

#pragma once

#include "base.cuh"

// A tile is QUERIES by REFERENCES: DOWN by ACROSS warps, each with EACH by EACH.
#define DOWN 2
#define ACROSS 4
#define EACH 64
#define QUERIES (DOWN * EACH)
#define REFERENCES (ACROSS * EACH)
#define WARPS (DOWN * ACROSS)
#define THREADS (WARPS * WARP)

// Coordinates in shared memory at a time, and how many such stages there are.
#define DEPTH 64
#define STAGES 3
#define STAGE_BYTES ((QUERIES + REFERENCES) * DEPTH * 2)
// What one multiplication of matrices takes, by coordinates, queries and references.
#define STEP 16
#define HIGH 16
#define WIDE 8

// As HALF_SCALE in single/half.rs, squared.
#define SQUARED_SCALE ((float)(1 << 28))

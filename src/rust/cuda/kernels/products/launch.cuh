// Definitions shared by the host and products.cu, beside the argument. src/neighbours/products.rs
// has the same definitions, and a test compares them. DEPTH is the number of coordinates of a row
// in a stage of shared memory: 16 or 32, for rows of no more coordinates, or 64.

#pragma once

#include "base.cuh"

// A tile has QUERIES by REFERENCES pairs. A block has DOWN by ACROSS warps, each with EACH_DOWN by
// EACH_ACROSS pairs, and compares ABREAST references at a time, in TURNS turns for a tile. If rows
// are short, a tile has more references, since what a warp does once a tile takes long.
#define DOWN 2
#define ACROSS 8
#define EACH_DOWN 64
#define EACH_ACROSS 32
#define QUERIES (DOWN * EACH_DOWN)
#define ABREAST (ACROSS * EACH_ACROSS)
#define TURNS (MOST_DEPTH / DEPTH)
#define REFERENCES (ABREAST * TURNS)
#define WARPS (DOWN * ACROSS)
#define THREADS (WARPS * WARP)

// Maximum of DEPTH.
#define MOST_DEPTH 64
// Number of stages.
#define STAGES 3
// Bytes of a stage: halves of queries and references.
#define STAGE_BYTES ((QUERIES + REFERENCES) * DEPTH * 2)
// Size of one multiplication of matrices: STEP coordinates, HIGH queries and WIDE references.
#define STEP 16
#define HIGH 16
#define WIDE 8

// Square of HALF_SCALE of single/half.rs.
#define SQUARED_SCALE ((float)(1 << 28))

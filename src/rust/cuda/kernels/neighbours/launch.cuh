// Definitions shared by the host and neighbours.cu, beside the argument. src/neighbours/layout.rs
// has the same definitions, and a test compares them.

#pragma once

// A tile has TILE queries by TILE references. A block has DOWN by ACROSS threads, each with EACH by
// EACH of them.
#define ACROSS 16
#define DOWN 16
#define EACH 8
#define TILE (ACROSS * EACH)
#define THREADS (ACROSS * DOWN)

// Number of threads of a block of `narrow`.
#define NARROW_THREADS 128
// Maximum number of candidates of a query for which `narrow` has shared memory.
#define MOST_ROOM 4096

// What the host and neighbours.cu must agree on beside the argument. src/neighbours/layout.rs has
// the same, and a test compares them.

#pragma once

// A tile is TILE queries by TILE references: DOWN by ACROSS threads, each with EACH by EACH.
#define ACROSS 16
#define DOWN 16
#define EACH 8
#define TILE (ACROSS * EACH)
#define THREADS (ACROSS * DOWN)

// Threads of a block of `narrow`, and the most candidates of a query that it has shared memory for.
#define NARROW_THREADS 128
#define MOST_ROOM 4096

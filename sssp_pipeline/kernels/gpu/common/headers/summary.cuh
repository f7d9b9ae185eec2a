// Counts over a row of distances: `summary.cu` makes them, and reductions of rows read them.
#pragma once

#include "memory_order.cuh"

struct Summary {
    word64 reached;
    word64 edges_of_reached;
    word64 max_distance;  // its bits
    word64 sum_lower;     // of the distances' lower 32 bits
    word64 sum_upper;     // and of their upper ones
    word64 first_edge;    // all ones if there is none
};

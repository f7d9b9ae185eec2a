// The words of a row in the order of `reductions.py`: numbers that several kernels make of a row of distances.
#pragma once

#include "memory_order.cuh"

// Vertices of a segment of the harmonic sum.
constexpr word32 kSegment = 1024;

// Counts of the limits follow, then the sums of the amounts by limit, and words of other kernels.
enum Word : word32 { kReached, kLargest, kMagnitude, kLower, kUpper, kHarmonic, kWithin };

// Elapsed time by the GPU's clock, which may step back.
//
// Idea: two readings of a clock that stepped back between them have a difference that wraps around to centuries. So a
//     stopwatch adds up the time between one look and the next, and a step back adds nothing.
// Needs: one thread uses a stopwatch, or each has its own; start() before look().
// NOTE: a stopwatch loses the time between two looks if the clock stepped back between them.
#pragma once

#include "memory_order.cuh"

// Nanoseconds from one reading of the clock to a later one.
__device__ __forceinline__ word64 ns_between(word64 earlier, word64 later) {
    return later > earlier ? later - earlier : 0;
}

struct Stopwatch {
    word64 last_look;
    word64 elapsed_ns;

    __device__ __forceinline__ void start() {
        go_on();
        elapsed_ns = 0;
    }

    // Leaves the time since the last look out.
    __device__ __forceinline__ void go_on() { last_look = clock_ns(); }

    // Returns the nanoseconds since start(), but for what was left out.
    __device__ __forceinline__ word64 look() {
        const word64 now = clock_ns();
        elapsed_ns += ns_between(last_look, now);
        last_look = now;
        return elapsed_ns;
    }
};

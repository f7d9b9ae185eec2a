// Elapsed time by the GPU's clock, which may step back.
//
// Idea: if the clock steps back between two readings, their difference wraps around to centuries. A stopwatch adds up
//     the time from one look to the next, and a step back adds nothing.
// Needs: one thread for each stopwatch; start() before look().
// NOTE: a step back loses the time between the two looks around it.
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

    // Excludes the time since the last look.
    __device__ __forceinline__ void go_on() { last_look = clock_ns(); }

    // Returns the nanoseconds since start(), without excluded time.
    __device__ __forceinline__ word64 look() {
        const word64 now = clock_ns();
        elapsed_ns += ns_between(last_look, now);
        last_look = now;
        return elapsed_ns;
    }
};

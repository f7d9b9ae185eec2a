#pragma once
#include <cmath>
#include <cfenv>
#include <cstdint>
#include <cstring>
#include <cstdio>
#include <cstdlib>
#include <type_traits>
#include <utility>
#include <sys/mman.h>
#define __CUDA_ARCH__ 900
#define __global__ __attribute__((visibility("default")))
#define __device__
#define __host__
#define __forceinline__ inline
#define __noinline__
#define __launch_bounds__(...)
#define __shared__ static
#define __constant__ static
#define __restrict__
struct uint2 { unsigned x, y; } __attribute__((aligned(8)));
struct uint4 { unsigned x, y, z, w; } __attribute__((aligned(16)));
static inline uint2 make_uint2(unsigned x, unsigned y) { return {x, y}; }
static inline uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w) { return {x, y, z, w}; }
struct emu_dim { unsigned x, y, z; };
extern "C" {
__attribute__((visibility("default"))) extern emu_dim threadIdx, blockIdx, blockDim, gridDim;
}
emu_dim threadIdx, blockIdx, blockDim, gridDim;
static unsigned char* emu_dynamic = nullptr;

enum { kReady, kWaitBlock, kWaitWarp, kExited };
struct EmuThread {
    void* sp;
    int state;
    unsigned mask;
    const char* kind;
    unsigned long long deposit;
    unsigned long long* got;       // snapshot to read
    unsigned long long own[32];
};
static EmuThread* emu_threads;
static unsigned emu_n, emu_live, emu_waiting, emu_current;
static unsigned long long (*emu_ring)[2][32];  // by warp
static unsigned* emu_parity;
static int emu_or, emu_or_result, emu_and, emu_and_result, emu_cnt, emu_cnt_result;
static void* emu_main_sp;
static unsigned char* emu_stacks;
static constexpr size_t kEmuStack = 256 * 1024;
static constexpr unsigned kEmuMost = 1024;
extern "C" __attribute__((visibility("hidden"))) void emu_switch(void** save, void* to);
asm(R"(
.text
.hidden emu_switch
.globl emu_switch
.type emu_switch,@function
emu_switch:
    pushq %rbp
    pushq %rbx
    pushq %r12
    pushq %r13
    pushq %r14
    pushq %r15
    movq %rsp, (%rdi)
    movq %rsi, %rsp
    popq %r15
    popq %r14
    popq %r13
    popq %r12
    popq %rbx
    popq %rbp
    ret
.size emu_switch, .-emu_switch
)");
static void (*emu_body)(void**);
static void** emu_args;
[[noreturn]] static void emu_die(const char* why) {
    fprintf(stderr, "EMU: %s; block %u thread %u\n", why, blockIdx.x, threadIdx.x);
    for (unsigned t = 0; t < emu_n && t < 64; ++t)
        fprintf(stderr, "%u:%d/%08x/%s ", t, emu_threads[t].state, emu_threads[t].mask, emu_threads[t].kind ? emu_threads[t].kind : "");
    fprintf(stderr, "\n");
    abort();
}
static void emu_yield() {
    const unsigned me = emu_current;
    emu_switch(&emu_threads[me].sp, emu_main_sp);
}
static void emu_release_block() {
    emu_or_result = emu_or; emu_or = 0;
    emu_and_result = emu_and; emu_and = 1;
    emu_cnt_result = emu_cnt; emu_cnt = 0;
    emu_waiting = 0;
    for (unsigned t = 0; t < emu_n; ++t) if (emu_threads[t].state == kWaitBlock) emu_threads[t].state = kReady;
}
static void emu_barrier(int value) {
    EmuThread& me = emu_threads[emu_current];
    emu_or |= value; emu_and &= value; emu_cnt += value;
    me.state = kWaitBlock;
    if (++emu_waiting == emu_live) { emu_release_block(); }
    emu_yield();
}
extern "C" { static __attribute__((noinline)) void emu_entry() {
    emu_body(emu_args);
    EmuThread& me = emu_threads[emu_current];
    me.state = kExited;
    --emu_live;
    if (emu_live && emu_waiting == emu_live) emu_release_block();
    emu_yield();
    emu_die("an exited thread ran");
} }
// Deposits a value, and returns the 32 values of the warp.
static unsigned long long* emu_collect(unsigned mask, unsigned long long value, const char* kind) {
    const unsigned t = emu_current, base = t / 32 * 32, lane = t % 32;
    EmuThread& me = emu_threads[t];
    if (!(mask >> lane & 1)) emu_die("a lane calls a collective without being in its mask");
    me.deposit = value; me.mask = mask; me.kind = kind; me.state = kWaitWarp;
    bool all = true;
    for (unsigned l = 0; l < 32; ++l) if (mask >> l & 1) {
        if (base + l >= emu_n) emu_die("a lane of the mask does not exist");
        EmuThread& o = emu_threads[base + l];
        if (o.state == kExited) emu_die("a lane of the mask has exited");
        if (o.state != kWaitWarp) { all = false; break; }
        if (o.mask != mask || o.kind != kind) emu_die("lanes of a warp are at different collectives");
    }
    if (all) {
        unsigned long long* snapshot = nullptr;
        if (mask == ~0u) { snapshot = emu_ring[base / 32][emu_parity[base / 32]++ & 1]; }
        for (unsigned l = 0; l < 32; ++l) if (mask >> l & 1) {
            EmuThread& o = emu_threads[base + l];
            unsigned long long* into = snapshot ? snapshot : o.own;
            if (snapshot) into[l] = o.deposit;
            else for (unsigned k = 0; k < 32; ++k) if (mask >> k & 1) into[k] = emu_threads[base + k].deposit;
            o.got = into;
            o.state = kReady;
        }
        return me.got;
    }
    emu_yield();
    return emu_threads[t].got;
}
static unsigned long long emu_seed = 1;
static unsigned emu_random(unsigned n) {
    emu_seed = emu_seed * 6364136223846793005ull + 1442695040888963407ull;
    return static_cast<unsigned>((emu_seed >> 33) % n);
}
static void emu_run_block(int order) {
    static unsigned places[kEmuMost];
    for (unsigned t = 0; t < emu_n; ++t) {
        EmuThread& th = emu_threads[t];
        th.state = kReady; th.mask = 0; th.kind = nullptr;
        void** top = reinterpret_cast<void**>(emu_stacks + (t + 1) * kEmuStack - 64 * (1 + t % 37));
        *--top = nullptr;                               // return address of emu_entry, aligned
        *--top = reinterpret_cast<void*>(&emu_entry);
        for (int i = 0; i < 6; ++i) *--top = nullptr;
        th.sp = top;
        places[t] = order == 1 ? emu_n - 1 - t : t;
    }
    emu_live = emu_n; emu_waiting = 0; emu_or = 0; emu_and = 1; emu_cnt = 0;
    while (emu_live) {
        if (order == 2) for (unsigned i = emu_n - 1; i > 0; --i) std::swap(places[i], places[emu_random(i + 1)]);
        bool ran = false;
        for (unsigned i = 0; i < emu_n; ++i) {
            const unsigned t = places[i];
            // In random order, some wait for a later pass.
            if (emu_threads[t].state != kReady) continue;
            ran = true;
            if (order == 2 && emu_live > 1 && emu_random(16) == 0) continue;
            emu_current = t; threadIdx.x = t;
            emu_switch(&emu_main_sp, emu_threads[t].sp);
        }
        if (!ran) emu_die("deadlock");
    }
}
template <class... A, size_t... I>
static void emu_apply(void (*f)(A...), void** p, std::index_sequence<I...>) {
    f(*reinterpret_cast<std::remove_const_t<A>*>(p[I])...);
}
template <class... A> static void emu_call(void (*f)(A...), void** p) { emu_apply(f, p, std::index_sequence_for<A...>{}); }
template <class... A>
static int emu_check(void (*)(A...), const size_t* sizes, size_t n) {
    const size_t wanted[] = {sizeof(A)..., 0};
    if (n != sizeof...(A)) return -1;
    for (size_t i = 0; i < n; ++i) if (sizes[i] != wanted[i]) return static_cast<int>(i) + 1;
    return 0;
}
static int emu_launch(unsigned grid, unsigned block, size_t shared, void (*body)(void**), void** args, int order, unsigned long long seed) {
    if (!emu_stacks) {
        emu_stacks = static_cast<unsigned char*>(mmap(nullptr, kEmuMost * kEmuStack, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
        emu_threads = static_cast<EmuThread*>(calloc(kEmuMost, sizeof(EmuThread)));
        emu_ring = static_cast<unsigned long long (*)[2][32]>(calloc(kEmuMost / 32, 2 * 32 * 8));
        emu_parity = static_cast<unsigned*>(calloc(kEmuMost / 32, 4));
    }
    if (block > kEmuMost || block == 0 || grid == 0) return -2;
    gridDim = {grid, 1, 1}; blockDim = {block, 1, 1};
    emu_n = block; emu_body = body; emu_args = args; emu_seed = seed * 2 + 1;
    emu_dynamic = shared ? static_cast<unsigned char*>(aligned_alloc(16, (shared + 15) / 16 * 16)) : nullptr;
    const unsigned off = order == 2 ? emu_random(grid) : 0;
    for (unsigned b = 0; b < grid; ++b) {
        const unsigned which = order == 1 ? grid - 1 - b : (b + off) % grid;
        blockIdx = {which, 0, 0};
        threadIdx = {0, 0, 0};
        if (shared) memset(emu_dynamic, 0x5A, shared);
        emu_run_block(order);
    }
    free(emu_dynamic); emu_dynamic = nullptr;
    return 0;
}
#define EMU_KERNEL(name)                                                                                        \
    static void emu_body_##name(void** p) { emu_call(&name, p); }                                               \
    extern "C" __attribute__((visibility("default"))) int emu_run_##name(                                       \
        unsigned grid, unsigned block, size_t shared, void** args, const size_t* sizes, size_t n, int order,    \
        unsigned long long seed) {                                                                              \
        if (int bad = emu_check(&name, sizes, n)) return bad;                                                   \
        return emu_launch(grid, block, shared, &emu_body_##name, args, order, seed);                            \
    }

// ---- CUDA's functions ----
static inline void __syncthreads() { emu_barrier(0); }
static inline int __syncthreads_or(int p) { emu_barrier(p != 0); return emu_or_result; }
static inline int __syncthreads_and(int p) { emu_barrier(p != 0); return emu_and_result; }
static inline int __syncthreads_count(int p) { emu_barrier(p != 0); return emu_cnt_result; }
static inline void __syncwarp(unsigned mask = ~0u) { emu_collect(mask, 0, "syncwarp"); }
template <class T> static inline unsigned long long emu_bits(T v) { unsigned long long b = 0; static_assert(sizeof(T) <= 8); memcpy(&b, &v, sizeof(T)); return b; }
template <class T> static inline T emu_value(unsigned long long b) { T v; memcpy(&v, &b, sizeof(T)); return v; }
template <class T> static inline T emu_read(unsigned mask, unsigned long long* got, unsigned lane) {
    if (!(mask >> lane & 1)) emu_die("a lane reads one that is not in the mask");
    return emu_value<T>(got[lane]);
}
template <class T> static inline T __shfl_sync(unsigned m, T v, int from) { auto* g = emu_collect(m, emu_bits(v), "shfl"); return emu_read<T>(m, g, from & 31); }
template <class T> static inline T __shfl_xor_sync(unsigned m, T v, int by) { auto* g = emu_collect(m, emu_bits(v), "xor"); return emu_read<T>(m, g, (threadIdx.x % 32) ^ by); }
template <class T> static inline T __shfl_down_sync(unsigned m, T v, unsigned by) { auto* g = emu_collect(m, emu_bits(v), "down"); unsigned l = threadIdx.x % 32; return l + by < 32 ? emu_read<T>(m, g, l + by) : v; }
template <class T> static inline T __shfl_up_sync(unsigned m, T v, unsigned by) { auto* g = emu_collect(m, emu_bits(v), "up"); unsigned l = threadIdx.x % 32; return l >= by ? emu_read<T>(m, g, l - by) : v; }
static inline unsigned __ballot_sync(unsigned m, int p) { auto* g = emu_collect(m, p != 0, "ballot"); unsigned r = 0; for (int l = 0; l < 32; ++l) if (m >> l & 1) r |= unsigned(g[l]) << l; return r; }
static inline int __any_sync(unsigned m, int p) { return __ballot_sync(m, p) != 0; }
static inline int __all_sync(unsigned m, int p) { return __ballot_sync(m, p) == m; }
static inline unsigned __reduce_add_sync(unsigned m, unsigned v) { auto* g = emu_collect(m, v, "radd"); unsigned r = 0; for (int l = 0; l < 32; ++l) if (m >> l & 1) r += unsigned(g[l]); return r; }
static inline unsigned __reduce_min_sync(unsigned m, unsigned v) { auto* g = emu_collect(m, v, "rmin"); unsigned r = ~0u; for (int l = 0; l < 32; ++l) if ((m >> l & 1) && unsigned(g[l]) < r) r = unsigned(g[l]); return r; }
static inline unsigned __reduce_max_sync(unsigned m, unsigned v) { auto* g = emu_collect(m, v, "rmax"); unsigned r = 0; for (int l = 0; l < 32; ++l) if ((m >> l & 1) && unsigned(g[l]) > r) r = unsigned(g[l]); return r; }
static inline unsigned __reduce_or_sync(unsigned m, unsigned v) { auto* g = emu_collect(m, v, "ror"); unsigned r = 0; for (int l = 0; l < 32; ++l) if (m >> l & 1) r |= unsigned(g[l]); return r; }
template <class T> static inline unsigned __match_any_sync(unsigned m, T v) { auto* g = emu_collect(m, emu_bits(v), "match"); unsigned r = 0; for (int l = 0; l < 32; ++l) if ((m >> l & 1) && g[l] == emu_bits(v)) r |= 1u << l; return r; }
static inline unsigned __activemask() { return 1u << threadIdx.x % 32; }
static inline int __popc(unsigned v) { return __builtin_popcount(v); }
static inline int __popcll(unsigned long long v) { return __builtin_popcountll(v); }
static inline int __clz(int v) { return v ? __builtin_clz(v) : 32; }
static inline int __clzll(long long v) { return v ? __builtin_clzll(v) : 64; }
static inline int __ffs(int v) { return __builtin_ffs(v); }
static inline size_t __cvta_generic_to_shared(const void* place) { return reinterpret_cast<size_t>(place); }
static inline int __ffsll(long long v) { return __builtin_ffsll(v); }
static inline unsigned __byte_perm(unsigned a, unsigned b, unsigned s) {
    const unsigned long long bytes = (unsigned long long)b << 32 | a;
    unsigned r = 0;
    for (int i = 0; i < 4; ++i) r |= unsigned(bytes >> (s >> 4 * i & 7) * 8 & 0xff) << 8 * i;
    return r;
}
static inline unsigned __vminu2(unsigned a, unsigned b) {
    const unsigned upper = (a >> 16) < (b >> 16) ? a : b, lower = (a & 0xffff) < (b & 0xffff) ? a : b;
    return (upper & 0xffff0000) | (lower & 0xffff);
}
static inline unsigned __vmaxu2(unsigned a, unsigned b) { return a ^ b ^ __vminu2(a, b); }
static inline unsigned __viaddmin_u16x2(unsigned a, unsigned b, unsigned c) {
    return __vminu2(((a & 0xffff0000) + (b & 0xffff0000)) | ((a + b) & 0xffff), c);
}
static inline unsigned long long __umul64hi(unsigned long long a, unsigned long long b) { return (unsigned long long)((unsigned __int128)a * b >> 64); }
static inline float __uint_as_float(unsigned v) { return emu_value<float>(v); }
static inline unsigned __float_as_uint(float v) { return unsigned(emu_bits(v)); }
static inline double __longlong_as_double(long long v) { return emu_value<double>(v); }
static inline long long __double_as_longlong(double v) { return emu_bits(v); }
// CuPy compiles with -ftz=true: operands and results that are subnormal floats become zero.
static inline float emu_flushed(float a) { return std::fpclassify(a) == FP_SUBNORMAL ? std::copysign(0.0f, a) : a; }
template <class T> static inline T emu_flushed(T a) { return a; }
// Runs an operation with another rounding. The compiler may not move it out: its operands are volatile.
template <class A, class B, class F> static inline float emu_rounded(int mode, A a, B b, F operation) {
    const int usual = std::fegetround();
    volatile A first = emu_flushed(a); volatile B second = emu_flushed(b);
    std::fesetround(mode);
    volatile float result = operation(first, second);
    std::fesetround(usual);
    return emu_flushed(float(result));
}
#define EMU_ROUNDED(ending, mode)                                                                                        \
    static inline float __fadd_##ending(float a, float b) { return emu_rounded(mode, a, b, [](float x, float y) { return x + y; }); } \
    static inline float __uint2float_##ending(unsigned a) { return emu_rounded(mode, a, 0, [](unsigned x, int) { return float(x); }); } \
    static inline float __ull2float_##ending(unsigned long long a) { return emu_rounded(mode, a, 0, [](unsigned long long x, int) { return float(x); }); } \
    static inline float __double2float_##ending(double a) { return emu_rounded(mode, a, 0, [](double x, int) { return float(x); }); }
EMU_ROUNDED(rd, FE_DOWNWARD)
EMU_ROUNDED(ru, FE_UPWARD)
static inline double __dadd_rn(double a, double b) { return a + b; }
static inline double __dmul_rn(double a, double b) { return a * b; }
static inline double __drcp_rn(double a) { return 1.0 / a; }
static inline double __ull2double_rn(unsigned long long a) { return double(a); }
static inline unsigned long long __double2ull_rz(double a) { return (unsigned long long)a; }
static inline void __threadfence() {}
static inline void __threadfence_block() {}
static inline void __nanosleep(unsigned) {}
template <class T> static inline T __ldg(const T* p) { return *p; }
template <class T> static inline T __ldcs(const T* p) { return *p; }
template <class T> static inline T __ldcg(const T* p) { return *p; }
template <class T> static inline void __stcs(T* p, T v) { *p = v; }
template <class T, class U> static inline T atomicAdd(T* p, U v) { T o = *p; *p = o + T(v); return o; }
template <class T, class U> static inline T atomicMin(T* p, U v) { static_assert(sizeof(T) == sizeof(U)); T o = *p; if (T(v) < o) *p = T(v); return o; }
template <class T, class U> static inline T atomicMax(T* p, U v) { static_assert(sizeof(T) == sizeof(U)); T o = *p; if (T(v) > o) *p = T(v); return o; }
template <class T, class U> static inline T atomicOr(T* p, U v) { T o = *p; *p = o | T(v); return o; }
template <class T, class U> static inline T atomicAnd(T* p, U v) { T o = *p; *p = o & T(v); return o; }
template <class T, class U> static inline T atomicExch(T* p, U v) { T o = *p; *p = T(v); return o; }
template <class T, class U, class V> static inline T atomicCAS(T* p, U c, V v) { T o = *p; if (o == T(c)) *p = T(v); return o; }
template <class A, class B> static constexpr inline std::common_type_t<A, B> min(A a, B b) { using C = std::common_type_t<A, B>; return C(b) < C(a) ? C(b) : C(a); }
template <class A, class B> static constexpr inline std::common_type_t<A, B> max(A a, B b) { using C = std::common_type_t<A, B>; return C(a) < C(b) ? C(b) : C(a); }

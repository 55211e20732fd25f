// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// The instructions of the general tensor-core kernel, sm_80 and later: asynchronous copies into
// shared memory, ldmatrix, and mma.sync. One function an instruction; the section of the PTX ISA
// that defines it stands above.
#pragma once
#include "convert.cuh"

namespace culet::kernels {

// --- "Data Movement and Conversion Instructions: cp.async" ---------------------------------------

/// Copies `Bytes` (4, 8 or 16, both addresses aligned to as many) to shared memory. 16 bytes pass
/// by L1, which nothing would read again.
template <int Bytes>
CULET_DEVICE void copy_async(u32 shared, const void* from) {
  if constexpr (Bytes == 16) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(shared), "l"(from) : "memory");
  } else {
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2;" ::"r"(shared), "l"(from), "n"(Bytes)
                 : "memory");
  }
}
/// The same of which only the first `valid` bytes are read; the others become zero.
template <int Bytes>
CULET_DEVICE void copy_async(u32 shared, const void* from, u32 valid) {
  if constexpr (Bytes == 16) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared), "l"(from),
                 "r"(valid)
                 : "memory");
  } else {
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;" ::"r"(shared), "l"(from),
                 "n"(Bytes), "r"(valid)
                 : "memory");
  }
}
CULET_DEVICE void copy_async_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
/// Until at most `Pending` of this thread's latest groups are still under way.
template <int Pending>
CULET_DEVICE void copy_async_wait() {
  asm volatile("cp.async.wait_group %0;" ::"n"(Pending) : "memory");
}

// --- "... ld, st"
// ------------------------------------------------------------------------------------

/// `Size` (1, 2 or 4) bytes of memory that nobody writes while the kernel runs.
template <int Size>
CULET_DEVICE u32 load_global(const u8* from) {
  u32 word;
  if constexpr (Size == 4) {
    asm volatile("ld.global.nc.u32 %0, [%1];" : "=r"(word) : "l"(from));
  } else if constexpr (Size == 2) {
    u16 half;
    asm volatile("ld.global.nc.u16 %0, [%1];" : "=h"(half) : "l"(from));
    word = half;
  } else {
    asm volatile("ld.global.nc.u8 %0, [%1];" : "=r"(word) : "l"(from));
  }
  return word;
}
/// 16 bytes of the same.
CULET_DEVICE void load_global(const u8* from, u32 (&x)[4]) {
  asm volatile("ld.global.nc.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(x[0]), "=r"(x[1]), "=r"(x[2]), "=r"(x[3])
               : "l"(from));
}
CULET_DEVICE void store_shared(u32 shared, u32 word) {
  asm volatile("st.shared.u32 [%0], %1;" ::"r"(shared), "r"(word) : "memory");
}

/// `Size` (1 or 2) bytes.
template <int Size>
CULET_DEVICE void store_shared_element(u32 shared, u32 element) {
  if constexpr (Size == 2) {
    asm volatile("st.shared.u16 [%0], %1;" ::"r"(shared), "h"(static_cast<u16>(element))
                 : "memory");
  } else {
    asm volatile("st.shared.u8 [%0], %1;" ::"r"(shared), "r"(element) : "memory");
  }
}
CULET_DEVICE void store_shared(u32 shared, const u32 (&x)[4]) {
  asm volatile("st.shared.v4.u32 [%0], {%1, %2, %3, %4};" ::"r"(shared), "r"(x[0]), "r"(x[1]),
               "r"(x[2]), "r"(x[3])
               : "memory");
}

// --- "Warp-level Matrix Load Instruction: ldmatrix" ----------------------------------------------

/// Four matrices of 8 rows of 16 bytes; lanes 8i .. 8i+7 give the rows of matrix i. Transposed,
/// 16-bit elements change places.
template <bool Transposed>
CULET_DEVICE void load_matrices(u32 shared, u32 (&x)[4]) {
  if constexpr (Transposed) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(x[0]), "=r"(x[1]), "=r"(x[2]), "=r"(x[3])
                 : "r"(shared)
                 : "memory");
  } else {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(x[0]), "=r"(x[1]), "=r"(x[2]), "=r"(x[3])
                 : "r"(shared)
                 : "memory");
  }
}

// --- "Warp-level Matrix Instructions: mma" -------------------------------------------------------

#define CULET_MMA(NAME, SHAPE, ACC, CONSTRAINT, T, A, B)                                         \
  CULET_DEVICE void NAME(T* d, const u32* a, const u32* b) {                                     \
    asm("mma.sync.aligned." SHAPE ".row.col." ACC "." A "." B "." ACC                            \
        " {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"                       \
        : "+" CONSTRAINT(d[0]), "+" CONSTRAINT(d[1]), "+" CONSTRAINT(d[2]), "+" CONSTRAINT(d[3]) \
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));                     \
  }
CULET_MMA(mma_f16, "m16n8k16", "f32", "f", float, "f16", "f16")
CULET_MMA(mma_bf16, "m16n8k16", "f32", "f", float, "bf16", "bf16")
CULET_MMA(mma_s8_s8, "m16n8k32", "s32", "r", i32, "s8", "s8")
CULET_MMA(mma_s8_u8, "m16n8k32", "s32", "r", i32, "s8", "u8")
CULET_MMA(mma_u8_s8, "m16n8k32", "s32", "r", i32, "u8", "s8")
CULET_MMA(mma_u8_u8, "m16n8k32", "s32", "r", i32, "u8", "u8")
#undef CULET_MMA

// --- "Data Movement and Conversion Instructions: cvt, prmt, shf" ---------------------------------

/// The two 8-bit floats in the low or high half of a word as two f16, exactly. f16 holds every
/// value of both types.
template <DType Type>
CULET_DEVICE u32 halves_of(u32 word, bool high) {
  if constexpr (Type == DType::e5m2) {  // f16 with fewer bits
    return __byte_perm(word, 0, high ? 0x3424 : 0x1404);
  } else {
#if __CUDA_ARCH__ >= 890
    u32 pair;
    asm("cvt.rn.f16x2.e4m3x2 %0, %1;"
        : "=r"(pair)
        : "h"(static_cast<u16>(high ? word >> 16 : word)));
    return pair;
#else
    // As f16 its exponent is 8 too small; the one code of NaN, all ones, would become 480.
    const u32 bytes = __byte_perm(word, 0, high ? 0x3424 : 0x1404);
    const u32 magnitude = bytes & 0x7F007F00;
    u32 pair = (bytes & 0x80008000) | magnitude >> 1;
    asm("mul.rn.f16x2 %0, %0, %1;" : "+r"(pair) : "r"(0x5C005C00));  // 2^8
    const u32 nan = (magnitude + 0x01000100) & 0x80008000;
    return pair | (nan >> 5) * 31;
#endif
  }
}

/// Of values: `chosen ? array[i] : array[j]` is a choice of addresses, and keeps arrays in memory.
CULET_DEVICE u32 choose(bool chosen, u32 x, u32 y) { return chosen ? x : y; }
/// 16 of 32 bytes, from byte `shift` (0 to 15) of them on.
CULET_DEVICE void shift_bytes(const u32 (&low)[4], const u32 (&high)[4], u32 shift, u32 (&x)[4]) {
  const bool eight = (shift & 8) != 0, four = (shift & 4) != 0;
  const u32 by8[6] = {choose(eight, low[2], low[0]),   choose(eight, low[3], low[1]),
                      choose(eight, high[0], low[2]),  choose(eight, high[1], low[3]),
                      choose(eight, high[2], high[0]), choose(eight, high[3], high[1])};
  u32 by4[5];
#pragma unroll
  for (int i = 0; i < 5; ++i) by4[i] = choose(four, by8[i + 1], by8[i]);
#pragma unroll
  for (int i = 0; i < 4; ++i) x[i] = __funnelshift_r(by4[i], by4[i + 1], 8 * (shift & 3));
}
/// Keeps the first `valid` bytes of 16; the others become zero.
CULET_DEVICE void keep_bytes(u32 valid, u32 (&x)[4]) {
#pragma unroll
  for (u32 i = 0; i < 4; ++i) {
    const u32 bits = valid > 4 * i ? 8 * (valid - 4 * i) : 0;
    // A clamped funnel shift: all ones for 32 bits and more.
    x[i] &= __funnelshift_lc(0xFFFFFFFF, 0, bits);
  }
}

/// Four words of four bytes as a matrix of bytes, transposed.
CULET_DEVICE void transpose_bytes(u32 (&x)[4]) {
  const u32 low01 = __byte_perm(x[0], x[1], 0x5140), high01 = __byte_perm(x[0], x[1], 0x7362);
  const u32 low23 = __byte_perm(x[2], x[3], 0x5140), high23 = __byte_perm(x[2], x[3], 0x7362);
  x[0] = __byte_perm(low01, low23, 0x5410);
  x[1] = __byte_perm(low01, low23, 0x7632);
  x[2] = __byte_perm(high01, high23, 0x5410);
  x[3] = __byte_perm(high01, high23, 0x7632);
}

}  // namespace culet::kernels

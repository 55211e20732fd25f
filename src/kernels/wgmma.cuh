// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// The warpgroup matrix instruction, one wrapper for every legal width. PTX ISA, "Asynchronous
// warpgroup-level matrix instructions". The operand list of an asm statement cannot be a loop, so
// the lists are built four registers (eight columns) at a time by the preprocessor.
//
// Wrappers exist for the pair of element types that the translation unit names before it includes
// this file, as in
//
//     #define CULET_WGMMA_A e4m3
//     #define CULET_WGMMA_B e5m2
//
// and for bf16*bf16 and f16*f16 where it names none. Each pair takes 10 ms to parse; all eleven
// would double the time of compiling a small kernel.
#pragma once
#include "ptx.cuh"

namespace culet::kernels {

/// Accumulators must be ready before the first WGMMA reads them.
CULET_DEVICE void wgmma_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
CULET_DEVICE void wgmma_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
/// Until at most `Pending` of the latest groups are still running.
template <int Pending>
CULET_DEVICE void wgmma_wait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(Pending) : "memory");
}
/// Keeps the compiler from moving accesses to accumulators across this point.
template <int Count>
CULET_DEVICE void pin_registers(float (&registers)[Count]) {
#pragma unroll
  for (int i = 0; i < Count; ++i) asm volatile("" : "+f"(registers[i])::"memory");
}
template <int Count>
CULET_DEVICE void pin_registers(i32 (&registers)[Count]) {
#pragma unroll
  for (int i = 0; i < Count; ++i) asm volatile("" : "+r"(registers[i])::"memory");
}

/// Bytes of k that one instruction takes, whatever the element type.
constexpr int kWgmmaBytesOfK = 32;

/// What WGMMA sums products of a type in.
template <DType Type>
struct WgmmaSum {
  using Accumulator = float;
};
template <>
struct WgmmaSum<DType::s8> {
  using Accumulator = i32;
};
template <>
struct WgmmaSum<DType::u8> {
  using Accumulator = i32;
};

/// `Wgmma<A, N, B>::run(d, a, b, keep)`: d[64 x N] = a[64 x K] * b[K x N] + (keep ? d : 0), where K
/// is 32 bytes of elements, with a and b given by descriptors. d is i32 for 8-bit integers (exact,
/// wrapping around), else float; of 8-bit floats the sum has fewer bits than a float. Operands are
/// contiguous in k, but 16-bit ones may be contiguous in m (`run<1, 0>`), n (`run<0, 1>`) or both.
/// Widths are multiples of 8 up to 256; of integers, 8, 16, 24 and multiples of 16.
template <DType A, int N, DType B = A>
struct Wgmma;

// clang-format off
#define CULET_OPERANDS_4 CULET_INOUT(d[0]), CULET_INOUT(d[1]), CULET_INOUT(d[2]), CULET_INOUT(d[3])
#define CULET_NAMES_4 "%0, %1, %2, %3"
#define CULET_OPERANDS_8 CULET_OPERANDS_4, CULET_INOUT(d[4]), CULET_INOUT(d[5]), CULET_INOUT(d[6]), CULET_INOUT(d[7])
#define CULET_NAMES_8 CULET_NAMES_4 ", %4, %5, %6, %7"
#define CULET_OPERANDS_12 CULET_OPERANDS_8, CULET_INOUT(d[8]), CULET_INOUT(d[9]), CULET_INOUT(d[10]), CULET_INOUT(d[11])
#define CULET_NAMES_12 CULET_NAMES_8 ", %8, %9, %10, %11"
#define CULET_OPERANDS_16 CULET_OPERANDS_12, CULET_INOUT(d[12]), CULET_INOUT(d[13]), CULET_INOUT(d[14]), CULET_INOUT(d[15])
#define CULET_NAMES_16 CULET_NAMES_12 ", %12, %13, %14, %15"
#define CULET_OPERANDS_20 CULET_OPERANDS_16, CULET_INOUT(d[16]), CULET_INOUT(d[17]), CULET_INOUT(d[18]), CULET_INOUT(d[19])
#define CULET_NAMES_20 CULET_NAMES_16 ", %16, %17, %18, %19"
#define CULET_OPERANDS_24 CULET_OPERANDS_20, CULET_INOUT(d[20]), CULET_INOUT(d[21]), CULET_INOUT(d[22]), CULET_INOUT(d[23])
#define CULET_NAMES_24 CULET_NAMES_20 ", %20, %21, %22, %23"
#define CULET_OPERANDS_28 CULET_OPERANDS_24, CULET_INOUT(d[24]), CULET_INOUT(d[25]), CULET_INOUT(d[26]), CULET_INOUT(d[27])
#define CULET_NAMES_28 CULET_NAMES_24 ", %24, %25, %26, %27"
#define CULET_OPERANDS_32 CULET_OPERANDS_28, CULET_INOUT(d[28]), CULET_INOUT(d[29]), CULET_INOUT(d[30]), CULET_INOUT(d[31])
#define CULET_NAMES_32 CULET_NAMES_28 ", %28, %29, %30, %31"
#define CULET_OPERANDS_36 CULET_OPERANDS_32, CULET_INOUT(d[32]), CULET_INOUT(d[33]), CULET_INOUT(d[34]), CULET_INOUT(d[35])
#define CULET_NAMES_36 CULET_NAMES_32 ", %32, %33, %34, %35"
#define CULET_OPERANDS_40 CULET_OPERANDS_36, CULET_INOUT(d[36]), CULET_INOUT(d[37]), CULET_INOUT(d[38]), CULET_INOUT(d[39])
#define CULET_NAMES_40 CULET_NAMES_36 ", %36, %37, %38, %39"
#define CULET_OPERANDS_44 CULET_OPERANDS_40, CULET_INOUT(d[40]), CULET_INOUT(d[41]), CULET_INOUT(d[42]), CULET_INOUT(d[43])
#define CULET_NAMES_44 CULET_NAMES_40 ", %40, %41, %42, %43"
#define CULET_OPERANDS_48 CULET_OPERANDS_44, CULET_INOUT(d[44]), CULET_INOUT(d[45]), CULET_INOUT(d[46]), CULET_INOUT(d[47])
#define CULET_NAMES_48 CULET_NAMES_44 ", %44, %45, %46, %47"
#define CULET_OPERANDS_52 CULET_OPERANDS_48, CULET_INOUT(d[48]), CULET_INOUT(d[49]), CULET_INOUT(d[50]), CULET_INOUT(d[51])
#define CULET_NAMES_52 CULET_NAMES_48 ", %48, %49, %50, %51"
#define CULET_OPERANDS_56 CULET_OPERANDS_52, CULET_INOUT(d[52]), CULET_INOUT(d[53]), CULET_INOUT(d[54]), CULET_INOUT(d[55])
#define CULET_NAMES_56 CULET_NAMES_52 ", %52, %53, %54, %55"
#define CULET_OPERANDS_60 CULET_OPERANDS_56, CULET_INOUT(d[56]), CULET_INOUT(d[57]), CULET_INOUT(d[58]), CULET_INOUT(d[59])
#define CULET_NAMES_60 CULET_NAMES_56 ", %56, %57, %58, %59"
#define CULET_OPERANDS_64 CULET_OPERANDS_60, CULET_INOUT(d[60]), CULET_INOUT(d[61]), CULET_INOUT(d[62]), CULET_INOUT(d[63])
#define CULET_NAMES_64 CULET_NAMES_60 ", %60, %61, %62, %63"
#define CULET_OPERANDS_68 CULET_OPERANDS_64, CULET_INOUT(d[64]), CULET_INOUT(d[65]), CULET_INOUT(d[66]), CULET_INOUT(d[67])
#define CULET_NAMES_68 CULET_NAMES_64 ", %64, %65, %66, %67"
#define CULET_OPERANDS_72 CULET_OPERANDS_68, CULET_INOUT(d[68]), CULET_INOUT(d[69]), CULET_INOUT(d[70]), CULET_INOUT(d[71])
#define CULET_NAMES_72 CULET_NAMES_68 ", %68, %69, %70, %71"
#define CULET_OPERANDS_76 CULET_OPERANDS_72, CULET_INOUT(d[72]), CULET_INOUT(d[73]), CULET_INOUT(d[74]), CULET_INOUT(d[75])
#define CULET_NAMES_76 CULET_NAMES_72 ", %72, %73, %74, %75"
#define CULET_OPERANDS_80 CULET_OPERANDS_76, CULET_INOUT(d[76]), CULET_INOUT(d[77]), CULET_INOUT(d[78]), CULET_INOUT(d[79])
#define CULET_NAMES_80 CULET_NAMES_76 ", %76, %77, %78, %79"
#define CULET_OPERANDS_84 CULET_OPERANDS_80, CULET_INOUT(d[80]), CULET_INOUT(d[81]), CULET_INOUT(d[82]), CULET_INOUT(d[83])
#define CULET_NAMES_84 CULET_NAMES_80 ", %80, %81, %82, %83"
#define CULET_OPERANDS_88 CULET_OPERANDS_84, CULET_INOUT(d[84]), CULET_INOUT(d[85]), CULET_INOUT(d[86]), CULET_INOUT(d[87])
#define CULET_NAMES_88 CULET_NAMES_84 ", %84, %85, %86, %87"
#define CULET_OPERANDS_92 CULET_OPERANDS_88, CULET_INOUT(d[88]), CULET_INOUT(d[89]), CULET_INOUT(d[90]), CULET_INOUT(d[91])
#define CULET_NAMES_92 CULET_NAMES_88 ", %88, %89, %90, %91"
#define CULET_OPERANDS_96 CULET_OPERANDS_92, CULET_INOUT(d[92]), CULET_INOUT(d[93]), CULET_INOUT(d[94]), CULET_INOUT(d[95])
#define CULET_NAMES_96 CULET_NAMES_92 ", %92, %93, %94, %95"
#define CULET_OPERANDS_100 CULET_OPERANDS_96, CULET_INOUT(d[96]), CULET_INOUT(d[97]), CULET_INOUT(d[98]), CULET_INOUT(d[99])
#define CULET_NAMES_100 CULET_NAMES_96 ", %96, %97, %98, %99"
#define CULET_OPERANDS_104 CULET_OPERANDS_100, CULET_INOUT(d[100]), CULET_INOUT(d[101]), CULET_INOUT(d[102]), CULET_INOUT(d[103])
#define CULET_NAMES_104 CULET_NAMES_100 ", %100, %101, %102, %103"
#define CULET_OPERANDS_108 CULET_OPERANDS_104, CULET_INOUT(d[104]), CULET_INOUT(d[105]), CULET_INOUT(d[106]), CULET_INOUT(d[107])
#define CULET_NAMES_108 CULET_NAMES_104 ", %104, %105, %106, %107"
#define CULET_OPERANDS_112 CULET_OPERANDS_108, CULET_INOUT(d[108]), CULET_INOUT(d[109]), CULET_INOUT(d[110]), CULET_INOUT(d[111])
#define CULET_NAMES_112 CULET_NAMES_108 ", %108, %109, %110, %111"
#define CULET_OPERANDS_116 CULET_OPERANDS_112, CULET_INOUT(d[112]), CULET_INOUT(d[113]), CULET_INOUT(d[114]), CULET_INOUT(d[115])
#define CULET_NAMES_116 CULET_NAMES_112 ", %112, %113, %114, %115"
#define CULET_OPERANDS_120 CULET_OPERANDS_116, CULET_INOUT(d[116]), CULET_INOUT(d[117]), CULET_INOUT(d[118]), CULET_INOUT(d[119])
#define CULET_NAMES_120 CULET_NAMES_116 ", %116, %117, %118, %119"
#define CULET_OPERANDS_124 CULET_OPERANDS_120, CULET_INOUT(d[120]), CULET_INOUT(d[121]), CULET_INOUT(d[122]), CULET_INOUT(d[123])
#define CULET_NAMES_124 CULET_NAMES_120 ", %120, %121, %122, %123"
#define CULET_OPERANDS_128 CULET_OPERANDS_124, CULET_INOUT(d[124]), CULET_INOUT(d[125]), CULET_INOUT(d[126]), CULET_INOUT(d[127])
#define CULET_NAMES_128 CULET_NAMES_124 ", %124, %125, %126, %127"

// Kinds of element types: 1 16-bit float, 2 8-bit float, 3 8-bit integer.
#define CULET_KIND_bf16 1
#define CULET_KIND_f16 1
#define CULET_KIND_e4m3 2
#define CULET_KIND_e5m2 2
#define CULET_KIND_s8 3
#define CULET_KIND_u8 3
#define CULET_KIND_OF(TYPE) CULET_PASTE(CULET_KIND_, TYPE)
#define CULET_PASTE(X, Y) CULET_PASTE_(X, Y)
#define CULET_PASTE_(X, Y) X##Y
#define CULET_STRING(X) CULET_STRING_(X)
#define CULET_STRING_(X) #X

#ifdef CULET_WGMMA_A
#define CULET_KIND CULET_KIND_OF(CULET_WGMMA_A)
#define CULET_WGMMA(...) CULET_WGMMA_PAIR(CULET_WGMMA_A, CULET_WGMMA_B, __VA_ARGS__)
#else
#define CULET_KIND 1
#define CULET_WGMMA(...)                                                                              \
  CULET_WGMMA_PAIR(bf16, bf16, __VA_ARGS__)                                                           \
  CULET_WGMMA_PAIR(f16, f16, __VA_ARGS__)
#endif

// What kinds differ in: the accumulators' registers, the k and type of the sum, and which flags
// follow the operands (signs of A and B for floats, then, for 16 bits, "not contiguous in k").
#if CULET_KIND == 1
#define CULET_INOUT(X) "+f"(X)
#define CULET_SHAPE "k16.f32."
#define CULET_FLAGS(ACROSS_A, ACROSS_B) ", 1, 1, %" #ACROSS_A ", %" #ACROSS_B
#elif CULET_KIND == 2
#define CULET_INOUT(X) "+f"(X)
#define CULET_SHAPE "k32.f32."
#define CULET_FLAGS(ACROSS_A, ACROSS_B) ", 1, 1"
#else
#define CULET_INOUT(X) "+r"(X)
#define CULET_SHAPE "k32.s32."
#define CULET_FLAGS(ACROSS_A, ACROSS_B) ""
#endif

#define CULET_WGMMA_PAIR(TA, TB, N, REGISTERS, A, B, KEEP, ACROSS_A, ACROSS_B)                        \
  template <>                                                                                         \
  struct Wgmma<DType::TA, N, DType::TB> {                                                             \
    using Accumulator = WgmmaSum<DType::TA>::Accumulator;                                             \
    template <int AcrossA = 0, int AcrossB = 0>                                                       \
    static CULET_DEVICE void run(Accumulator (&d)[REGISTERS], u64 a, u64 b, int keep) {               \
      static_assert(CULET_KIND == 1 || AcrossA + AcrossB == 0, "8-bit operands: k-major only");       \
      asm volatile(                                                                                   \
          "{ .reg .pred p; setp.ne.b32 p, %" #KEEP ", 0;"                                             \
          " wgmma.mma_async.sync.aligned.m64n" #N CULET_SHAPE CULET_STRING(TA) "." CULET_STRING(TB)   \
          " {" CULET_NAMES_##REGISTERS "}, %" #A ", %" #B ", p" CULET_FLAGS(ACROSS_A, ACROSS_B) "; }" \
          : CULET_OPERANDS_##REGISTERS                                                                \
          : "l"(a), "l"(b), "r"(keep), "n"(AcrossA), "n"(AcrossB));                                   \
    }                                                                                                 \
  };

CULET_WGMMA(8, 4, 4, 5, 6, 7, 8)
CULET_WGMMA(16, 8, 8, 9, 10, 11, 12)
CULET_WGMMA(24, 12, 12, 13, 14, 15, 16)
CULET_WGMMA(32, 16, 16, 17, 18, 19, 20)
CULET_WGMMA(48, 24, 24, 25, 26, 27, 28)
CULET_WGMMA(64, 32, 32, 33, 34, 35, 36)
CULET_WGMMA(80, 40, 40, 41, 42, 43, 44)
CULET_WGMMA(96, 48, 48, 49, 50, 51, 52)
CULET_WGMMA(112, 56, 56, 57, 58, 59, 60)
CULET_WGMMA(128, 64, 64, 65, 66, 67, 68)
CULET_WGMMA(144, 72, 72, 73, 74, 75, 76)
CULET_WGMMA(160, 80, 80, 81, 82, 83, 84)
CULET_WGMMA(176, 88, 88, 89, 90, 91, 92)
CULET_WGMMA(192, 96, 96, 97, 98, 99, 100)
CULET_WGMMA(208, 104, 104, 105, 106, 107, 108)
CULET_WGMMA(224, 112, 112, 113, 114, 115, 116)
CULET_WGMMA(240, 120, 120, 121, 122, 123, 124)
CULET_WGMMA(256, 128, 128, 129, 130, 131, 132)
#if CULET_KIND != 3
CULET_WGMMA(40, 20, 20, 21, 22, 23, 24)
CULET_WGMMA(56, 28, 28, 29, 30, 31, 32)
CULET_WGMMA(72, 36, 36, 37, 38, 39, 40)
CULET_WGMMA(88, 44, 44, 45, 46, 47, 48)
CULET_WGMMA(104, 52, 52, 53, 54, 55, 56)
CULET_WGMMA(120, 60, 60, 61, 62, 63, 64)
CULET_WGMMA(136, 68, 68, 69, 70, 71, 72)
CULET_WGMMA(152, 76, 76, 77, 78, 79, 80)
CULET_WGMMA(168, 84, 84, 85, 86, 87, 88)
CULET_WGMMA(184, 92, 92, 93, 94, 95, 96)
CULET_WGMMA(200, 100, 100, 101, 102, 103, 104)
CULET_WGMMA(216, 108, 108, 109, 110, 111, 112)
CULET_WGMMA(232, 116, 116, 117, 118, 119, 120)
CULET_WGMMA(248, 124, 124, 125, 126, 127, 128)
#endif

#undef CULET_WGMMA
#undef CULET_WGMMA_PAIR
#undef CULET_KIND
#undef CULET_INOUT
#undef CULET_SHAPE
#undef CULET_FLAGS
// clang-format on

}  // namespace culet::kernels

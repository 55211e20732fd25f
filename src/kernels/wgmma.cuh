// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// The warpgroup matrix instruction, one wrapper for every legal width. PTX ISA, "Asynchronous
// warpgroup-level matrix instructions". The operand list of an asm statement cannot be a loop, so
// the lists are built four registers (eight columns) at a time by the preprocessor.
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

/// `Wgmma<Type, N>::run(d, a, b, keep)`: d[64 x N] = a[64 x 16] * b[N x 16]^T + (keep ? d : 0),
/// with a and b given by descriptors of operands contiguous in k.
template <DType Type, int N>
struct Wgmma;

// clang-format off
#define CULET_OPERANDS_4 "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
#define CULET_NAMES_4 "%0, %1, %2, %3"
#define CULET_OPERANDS_8 CULET_OPERANDS_4, "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7])
#define CULET_NAMES_8 CULET_NAMES_4 ", %4, %5, %6, %7"
#define CULET_OPERANDS_12 CULET_OPERANDS_8, "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11])
#define CULET_NAMES_12 CULET_NAMES_8 ", %8, %9, %10, %11"
#define CULET_OPERANDS_16 CULET_OPERANDS_12, "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15])
#define CULET_NAMES_16 CULET_NAMES_12 ", %12, %13, %14, %15"
#define CULET_OPERANDS_20 CULET_OPERANDS_16, "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19])
#define CULET_NAMES_20 CULET_NAMES_16 ", %16, %17, %18, %19"
#define CULET_OPERANDS_24 CULET_OPERANDS_20, "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23])
#define CULET_NAMES_24 CULET_NAMES_20 ", %20, %21, %22, %23"
#define CULET_OPERANDS_28 CULET_OPERANDS_24, "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27])
#define CULET_NAMES_28 CULET_NAMES_24 ", %24, %25, %26, %27"
#define CULET_OPERANDS_32 CULET_OPERANDS_28, "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31])
#define CULET_NAMES_32 CULET_NAMES_28 ", %28, %29, %30, %31"
#define CULET_OPERANDS_36 CULET_OPERANDS_32, "+f"(d[32]), "+f"(d[33]), "+f"(d[34]), "+f"(d[35])
#define CULET_NAMES_36 CULET_NAMES_32 ", %32, %33, %34, %35"
#define CULET_OPERANDS_40 CULET_OPERANDS_36, "+f"(d[36]), "+f"(d[37]), "+f"(d[38]), "+f"(d[39])
#define CULET_NAMES_40 CULET_NAMES_36 ", %36, %37, %38, %39"
#define CULET_OPERANDS_44 CULET_OPERANDS_40, "+f"(d[40]), "+f"(d[41]), "+f"(d[42]), "+f"(d[43])
#define CULET_NAMES_44 CULET_NAMES_40 ", %40, %41, %42, %43"
#define CULET_OPERANDS_48 CULET_OPERANDS_44, "+f"(d[44]), "+f"(d[45]), "+f"(d[46]), "+f"(d[47])
#define CULET_NAMES_48 CULET_NAMES_44 ", %44, %45, %46, %47"
#define CULET_OPERANDS_52 CULET_OPERANDS_48, "+f"(d[48]), "+f"(d[49]), "+f"(d[50]), "+f"(d[51])
#define CULET_NAMES_52 CULET_NAMES_48 ", %48, %49, %50, %51"
#define CULET_OPERANDS_56 CULET_OPERANDS_52, "+f"(d[52]), "+f"(d[53]), "+f"(d[54]), "+f"(d[55])
#define CULET_NAMES_56 CULET_NAMES_52 ", %52, %53, %54, %55"
#define CULET_OPERANDS_60 CULET_OPERANDS_56, "+f"(d[56]), "+f"(d[57]), "+f"(d[58]), "+f"(d[59])
#define CULET_NAMES_60 CULET_NAMES_56 ", %56, %57, %58, %59"
#define CULET_OPERANDS_64 CULET_OPERANDS_60, "+f"(d[60]), "+f"(d[61]), "+f"(d[62]), "+f"(d[63])
#define CULET_NAMES_64 CULET_NAMES_60 ", %60, %61, %62, %63"
#define CULET_OPERANDS_68 CULET_OPERANDS_64, "+f"(d[64]), "+f"(d[65]), "+f"(d[66]), "+f"(d[67])
#define CULET_NAMES_68 CULET_NAMES_64 ", %64, %65, %66, %67"
#define CULET_OPERANDS_72 CULET_OPERANDS_68, "+f"(d[68]), "+f"(d[69]), "+f"(d[70]), "+f"(d[71])
#define CULET_NAMES_72 CULET_NAMES_68 ", %68, %69, %70, %71"
#define CULET_OPERANDS_76 CULET_OPERANDS_72, "+f"(d[72]), "+f"(d[73]), "+f"(d[74]), "+f"(d[75])
#define CULET_NAMES_76 CULET_NAMES_72 ", %72, %73, %74, %75"
#define CULET_OPERANDS_80 CULET_OPERANDS_76, "+f"(d[76]), "+f"(d[77]), "+f"(d[78]), "+f"(d[79])
#define CULET_NAMES_80 CULET_NAMES_76 ", %76, %77, %78, %79"
#define CULET_OPERANDS_84 CULET_OPERANDS_80, "+f"(d[80]), "+f"(d[81]), "+f"(d[82]), "+f"(d[83])
#define CULET_NAMES_84 CULET_NAMES_80 ", %80, %81, %82, %83"
#define CULET_OPERANDS_88 CULET_OPERANDS_84, "+f"(d[84]), "+f"(d[85]), "+f"(d[86]), "+f"(d[87])
#define CULET_NAMES_88 CULET_NAMES_84 ", %84, %85, %86, %87"
#define CULET_OPERANDS_92 CULET_OPERANDS_88, "+f"(d[88]), "+f"(d[89]), "+f"(d[90]), "+f"(d[91])
#define CULET_NAMES_92 CULET_NAMES_88 ", %88, %89, %90, %91"
#define CULET_OPERANDS_96 CULET_OPERANDS_92, "+f"(d[92]), "+f"(d[93]), "+f"(d[94]), "+f"(d[95])
#define CULET_NAMES_96 CULET_NAMES_92 ", %92, %93, %94, %95"
#define CULET_OPERANDS_100 CULET_OPERANDS_96, "+f"(d[96]), "+f"(d[97]), "+f"(d[98]), "+f"(d[99])
#define CULET_NAMES_100 CULET_NAMES_96 ", %96, %97, %98, %99"
#define CULET_OPERANDS_104 CULET_OPERANDS_100, "+f"(d[100]), "+f"(d[101]), "+f"(d[102]), "+f"(d[103])
#define CULET_NAMES_104 CULET_NAMES_100 ", %100, %101, %102, %103"
#define CULET_OPERANDS_108 CULET_OPERANDS_104, "+f"(d[104]), "+f"(d[105]), "+f"(d[106]), "+f"(d[107])
#define CULET_NAMES_108 CULET_NAMES_104 ", %104, %105, %106, %107"
#define CULET_OPERANDS_112 CULET_OPERANDS_108, "+f"(d[108]), "+f"(d[109]), "+f"(d[110]), "+f"(d[111])
#define CULET_NAMES_112 CULET_NAMES_108 ", %108, %109, %110, %111"
#define CULET_OPERANDS_116 CULET_OPERANDS_112, "+f"(d[112]), "+f"(d[113]), "+f"(d[114]), "+f"(d[115])
#define CULET_NAMES_116 CULET_NAMES_112 ", %112, %113, %114, %115"
#define CULET_OPERANDS_120 CULET_OPERANDS_116, "+f"(d[116]), "+f"(d[117]), "+f"(d[118]), "+f"(d[119])
#define CULET_NAMES_120 CULET_NAMES_116 ", %116, %117, %118, %119"
#define CULET_OPERANDS_124 CULET_OPERANDS_120, "+f"(d[120]), "+f"(d[121]), "+f"(d[122]), "+f"(d[123])
#define CULET_NAMES_124 CULET_NAMES_120 ", %120, %121, %122, %123"
#define CULET_OPERANDS_128 CULET_OPERANDS_124, "+f"(d[124]), "+f"(d[125]), "+f"(d[126]), "+f"(d[127])
#define CULET_NAMES_128 CULET_NAMES_124 ", %124, %125, %126, %127"

#define CULET_WGMMA(N, REGISTERS, A, B, KEEP)                                                         \
  CULET_WGMMA_TYPE(bf16, N, REGISTERS, A, B, KEEP)                                                    \
  CULET_WGMMA_TYPE(f16, N, REGISTERS, A, B, KEEP)
#define CULET_WGMMA_TYPE(TYPE, N, REGISTERS, A, B, KEEP)                                              \
  template <>                                                                                         \
  struct Wgmma<DType::TYPE, N> {                                                                      \
    static CULET_DEVICE void run(float (&d)[REGISTERS], u64 a, u64 b, int keep) {                     \
      asm volatile(                                                                                   \
          "{ .reg .pred p; setp.ne.b32 p, %" #KEEP ", 0;"                                             \
          " wgmma.mma_async.sync.aligned.m64n" #N "k16.f32." #TYPE "." #TYPE                          \
          " {" CULET_NAMES_##REGISTERS "}, %" #A ", %" #B ", p, 1, 1, 0, 0; }"                        \
          : CULET_OPERANDS_##REGISTERS                                                                \
          : "l"(a), "l"(b), "r"(keep));                                                               \
    }                                                                                                 \
  };

CULET_WGMMA(8, 4, 4, 5, 6)
CULET_WGMMA(16, 8, 8, 9, 10)
CULET_WGMMA(24, 12, 12, 13, 14)
CULET_WGMMA(32, 16, 16, 17, 18)
CULET_WGMMA(40, 20, 20, 21, 22)
CULET_WGMMA(48, 24, 24, 25, 26)
CULET_WGMMA(56, 28, 28, 29, 30)
CULET_WGMMA(64, 32, 32, 33, 34)
CULET_WGMMA(72, 36, 36, 37, 38)
CULET_WGMMA(80, 40, 40, 41, 42)
CULET_WGMMA(88, 44, 44, 45, 46)
CULET_WGMMA(96, 48, 48, 49, 50)
CULET_WGMMA(104, 52, 52, 53, 54)
CULET_WGMMA(112, 56, 56, 57, 58)
CULET_WGMMA(120, 60, 60, 61, 62)
CULET_WGMMA(128, 64, 64, 65, 66)
CULET_WGMMA(136, 68, 68, 69, 70)
CULET_WGMMA(144, 72, 72, 73, 74)
CULET_WGMMA(152, 76, 76, 77, 78)
CULET_WGMMA(160, 80, 80, 81, 82)
CULET_WGMMA(168, 84, 84, 85, 86)
CULET_WGMMA(176, 88, 88, 89, 90)
CULET_WGMMA(184, 92, 92, 93, 94)
CULET_WGMMA(192, 96, 96, 97, 98)
CULET_WGMMA(200, 100, 100, 101, 102)
CULET_WGMMA(208, 104, 104, 105, 106)
CULET_WGMMA(216, 108, 108, 109, 110)
CULET_WGMMA(224, 112, 112, 113, 114)
CULET_WGMMA(232, 116, 116, 117, 118)
CULET_WGMMA(240, 120, 120, 121, 122)
CULET_WGMMA(248, 124, 124, 125, 126)
CULET_WGMMA(256, 128, 128, 129, 130)

#undef CULET_WGMMA
#undef CULET_WGMMA_TYPE
// clang-format on

}  // namespace culet::kernels

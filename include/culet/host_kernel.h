// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// The C interface of kernels that run on the CPU, the same for kernels compiled into culet and for
// those compiled from source while tuning. It includes nothing, so a kernel's source can repeat it
// without any header search path.
#pragma once

extern "C" {

/// Arguments of one call: a part of D of one batch entry. Sizes and leading dimensions in elements.
struct CuletHostKernelArgs {
  const void* a;
  const void*
      b;    ///< B as the problem lays it out, or the packed B where LaunchSpec::packed_b_bytes > 0
  void* d;  ///< D, or the f32/s32 temporary in a gemm step
  const void* temporary;  ///< the accumulator, in an epilogue step (tight row-major m x n)
  const void* const*
      extra;  ///< epilogue operands, in order; vectors from their element 0, matrices with ld ldd
  void* scratch;      ///< this thread's own scratch, 64-byte aligned
  long long m, n, k;  ///< the whole problem
  long long lda, ldb, ldd;
  long long m_begin,
      m_end;  ///< the part to compute; the whole range where that dimension is not split
  long long n_begin, n_end;
  long long k_begin, k_end;
};

/// The entry point of a kernel.
typedef void (*CuletHostKernel)(const CuletHostKernelArgs*);
/// The entry point of a packing routine: lays B (args->b, k, n, ldb) out at `packed`.
typedef void (*CuletHostPack)(const CuletHostKernelArgs*, void* packed);
}

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// The arguments of a CPU kernel as culet/host_kernel.h declares them, repeated so that a kernel
// compiled at run time needs no include path. Code that has the public header says so; a test
// compares the two.
#pragma once

#if !defined(CULET_CPU_ABI_GIVEN)
extern "C" {
struct CuletHostKernelArgs {
  const void* a;
  const void* b;
  void* d;
  const void* temporary;
  const void* const* extra;
  void* scratch;
  long long m, n, k;
  long long lda, ldb, ldd;
  long long m_begin, m_end;
  long long n_begin, n_end;
  long long k_begin, k_end;
};
}
#endif

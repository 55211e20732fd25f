// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// OpenBLAS, loaded at run time: the few entry points culet calls, declared here so that no header
// of it is needed to build.
#pragma once

#include <string>
#include <vector>

#include "culet/error.h"

namespace culet {

/// Values of CBLAS's enumerations.
inline constexpr int kCblasRowMajor = 101;
inline constexpr int kCblasNoTrans = 111;
inline constexpr int kCblasTrans = 112;

/// The library with 32-bit integers (its usual build).
struct OpenBlas {
  void (*sgemm)(int order, int trans_a, int trans_b, int m, int n, int k, float alpha,
                const float* a, int lda, const float* b, int ldb, float beta, float* c,
                int ldc) = nullptr;
  void (*sgemv)(int order, int trans, int m, int n, float alpha, const float* a, int lda,
                const float* x, int incx, float beta, float* y, int incy) = nullptr;
  void (*set_num_threads)(int threads) = nullptr;
  int (*get_num_threads)() = nullptr;
  std::string version;  ///< "0.3.21 Cooperlake": the kernels' core name is part of it, because
                        ///< OPENBLAS_CORETYPE changes speed twofold
  std::string path;

  /// Sets the process-wide number of threads, if it is another one.
  void use_threads(int threads) const {
    if (get_num_threads() != threads) set_num_threads(threads);
  }
};

/// Opened once per process. The error says what was looked for or is missing.
const Result<OpenBlas>& openblas();

/// Opens the first of these that is found, each time anew: what openblas() does with the usual
/// names.
Result<OpenBlas> load_openblas(const std::vector<std::string>& sonames,
                               const std::vector<std::string>& folders);

}  // namespace culet

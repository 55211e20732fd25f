// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// D = A*B in one call: the tuned kernel if the store knows one, and a stated answer if it does not.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "culet/plan.h"
#include "culet/problem.h"

namespace culet {

/// A matrix in memory (device memory for a CUDA device). Strides in elements; one of them must
/// be 1.
struct MatrixView {
  void* data = nullptr;
  DType dtype = DType::bf16;
  std::int64_t rows = 0, columns = 0;
  std::int64_t row_stride = 0, column_stride = 1;
  std::int64_t batch = 1, batch_stride = 0;
};

/// What matmul() does where the store holds no selection for the problem. It never tunes unasked.
enum class OnMiss : std::uint8_t {
  vendor,  ///< the vendor library's default plan (an own kernel by rank where there is no vendor)
  model,   ///< the best candidate by the ranking model
  tune,    ///< tune now
  error,   ///< ErrorCode::no_candidate
};

struct MatmulOptions {
  std::string device = "auto";
  OnMiss on_miss = OnMiss::vendor;
  std::string epilogue;  ///< expression text; operands in `extra`
  const void* const* extra = nullptr;
  Stream stream = nullptr;
  std::string cache;  ///< see open_cache
};

/// Computes D = epilogue(A*B). The first call for a problem loads a plan (in the process it is then
/// found in under a microsecond); during CUDA stream capture nothing is compiled: a problem not yet
/// loaded is an error.
Result<void> matmul(const MatrixView& a, const MatrixView& b, const MatrixView& d,
                    const MatmulOptions& options = {});

/// The problem matmul() solves for these views.
Result<Problem> problem_of(const MatrixView& a, const MatrixView& b, const MatrixView& d,
                           std::string_view epilogue = {});

}  // namespace culet

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// A problem in cuBLASLt's terms: shared by the backend, which asks for its algorithms, and by the
// loaded step, which runs one.
//
// The library thinks in column-major matrices. A row-major D[M,N] is a column-major D^T[N,M], so it
// is given D^T = B^T * A^T: its A is our B, its B our A, and a bias over our n runs over the rows
// of its output, which is what its bias epilogue adds.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "culet/candidate.h"
#include "culet/problem.h"
#include "device/cublaslt.h"

namespace culet {

struct CublasltMatmul {
  cublaslt::Descriptor desc;
  cublaslt::Descriptor first;   ///< layout of the library's A: our B
  cublaslt::Descriptor second;  ///< layout of the library's B: our A
  cublaslt::Descriptor c;
  cublaslt::Descriptor d;
  alignas(8) unsigned char alpha[8] = {};  ///< in the scale type
  alignas(8) unsigned char beta[8] = {};
  int c_operand = -1;  ///< epilogue operands used, or -1
  int bias_operand = -1;
  bool second_is_transposed = false;

  /// Describes the whole problem, epilogue included. Error (unsupported): the rule of the library's
  /// that the problem breaks.
  static Result<CublasltMatmul> describe(const Problem& problem, const cublaslt::Library& library);

  /// Sets the number of rows of our A and D.
  Result<void> set_m(const cublaslt::Library& library, std::int64_t m);
};

/// An algorithm, with the workspace it needs anywhere in the problem's range of m.
struct CublasltAlgorithm {
  cublaslt::Algorithm algorithm;
  std::int64_t workspace_bytes = 0;
};

/// What the library's heuristics offer for the problem in the current context, in its own order;
/// only those that serve all of the problem's range of m. Error (unsupported): none, and why.
Result<std::vector<CublasltAlgorithm>> cublaslt_algorithms(const Problem& problem,
                                                           const cublaslt::Library& library);

/// Workspace of an algorithm at m; an error if the library cannot use it there.
Result<std::int64_t> cublaslt_check(const Problem& problem, const cublaslt::Library& library,
                                    const cublaslt::Algorithm& algorithm, std::int64_t m);

/// `lib=13.1.0 algo=66 tile=128x256 ... raw=<hex>`, and back. Names are for people; `raw` is what
/// the algorithm is rebuilt from.
Config cublaslt_config(const cublaslt::Library& library, const CublasltAlgorithm& algorithm);
Result<CublasltAlgorithm> parse_cublaslt_config(const Config& config);

}  // namespace culet

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// What parsing, printing and validating problems share: defaults that follow from other fields.
#pragma once

#include <cstdint>

#include "culet/problem.h"

namespace culet {

/// D's dtype where the text states none.
DType default_d(DType a, DType b);
/// The accumulator of a dtype where none is stated.
Accumulate default_accumulate(DType a);

/// Rows in memory: those of the largest m that one choice must serve.
std::int64_t rows_of_m(const Problem& problem);

std::int64_t tight_lda(const Problem& problem);
std::int64_t tight_ldb(const Problem& problem);
std::int64_t tight_ldd(const Problem& problem);
/// For the leading dimensions the problem has.
std::int64_t tight_stride_a(const Problem& problem);
std::int64_t tight_stride_b(const Problem& problem);
std::int64_t tight_stride_d(const Problem& problem);

}  // namespace culet

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// The rules that families share which read 16-bit or 8-bit operands as rows contiguous in k, in
// pieces of 16 bytes: one predicate, so that they refuse by the same words.
#pragma once

#include <fmt/format.h>

#include <string>
#include <string_view>

#include "backends/hopper_operands.h"

namespace culet::k_major {

inline std::string dtype_error(const Problem& p) {
  using namespace hopper;  // NOLINT: names of dtypes
  const bool integers = is_8_bit_integer(p.a) && is_8_bit_integer(p.b);
  const bool floats =
      (is_16_bit_float(p.a) && p.a == p.b) || (is_8_bit_float(p.a) && is_8_bit_float(p.b));
  if (!integers && !floats) {
    return fmt::format("{}*{}: A and B must both be bf16, both f16, 8-bit floats or 8-bit integers",
                       to_string(p.a), to_string(p.b));
  }
  if (!is_16_bit_float(p.d) && p.d != DType::f32 && !(integers && p.d == DType::s32)) {
    return fmt::format("d={}: stores bf16, f16 or f32, and s32 of integers", to_string(p.d));
  }
  const bool sums_ok = integers
                           ? p.accumulate == Accumulate::s32
                           : p.accumulate == Accumulate::f32 || p.accumulate == Accumulate::fast;
  if (!sums_ok) {
    return fmt::format("acc={}: accumulates in {}", to_string(p.accumulate),
                       integers ? "s32" : "f32");
  }
  return {};
}

/// Why a problem is not of this kind, empty if it is; `reader` is what reads the operands.
inline std::string error(const Problem& p, std::string_view reader) {
  if (std::string bad = dtype_error(p); !bad.empty()) return bad;
  if (p.a_order != Order::row_major || p.b_order != Order::col_major) {
    return "layout: both operands must be contiguous in k (tn)";
  }
  auto bad = hopper::tma_error("a", p.a, p.lda, "k", p.k, p.stride_a, p.align_a, reader);
  if (!bad.empty()) return bad;
  return hopper::tma_error("b", p.b, p.ldb, "k", p.k, p.stride_b, p.align_b, reader);
}

/// Elements of D that one store may take, 4, 2 or 1: what its rows' alignment allows.
inline int store_vector(const Problem& p) {
  const std::int64_t size = bits(p.d) / 8;
  for (const int count : {4, 2}) {
    if (p.ldd % count == 0 && p.stride_d % count == 0 && p.align_d % (count * size) == 0)
      return count;
  }
  return 1;
}

}  // namespace culet::k_major

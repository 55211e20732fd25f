// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// The rules that families share which read 16-bit or 8-bit operands as rows contiguous in k, in
// pieces of 16 bytes: one predicate, so that they refuse by the same words.
#pragma once

#include <fmt/format.h>

#include <string>
#include <string_view>

#include "culet/problem.h"

namespace culet::k_major {

inline bool is_16_bit_float(DType dtype) { return dtype == DType::bf16 || dtype == DType::f16; }
inline bool is_8_bit_float(DType dtype) { return dtype == DType::e4m3 || dtype == DType::e5m2; }
inline bool is_8_bit_integer(DType dtype) { return dtype == DType::s8 || dtype == DType::u8; }

/// Whether partial sums of 8-bit floats must be added up in f32 outside the tensor core, which
/// keeps fewer bits (docs/numerics.md).
inline bool must_promote(const Problem& p) {
  return is_8_bit_float(p.a) && p.accumulate != Accumulate::fast;
}

inline std::string dtype_error(const Problem& p) {
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

/// One operand, rows of k elements `ld` apart. TMA's limits are 2^40 bytes; nobody comes near them.
inline std::string operand_error(std::string_view name, DType dtype, std::int64_t k,
                                 std::int64_t ld, std::int64_t stride, int align) {
  const std::int64_t size = bits(dtype) / 8;
  const auto bad = [&](std::int64_t elements) {
    return elements * size % 16 != 0 || elements * size >= std::int64_t{1} << 40;
  };
  if (bad(ld)) {
    const std::string what = ld == k ? fmt::format("k={}", k) : fmt::format("ld{}={}", name, ld);
    return fmt::format("{}: rows must be a multiple of 16 bytes apart", what);
  }
  if (bad(stride)) {
    return fmt::format("stride{}={}: batches must be a multiple of 16 bytes apart", name, stride);
  }
  if (align < 16) {
    return fmt::format("align{}={}: pointers must be at a multiple of 16 bytes", name, align);
  }
  return {};
}

/// Why a problem is not of this kind; empty if it is.
inline std::string error(const Problem& p) {
  if (std::string bad = dtype_error(p); !bad.empty()) return bad;
  if (p.a_order != Order::row_major || p.b_order != Order::col_major) {
    return "layout: both operands must be contiguous in k (tn)";
  }
  if (auto bad = operand_error("a", p.a, p.k, p.lda, p.stride_a, p.align_a); !bad.empty())
    return bad;
  return operand_error("b", p.b, p.k, p.ldb, p.stride_b, p.align_b);
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

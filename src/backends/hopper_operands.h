// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// The rules that the copy engine (TMA) and the warpgroup matrix instruction (WGMMA) have for A and
// B, in one place for every family that uses them. Each function answers with the rule that is
// broken, naming the field, or with an empty text.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <string_view>

#include "culet/device.h"
#include "culet/problem.h"

namespace culet::hopper {

inline bool is_16_bit_float(DType dtype) { return dtype == DType::bf16 || dtype == DType::f16; }
inline bool is_8_bit_float(DType dtype) { return dtype == DType::e4m3 || dtype == DType::e5m2; }
inline bool is_8_bit_integer(DType dtype) { return dtype == DType::s8 || dtype == DType::u8; }

/// Whether A (B) is contiguous in k, and not in m (n).
inline bool a_along_k(const Problem& p) { return p.a_order == Order::row_major; }
inline bool b_along_k(const Problem& p) { return p.b_order == Order::col_major; }

/// Whether sums of 8-bit floats have to be promoted to f32 on the way: the tensor core's own keep
/// some 14 bits.
inline bool needs_promotion(const Problem& p) {
  return is_8_bit_float(p.a) && p.accumulate == Accumulate::f32;
}

/// The pairs of types and the layouts that WGMMA multiplies from shared memory.
inline std::string wgmma_error(const Problem& p) {
  const bool same_16 = is_16_bit_float(p.a) && p.a == p.b;
  const bool both_8 = (is_8_bit_float(p.a) && is_8_bit_float(p.b)) ||
                      (is_8_bit_integer(p.a) && is_8_bit_integer(p.b));
  if (!same_16 && !both_8) {
    return fmt::format(
        "{}*{}: WGMMA takes bf16*bf16, f16*f16, two 8-bit floats or two 8-bit integers",
        to_string(p.a), to_string(p.b));
  }
  if (both_8 && !(a_along_k(p) && b_along_k(p))) {
    return fmt::format("layout: WGMMA takes {} operands contiguous in k only (tn)", to_string(p.a));
  }
  return {};
}

/// What the copy engine asks of a matrix whose lines are `ld` elements apart and as long as
/// `length`. Loads of 16 bytes ask the same: `reader` is who asks.
inline std::string tma_error(std::string_view name, DType dtype, std::int64_t ld,
                             std::string_view length_name, std::int64_t length, std::int64_t stride,
                             int align, std::string_view reader = "TMA") {
  const std::int64_t size = std::max(bits(dtype) / 8, 1);
  // Before anything is multiplied: leading dimensions may be as large as 2^58.
  if (ld >= (std::int64_t{1} << 40) / size) {
    return fmt::format("ld{}={}: {} needs rows of less than 2^40 bytes", name, ld, reader);
  }
  if (ld * size % 16 != 0) {
    const std::string what =
        ld == length ? fmt::format("{}={}", length_name, length) : fmt::format("ld{}={}", name, ld);
    return fmt::format("{}: {} needs rows of a multiple of 16 bytes", what, reader);
  }
  if (stride >= (std::int64_t{1} << 40) / size || stride * size % 16 != 0) {
    return fmt::format(
        "stride{}={}: {} needs batches a multiple of 16 bytes, less than 2^40, apart", name, stride,
        reader);
  }
  if (align < 16) {
    return fmt::format("align{}={}: {} needs base pointers at a multiple of 16 bytes", name, align,
                       reader);
  }
  return {};
}

inline std::string tma_error_of_a(const Problem& p) {
  const bool along_k = a_along_k(p);
  return tma_error("a", p.a, p.lda, along_k ? "k" : "m",
                   along_k ? p.k : std::max(p.m, p.m_range.high), p.stride_a, p.align_a);
}
inline std::string tma_error_of_b(const Problem& p) {
  const bool along_k = b_along_k(p);
  return tma_error("b", p.b, p.ldb, along_k ? "k" : "n", along_k ? p.k : p.n, p.stride_b,
                   p.align_b);
}

/// All of it, for a kernel on a Hopper device.
inline std::string operands_error(const Problem& p, const DeviceSpec& device) {
  if (device.architecture != "sm_90a") {
    return fmt::format("{}: needs a Hopper device (sm_90a)", device.architecture);
  }
  if (p.k < 1) return "k=0: nothing to multiply";
  if (auto error = wgmma_error(p); !error.empty()) return error;
  if (auto error = tma_error_of_a(p); !error.empty()) return error;
  return tma_error_of_b(p);
}

}  // namespace culet::hopper

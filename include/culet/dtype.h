// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// Element types of operands and accumulators.
#pragma once

#include <cstdint>
#include <string_view>

#include "culet/error.h"

namespace culet {

enum class DType : std::uint8_t { f64, f32, tf32, f16, bf16, e4m3, e5m2, s8, u8, s32, e2m1, e8m0 };

/// The name used in problem text, e.g. "bf16".
std::string_view to_string(DType dtype);
/// The inverse; the error lists the known names.
Result<DType> parse_dtype(std::string_view text);

/// Bits of storage for one element (tf32 is stored as 32 bits, e2m1 as 4).
int bits(DType dtype);
/// Bytes of storage for `count` elements, rounded up to whole bytes.
std::int64_t bytes(DType dtype, std::int64_t count);

bool is_integer(DType dtype);
/// Bits of the significand including the hidden one (f32 24, bf16 8, e4m3 4 ...); 0 for integers.
int significand_bits(DType dtype);

}  // namespace culet

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// exp, tanh and erf for float, written without branches so that a loop over them becomes vector
// code; the C library's take 5 to 20 ns an element, which is more than the rest of an epilogue.
#pragma once

#include <bit>
#include <cstdint>

namespace culet {

/// Relative error below 2e-7; overflows to infinity, underflows to zero, passes a NaN on.
inline float vector_exp(float x) {
  constexpr float kLow = -87.0F;
  constexpr float kHigh = 88.72283F;
  const float inside = x < kLow ? kLow : x > kHigh ? kHigh : x;
  // 2^n * e^r with |r| <= ln(2)/2; adding and taking away 1.5 * 2^23 rounds to an integer.
  constexpr float kRound = 12582912.0F;
  const float shifted = inside * 1.44269504F + kRound;
  const float n = shifted - kRound;
  const float r = (inside - n * 0.693359375F) + n * 2.12194440e-4F;
  // Taylor up to r^7: its remainder is below 1e-8 here.
  float p = 1.0F / 5040;
  p = p * r + 1.0F / 720;
  p = p * r + 1.0F / 120;
  p = p * r + 1.0F / 24;
  p = p * r + 1.0F / 6;
  p = p * r + 0.5F;
  p = p * r + 1.0F;
  p = p * r + 1.0F;
  // In two factors: 2^128 alone is not a float.
  const auto bits = static_cast<std::uint32_t>(std::bit_cast<std::uint32_t>(shifted) -
                                               std::bit_cast<std::uint32_t>(kRound));
  const std::uint32_t half = static_cast<std::uint32_t>(static_cast<std::int32_t>(bits) >> 1);
  const float scale_1 = std::bit_cast<float>((half + 127U) << 23);
  const float scale_2 = std::bit_cast<float>((bits - half + 127U) << 23);
  const float value = p * scale_1 * scale_2;
  const float high = x > kHigh ? std::bit_cast<float>(0x7f800000U) : value;
  return x < kLow ? 0.0F : high;
}

/// Absolute error below 2e-7, relative error too.
inline float vector_tanh(float x) {
  constexpr std::uint32_t kSign = 0x80000000U;
  const std::uint32_t sign = std::bit_cast<std::uint32_t>(x) & kSign;
  const float magnitude = std::bit_cast<float>(std::bit_cast<std::uint32_t>(x) & ~kSign);
  const float z = x * x;
  // Small arguments: Taylor, where 1 - 2/(e^2x + 1) would cancel.
  float p = -1382.0F / 155925;
  p = p * z + 62.0F / 2835;
  p = p * z - 17.0F / 315;
  p = p * z + 2.0F / 15;
  p = p * z - 1.0F / 3;
  const float small = x + x * z * p;
  const float large = 1.0F - 2.0F / (vector_exp(2.0F * magnitude) + 1.0F);
  const float signed_large = std::bit_cast<float>(std::bit_cast<std::uint32_t>(large) | sign);
  // Chosen by bits: a branch around the longer half would keep the loop from becoming vector code.
  const std::uint32_t mask = magnitude < 0.35F ? 0xffffffffU : 0U;
  return std::bit_cast<float>((std::bit_cast<std::uint32_t>(small) & mask) |
                              (std::bit_cast<std::uint32_t>(signed_large) & ~mask));
}

}  // namespace culet

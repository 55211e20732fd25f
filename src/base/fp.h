// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// Conversions between double/float and the narrow floating-point formats, rounding to nearest, ties
// to even. The reference, the filling of operands and the verification use these, never a
// backend's own conversions, so that an error in one cannot hide in the other.
#pragma once

#include <bit>
#include <cstdint>

namespace culet {

namespace fp_detail {

struct Format {
  int mantissa_bits;
  int bias;
  std::uint32_t max_finite;  ///< code of the largest finite value
  std::uint32_t overflow;    ///< code of anything larger
  std::uint32_t nan;
  std::uint32_t sign;
};

// f16 overflows to infinity. The 8-bit formats saturate, as the conversion instructions of GPUs do
// (cvt.rn.satfinite); e4m3 has no infinity at all.
inline constexpr Format kF16{10, 15, 0x7bff, 0x7c00, 0x7e00, 0x8000};
inline constexpr Format kBf16{7, 127, 0x7f7f, 0x7f80, 0x7fc0, 0x8000};
inline constexpr Format kE4m3{3, 7, 0x7e, 0x7e, 0x7f, 0x80};
inline constexpr Format kE5m2{2, 15, 0x7b, 0x7b, 0x7f, 0x80};

constexpr std::uint32_t encode(double value, const Format& f) {
  const std::uint64_t bits = std::bit_cast<std::uint64_t>(value);
  const std::uint32_t sign = (bits >> 63) != 0 ? f.sign : 0;
  const int exponent = static_cast<int>((bits >> 52) & 0x7ff) - 1023;
  const std::uint64_t fraction = bits & ((std::uint64_t{1} << 52) - 1);
  if (exponent == 1024) return sign | (fraction != 0 ? f.nan : f.overflow);
  if (exponent == -1023) return sign;  // zero, or far below the smallest subnormal of any format
  const std::uint64_t significand = fraction | (std::uint64_t{1} << 52);
  const int min_exponent = 1 - f.bias;
  const int scale = exponent < min_exponent ? min_exponent : exponent;
  const int shift = 52 - f.mantissa_bits + (scale - exponent);
  if (shift > 54) return sign;
  std::uint64_t q = significand >> shift;
  const std::uint64_t rest = significand & ((std::uint64_t{1} << shift) - 1);
  const std::uint64_t half = std::uint64_t{1} << (shift - 1);
  if (rest > half || (rest == half && (q & 1) != 0)) ++q;
  // q carries the hidden bit, which adds the 1 that the exponent field of a normal number starts
  // at; a carry out of the mantissa lands in the exponent by itself.
  const std::uint64_t code =
      (static_cast<std::uint64_t>(scale - min_exponent) << f.mantissa_bits) + q;
  return sign | (code > f.max_finite ? f.overflow : static_cast<std::uint32_t>(code));
}

/// 2^e for e within double's normal range.
constexpr double power_of_two(int e) {
  return std::bit_cast<double>(static_cast<std::uint64_t>(e + 1023) << 52);
}

constexpr float decode(std::uint32_t code, const Format& f) {
  const double sign = (code & f.sign) != 0 ? -1.0 : 1.0;
  const std::uint32_t magnitude = code & (f.sign - 1);
  if (magnitude > f.max_finite) {
    const bool infinite = magnitude == f.overflow;  // never true of a format that saturates ...
    const bool e5m2_infinity = f.mantissa_bits == 2 && magnitude == 0x7c;  // ... but e5m2 has one
    const float special = std::bit_cast<float>(
        infinite || e5m2_infinity ? std::uint32_t{0x7f800000} : std::uint32_t{0x7fc00000});
    return sign < 0 ? -special : special;
  }
  const int field = static_cast<int>(magnitude >> f.mantissa_bits);
  const std::uint32_t mantissa = magnitude & ((1u << f.mantissa_bits) - 1);
  const std::uint32_t hidden = field == 0 ? 0 : 1u << f.mantissa_bits;
  const int exponent = (field == 0 ? 1 : field) - f.bias - f.mantissa_bits;
  return static_cast<float>(sign * (hidden + mantissa) * power_of_two(exponent));
}

}  // namespace fp_detail

constexpr std::uint16_t to_f16_bits(double value) {
  return static_cast<std::uint16_t>(fp_detail::encode(value, fp_detail::kF16));
}
constexpr float from_f16_bits(std::uint16_t bits) {
  return fp_detail::decode(bits, fp_detail::kF16);
}

constexpr std::uint16_t to_bf16_bits(double value) {
  return static_cast<std::uint16_t>(fp_detail::encode(value, fp_detail::kBf16));
}
constexpr float from_bf16_bits(std::uint16_t bits) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
}

constexpr std::uint8_t to_e4m3_bits(double value) {
  return static_cast<std::uint8_t>(fp_detail::encode(value, fp_detail::kE4m3));
}
constexpr float from_e4m3_bits(std::uint8_t bits) {
  return fp_detail::decode(bits, fp_detail::kE4m3);
}

constexpr std::uint8_t to_e5m2_bits(double value) {
  return static_cast<std::uint8_t>(fp_detail::encode(value, fp_detail::kE5m2));
}
constexpr float from_e5m2_bits(std::uint8_t bits) {
  return fp_detail::decode(bits, fp_detail::kE5m2);
}

/// A float with its significand rounded to tf32's 11 bits, ties to even.
constexpr float round_to_tf32(float value) {
  std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
  if ((bits & 0x7f800000) == 0x7f800000) return value;
  bits += 0xfff + ((bits >> 13) & 1);
  return std::bit_cast<float>(bits & ~std::uint32_t{0x1fff});
}

}  // namespace culet

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// Rows of elements of any dtype to and from float or double: what the reference and the pointwise
// step read and write operands with.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>

#include "base/fp.h"
#include "culet/dtype.h"

namespace culet {

/// e2m1: sign, two bits of exponent (bias 1), one of mantissa.
inline double from_e2m1(unsigned code) {
  constexpr double kMagnitudes[8] = {0, 0.5, 1, 1.5, 2, 3, 4, 6};
  return (code & 8) != 0 ? -kMagnitudes[code & 7] : kMagnitudes[code & 7];
}

/// Rounds to nearest, ties to the even code, and saturates.
inline unsigned to_e2m1(double value) {
  constexpr double kMagnitudes[8] = {0, 0.5, 1, 1.5, 2, 3, 4, 6};
  const double magnitude = std::fabs(value);
  unsigned best = 7;
  for (unsigned code = 0; code < 7; ++code) {
    const double middle = (kMagnitudes[code] + kMagnitudes[code + 1]) / 2;
    if (magnitude < middle || (magnitude == middle && code % 2 == 0)) {
      best = code;
      break;
    }
  }
  return (std::signbit(value) ? 8U : 0U) | best;
}

/// e8m0: a power of two, 2^(code - 127); 255 is not a number.
inline double from_e8m0(unsigned code) {
  return code == 255 ? std::numeric_limits<double>::quiet_NaN()
                     : std::ldexp(1.0, static_cast<int>(code) - 127);
}

template <typename T>
T load_as(const void* base, std::int64_t index) {
  T value;
  std::memcpy(&value, static_cast<const unsigned char*>(base) + index * std::int64_t{sizeof(T)},
              sizeof(T));
  return value;
}

template <typename T>
void store_as(void* base, std::int64_t index, T value) {
  std::memcpy(static_cast<unsigned char*>(base) + index * std::int64_t{sizeof(T)}, &value,
              sizeof(T));
}

/// Element `index` of an array.
inline double load_element(DType dtype, const void* base, std::int64_t index) {
  switch (dtype) {
    case DType::f64:
      return load_as<double>(base, index);
    case DType::f32:
      return load_as<float>(base, index);
    case DType::tf32:
      return round_to_tf32(load_as<float>(base, index));
    case DType::f16:
      return from_f16_bits(load_as<std::uint16_t>(base, index));
    case DType::bf16:
      return from_bf16_bits(load_as<std::uint16_t>(base, index));
    case DType::e4m3:
      return from_e4m3_bits(load_as<std::uint8_t>(base, index));
    case DType::e5m2:
      return from_e5m2_bits(load_as<std::uint8_t>(base, index));
    case DType::s8:
      return load_as<std::int8_t>(base, index);
    case DType::u8:
      return load_as<std::uint8_t>(base, index);
    case DType::s32:
      return load_as<std::int32_t>(base, index);
    case DType::e2m1: {
      const unsigned pair = load_as<std::uint8_t>(base, index / 2);
      return from_e2m1(index % 2 == 0 ? pair & 15 : pair >> 4);
    }
    case DType::e8m0:
      return from_e8m0(load_as<std::uint8_t>(base, index));
  }
  return 0;
}

/// Integers round to nearest even and saturate; what is not a number becomes 0.
template <typename T>
T to_integer(double value) {
  if (!(value == value)) return 0;
  const double rounded = std::nearbyint(value);
  if (rounded <= static_cast<double>(std::numeric_limits<T>::min())) {
    return std::numeric_limits<T>::min();
  }
  if (rounded >= static_cast<double>(std::numeric_limits<T>::max())) {
    return std::numeric_limits<T>::max();
  }
  return static_cast<T>(rounded);
}

inline void store_element(DType dtype, void* base, std::int64_t index, double value) {
  switch (dtype) {
    case DType::f64:
      return store_as(base, index, value);
    case DType::f32:
      return store_as(base, index, static_cast<float>(value));
    case DType::tf32:
      return store_as(base, index, round_to_tf32(static_cast<float>(value)));
    case DType::f16:
      return store_as(base, index, to_f16_bits(value));
    case DType::bf16:
      return store_as(base, index, to_bf16_bits(value));
    case DType::e4m3:
      return store_as(base, index, to_e4m3_bits(value));
    case DType::e5m2:
      return store_as(base, index, to_e5m2_bits(value));
    case DType::s8:
      return store_as(base, index, to_integer<std::int8_t>(value));
    case DType::u8:
      return store_as(base, index, to_integer<std::uint8_t>(value));
    case DType::s32:
      return store_as(base, index, to_integer<std::int32_t>(value));
    case DType::e2m1: {
      const unsigned pair = load_as<std::uint8_t>(base, index / 2);
      const unsigned code = to_e2m1(value);
      const unsigned both = index % 2 == 0 ? (pair & 0xf0) | code : (pair & 0x0f) | (code << 4);
      return store_as(base, index / 2, static_cast<std::uint8_t>(both));
    }
    case DType::e8m0:
      return;  // a scale's format, never a result
  }
}

}  // namespace culet

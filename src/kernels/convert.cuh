// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// Element types to and from the types that kernels compute in: float, double for f64, i32 for 8-bit
// integers. Every conversion works on every architecture; rounding is to nearest even, and 8-bit
// results saturate.
#pragma once
#include "ptx.cuh"

namespace culet::kernels {

// --- f16, bf16 -----------------------------------------------------------------------------------

CULET_DEVICE float f16_to_float(u16 bits) {
  float value;
  asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(bits));
  return value;
}
CULET_DEVICE u16 float_to_f16(float value) {
  u16 bits;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(value));
  return bits;
}
CULET_DEVICE float bf16_to_float(u16 bits) { return __uint_as_float(static_cast<u32>(bits) << 16); }
CULET_DEVICE u16 float_to_bf16(float value) {
#if __CUDA_ARCH__ >= 900
  u16 bits;
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(bits) : "f"(value));
  return bits;
#else
  const u32 x = __float_as_uint(value);
  if ((x & 0x7FFFFFFFu) > 0x7F800000u) return static_cast<u16>((x >> 16) | 0x40u);
  return static_cast<u16>((x + 0x7FFFu + ((x >> 16) & 1u)) >> 16);
#endif
}

/// Two values in one word, the first in its low half (sm_90).
template <DType Type>
CULET_DEVICE u32 pack_pair(float low, float high) {
  static_assert(Type == DType::bf16 || Type == DType::f16, "16-bit floats");
  u32 word;
  if constexpr (Type == DType::bf16) {
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(high), "f"(low));
  } else {
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(high), "f"(low));
  }
  return word;
}

// --- e4m3, e5m2 ----------------------------------------------------------------------------------

/// e4m3 has f16's exponent less 8, and one NaN code instead of infinities.
CULET_DEVICE float e4m3_to_float(u8 bits) {
  if ((bits & 0x7F) == 0x7F) return __uint_as_float(0x7FC00000u);
  const u16 half = static_cast<u16>(((bits & 0x80) << 8) | ((bits & 0x7F) << 7));
  return f16_to_float(half) * 256.0f;
}
CULET_DEVICE float e5m2_to_float(u8 bits) { return f16_to_float(static_cast<u16>(bits << 8)); }

/// Rounds to a float of `Mantissa` bits whose smallest normal is 2^MinExponent, saturating at the
/// code `Largest`.
template <int Mantissa, int MinExponent, u32 Largest, u32 NaN>
CULET_DEVICE u8 float_to_8bit(float value) {
  const u32 word = __float_as_uint(value);
  const u32 sign = (word >> 24) & 0x80u;
  u32 magnitude = word & 0x7FFFFFFFu;
  if (magnitude > 0x7F800000u) return static_cast<u8>(sign | NaN);
  constexpr u32 kSmallestNormal = static_cast<u32>(127 + MinExponent) << 23;
  u32 code;
  if (magnitude < kSmallestNormal) {
    // Multiples of 2^(MinExponent - Mantissa): adding 2^23 of that unit rounds to one of them.
    constexpr u32 kUnit = static_cast<u32>(127 + MinExponent - Mantissa + 23) << 23;
    code = __float_as_uint(__uint_as_float(magnitude) + __uint_as_float(kUnit)) - kUnit;
  } else {
    constexpr int kDrop = 23 - Mantissa;
    magnitude += (1u << (kDrop - 1)) - 1 + ((magnitude >> kDrop) & 1u);
    code = (magnitude >> kDrop) - (static_cast<u32>(126 + MinExponent) << Mantissa);
    code = smaller(code, Largest);
  }
  return static_cast<u8>(sign | code);
}
CULET_DEVICE u8 float_to_e4m3(float value) { return float_to_8bit<3, -6, 0x7E, 0x7F>(value); }
CULET_DEVICE u8 float_to_e5m2(float value) { return float_to_8bit<2, -14, 0x7B, 0x7F>(value); }

// --- any element ---------------------------------------------------------------------------------

/// How an element type stands in memory.
template <int Bytes>
struct Stored;
template <>
struct Stored<1> {
  using Type = u8;
};
template <>
struct Stored<2> {
  using Type = u16;
};
template <>
struct Stored<4> {
  using Type = u32;
};
template <>
struct Stored<8> {
  using Type = u64;
};
template <DType Type>
using StoredType = typename Stored<size_of(Type)>::Type;

/// Bits of an element to the computing type T.
template <class T, DType Type>
CULET_DEVICE T decode(StoredType<Type> bits) {
  if constexpr (Type == DType::f64)
    return static_cast<T>(__longlong_as_double(static_cast<i64>(bits)));
  if constexpr (Type == DType::f32 || Type == DType::tf32)
    return static_cast<T>(__uint_as_float(bits));
  if constexpr (Type == DType::f16) return static_cast<T>(f16_to_float(bits));
  if constexpr (Type == DType::bf16) return static_cast<T>(bf16_to_float(bits));
  if constexpr (Type == DType::e4m3) return static_cast<T>(e4m3_to_float(bits));
  if constexpr (Type == DType::e5m2) return static_cast<T>(e5m2_to_float(bits));
  if constexpr (Type == DType::s8) return static_cast<T>(static_cast<i8>(bits));
  if constexpr (Type == DType::u8) return static_cast<T>(bits);
  if constexpr (Type == DType::s32) return static_cast<T>(static_cast<i32>(bits));
}

/// A number rounded to nearest even and clamped to low .. high; NaN gives 0.
template <class T>
CULET_DEVICE i32 to_integer(T value, i32 low, i32 high) {
  i32 rounded;
  if constexpr (sizeof(T) == 8) {
    asm("cvt.rni.s32.f64 %0, %1;" : "=r"(rounded) : "d"(static_cast<double>(value)));
  } else {
    asm("cvt.rni.s32.f32 %0, %1;" : "=r"(rounded) : "f"(static_cast<float>(value)));
  }
  if (value != value) return 0;
  return rounded < low ? low : rounded > high ? high : rounded;
}
CULET_DEVICE i32 to_integer(i32 value, i32 low, i32 high) {
  return value < low ? low : value > high ? high : value;
}

/// The reverse of decode().
template <DType Type, class T>
CULET_DEVICE StoredType<Type> encode(T value) {
  if constexpr (Type == DType::f64) {
    return static_cast<u64>(__double_as_longlong(static_cast<double>(value)));
  }
  if constexpr (Type == DType::f32 || Type == DType::tf32) {
    return __float_as_uint(static_cast<float>(value));
  }
  if constexpr (Type == DType::f16) return float_to_f16(static_cast<float>(value));
  if constexpr (Type == DType::bf16) return float_to_bf16(static_cast<float>(value));
  if constexpr (Type == DType::e4m3) return float_to_e4m3(static_cast<float>(value));
  if constexpr (Type == DType::e5m2) return float_to_e5m2(static_cast<float>(value));
  if constexpr (Type == DType::s8) return static_cast<u8>(to_integer(value, -128, 127));
  if constexpr (Type == DType::u8) return static_cast<u8>(to_integer(value, 0, 255));
  if constexpr (Type == DType::s32) {
    return static_cast<u32>(to_integer(value, static_cast<i32>(0x80000000), 0x7FFFFFFF));
  }
}

/// Element `index` of an array.
template <class T, DType Type>
CULET_DEVICE T load_element(const void* base, i64 index) {
  return decode<T, Type>(static_cast<const StoredType<Type>*>(base)[index]);
}
/// Two neighbouring elements as they stand in memory: one load where they are of 32 bits or less.
template <DType Type>
struct PairBits {
  static constexpr int kBits = 8 * size_of(Type);
  u64 words[kBits == 64 ? 2 : 1];

  /// Elements `index` and the next; `index` is even and `base` aligned to pairs.
  CULET_DEVICE void load(const void* base, i64 index) {
    const auto* from = static_cast<const StoredType<Type>*>(base) + index;
    if constexpr (kBits == 64) {
      words[0] = from[0];
      words[1] = from[1];
    } else {
      words[0] = *reinterpret_cast<const typename Stored<2 * size_of(Type)>::Type*>(from);
    }
  }
  template <class T>
  CULET_DEVICE T element(int i) const {
    const u64 bits = kBits == 64 ? words[i] : words[0] >> (i * kBits % 64);
    return decode<T, Type>(static_cast<StoredType<Type>>(bits));
  }
};
template <DType Type, class T>
CULET_DEVICE void store_element(void* base, i64 index, T value) {
  static_cast<StoredType<Type>*>(base)[index] = encode<Type>(value);
}

}  // namespace culet::kernels

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// The contents of operands while measuring, and the number formats they are stored in. A value is
// a pure function of (seed, operand, place in memory), the same in C++ and in CUDA C++, so that the
// reference recomputes any element instead of trusting memory that a kernel may have overwritten.
// Nothing here is shared with the kernels under test: an error in their conversions cannot hide in
// ours. Includes nothing, for NVRTC.
#pragma once

#if defined(__CUDACC__)
#define CULET_VERIFY_FN __host__ __device__ inline
#else
#define CULET_VERIFY_FN inline
#endif

namespace culet::verify {

using u32 = unsigned int;
using u64 = unsigned long long;
using i64 = long long;

/// In the order of culet::DType, which the host asserts.
enum class Format : int { f64, f32, tf32, f16, bf16, e4m3, e5m2, s8, u8, s32, e2m1, e8m0 };

CULET_VERIFY_FN u64 bits_of(double value) {
#if defined(__CUDA_ARCH__)
  return static_cast<u64>(__double_as_longlong(value));
#else
  return __builtin_bit_cast(u64, value);
#endif
}

CULET_VERIFY_FN double double_of(u64 bits) {
#if defined(__CUDA_ARCH__)
  return __longlong_as_double(static_cast<i64>(bits));
#else
  return __builtin_bit_cast(double, bits);
#endif
}

CULET_VERIFY_FN u32 bits_of(float value) {
#if defined(__CUDA_ARCH__)
  return __float_as_uint(value);
#else
  return __builtin_bit_cast(u32, value);
#endif
}

CULET_VERIFY_FN float float_of(u32 bits) {
#if defined(__CUDA_ARCH__)
  return __uint_as_float(bits);
#else
  return __builtin_bit_cast(float, bits);
#endif
}

/// 2^exponent within double's normal range.
CULET_VERIFY_FN double power_of_two(int exponent) {
  return double_of(static_cast<u64>(exponent + 1023) << 52);
}

// --- Formats -------------------------------------------------------------------------------------

CULET_VERIFY_FN constexpr bool is_integer(Format f) {
  return f == Format::s8 || f == Format::u8 || f == Format::s32;
}

CULET_VERIFY_FN constexpr int bytes_of(Format f) {
  return f == Format::f64                                            ? 8
         : f == Format::f32 || f == Format::tf32 || f == Format::s32 ? 4
         : f == Format::f16 || f == Format::bf16                     ? 2
                                                                     : 1;
}

/// Bits of the significand with the hidden one. tf32 is 11: what is stored in a tf32 operand is
/// rounded beforehand, so that its products are the same on every path.
CULET_VERIFY_FN constexpr int significand(Format f) {
  return f == Format::f64                        ? 53
         : f == Format::f32                      ? 24
         : f == Format::tf32 || f == Format::f16 ? 11
         : f == Format::bf16                     ? 8
         : f == Format::e4m3                     ? 4
         : f == Format::e5m2                     ? 3
                                                 : 0;
}

CULET_VERIFY_FN constexpr int min_exponent(Format f) {
  return f == Format::f64                                             ? -1022
         : f == Format::f32 || f == Format::tf32 || f == Format::bf16 ? -126
         : f == Format::f16 || f == Format::e5m2                      ? -14
                                                                      : -6;
}

CULET_VERIFY_FN double largest(Format f) {
  return f == Format::f16    ? 65504.0
         : f == Format::e4m3 ? 448.0
         : f == Format::e5m2 ? 57344.0
         : f == Format::bf16 ? 3.3895313892515355e38
         : f == Format::s8   ? 127.0
         : f == Format::u8   ? 255.0
         : f == Format::s32  ? 2147483647.0
         : f == Format::f64  ? 1.7976931348623157e308
                             : 3.4028234663852886e38;
}

/// Half the distance between neighbours in a floating-point format around a magnitude: the error
/// of one rounding to nearest.
CULET_VERIFY_FN double half_ulp(Format f, double magnitude) {
  int exponent = static_cast<int>((bits_of(magnitude) >> 52) & 0x7ff) - 1023;
  const int lowest = min_exponent(f);
  if (exponent < lowest) exponent = lowest;
  // Below double's normal range half an ulp of f64 itself is not a normal number.
  const int half = exponent - significand(f);
  return half < -1022 ? 4.9406564584124654e-324 : power_of_two(half);
}

/// The value of a narrow format's code: e exponent bits, m mantissa bits.
CULET_VERIFY_FN double decode_narrow(u32 code, int e, int m, bool has_infinity) {
  const u32 field = (code >> m) & ((1u << e) - 1);
  const u32 fraction = code & ((1u << m) - 1);
  const int bias = (1 << (e - 1)) - 1;
  const double sign = (code >> (e + m)) & 1 ? -1.0 : 1.0;
  if (field == (1u << e) - 1) {
    const u32 all = (1u << m) - 1;
    const bool nan = has_infinity ? fraction != 0 : fraction == all;
    if (nan) return double_of(0x7ff8000000000000ull);
    if (has_infinity) return sign * double_of(0x7ff0000000000000ull);
  }
  if (field == 0) return sign * static_cast<double>(fraction) * power_of_two(1 - bias - m);
  return sign * static_cast<double>(fraction + (1u << m)) *
         power_of_two(static_cast<int>(field) - bias - m);
}

CULET_VERIFY_FN double decode(Format f, u64 code) {
  switch (f) {
    case Format::f64:
      return double_of(code);
    case Format::f32:
    case Format::tf32:
      return static_cast<double>(float_of(static_cast<u32>(code)));
    case Format::f16:
      return decode_narrow(static_cast<u32>(code), 5, 10, true);
    case Format::bf16:
      return static_cast<double>(float_of(static_cast<u32>(code) << 16));
    case Format::e4m3:
      return decode_narrow(static_cast<u32>(code), 4, 3, false);
    case Format::e5m2:
      return decode_narrow(static_cast<u32>(code), 5, 2, true);
    case Format::s8:
      return static_cast<double>(static_cast<signed char>(code));
    case Format::u8:
      return static_cast<double>(static_cast<unsigned char>(code));
    case Format::s32:
      return static_cast<double>(static_cast<int>(code));
    default:
      return 0;
  }
}

/// The code of a value that the format represents exactly and normally, as all random values are.
CULET_VERIFY_FN u64 encode_exact(Format f, double value) {
  if (is_integer(f)) return static_cast<u64>(static_cast<i64>(value));
  const u64 bits = bits_of(value);
  if (f == Format::f64) return bits;
  if (f == Format::f32 || f == Format::tf32) return bits_of(static_cast<float>(value));
  if (f == Format::bf16) return bits_of(static_cast<float>(value)) >> 16;
  const int m = significand(f) - 1;
  const int width = f == Format::f16 ? 16 : 8;
  const u64 exponent = ((bits >> 52) & 0x7ff) - 1023 + static_cast<u64>(1 - min_exponent(f));
  const u64 fraction = (bits >> (52 - m)) & ((1ull << m) - 1);
  return ((bits >> 63) << (width - 1)) | (exponent << m) | fraction;
}

// --- Random values -------------------------------------------------------------------------------

/// The finaliser of SplitMix64: every input bit moves every output bit.
CULET_VERIFY_FN u64 mix(u64 x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
  return x ^ (x >> 31);
}

inline constexpr u64 kGolden = 0x9e3779b97f4a7c15ull;

/// The stream of one operand of one copy of the operands.
CULET_VERIFY_FN u64 stream_key(u64 seed, u64 operand, u64 copy) {
  return mix(mix(mix(seed + kGolden) + operand + kGolden) + copy + kGolden);
}

/// A normal value rounded to `digits` significant bits, ties to even.
CULET_VERIFY_FN double round_to(double value, int digits) {
  const u64 bits = bits_of(value);
  const int shift = 53 - digits;
  const u64 half = (1ull << (shift - 1)) - 1 + ((bits >> shift) & 1);
  return double_of((bits + half) & ~((1ull << shift) - 1));
}

/// The value at element `index` of a stream. Floating point: either sign, magnitude uniform over
/// [1/8, 1] and rounded to the format: sums stay well-conditioned, and no product is so small that
/// leaving it out would not show. 8-bit integers: the whole range; s32: -1024..1023.
CULET_VERIFY_FN double random_value(Format f, u64 key, u64 index) {
  const u64 r = mix(key + index * kGolden);
  if (f == Format::s8) return static_cast<double>(static_cast<int>(r >> 56) - 128);
  if (f == Format::u8) return static_cast<double>(static_cast<int>(r >> 56));
  if (f == Format::s32) return static_cast<double>(static_cast<int>(r >> 53) - 1024);
  // 52 random bits below the sign bit, as a double in [1, 2), then to [1/8, 1).
  const double u = double_of(0x3ff0000000000000ull | (r & 0xfffffffffffffull)) - 1.0;
  const double magnitude = 0.125 + 0.875 * u;
  const double rounded = f == Format::f64 ? magnitude : round_to(magnitude, significand(f));
  return r >> 63 ? -rounded : rounded;
}

}  // namespace culet::verify

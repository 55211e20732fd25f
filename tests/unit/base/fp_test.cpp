// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// The narrow formats, against the compiler's own types where it has them and against exhaustive
// round trips where it does not.
#include "base/fp.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <random>

namespace culet {
namespace {

// Every finite code must decode to a value that encodes to the same code, and values in between
// must go to the nearer neighbour, ties to the even code.
template <typename Bits, typename Decode, typename Encode>
void check_neighbours(unsigned largest, Decode decode, Encode encode) {
  for (unsigned code = 0; code < largest; ++code) {
    const double low = decode(static_cast<Bits>(code));
    const double high = decode(static_cast<Bits>(code + 1));
    ASSERT_LT(low, high) << code;
    ASSERT_EQ(encode(low), code);
    const double middle = (low + high) / 2;
    ASSERT_EQ(encode(middle), code % 2 == 0 ? code : code + 1) << code;
    ASSERT_EQ(encode(std::nextafter(middle, low)), code);
    ASSERT_EQ(encode(std::nextafter(middle, high)), code + 1);
    ASSERT_EQ(encode(-high) & static_cast<Bits>(~(1u << (8 * sizeof(Bits) - 1))), code + 1);
  }
}

TEST(Fp, EveryCodeRoundsToNearestEven) {
  check_neighbours<std::uint16_t>(0x7bff, from_f16_bits, to_f16_bits);
  check_neighbours<std::uint16_t>(0x7f7f, from_bf16_bits, to_bf16_bits);
  check_neighbours<std::uint8_t>(0x7e, from_e4m3_bits, to_e4m3_bits);
  check_neighbours<std::uint8_t>(0x7b, from_e5m2_bits, to_e5m2_bits);
}

TEST(Fp, KnownValues) {
  EXPECT_EQ(to_f16_bits(1.0), 0x3c00);
  EXPECT_EQ(to_f16_bits(-2.0), 0xc000);
  EXPECT_EQ(to_f16_bits(65504), 0x7bff);
  EXPECT_EQ(to_bf16_bits(1.0), 0x3f80);
  EXPECT_EQ(to_e4m3_bits(1.0), 0x38);
  EXPECT_EQ(to_e4m3_bits(448), 0x7e);
  EXPECT_EQ(to_e5m2_bits(1.0), 0x3c);
  EXPECT_EQ(to_e5m2_bits(57344), 0x7b);
  EXPECT_EQ(from_e4m3_bits(0x01), 0x1p-9f);
  EXPECT_EQ(from_e5m2_bits(0x01), 0x1p-16f);
}

TEST(Fp, Overflow) {
  const double inf = std::numeric_limits<double>::infinity();
  EXPECT_EQ(to_f16_bits(65519.99), 0x7bff);
  EXPECT_EQ(to_f16_bits(65520), 0x7c00);
  EXPECT_EQ(to_f16_bits(-inf), 0xfc00);
  EXPECT_EQ(to_bf16_bits(1e39), 0x7f80);
  EXPECT_EQ(to_e4m3_bits(1e6), 0x7e) << "8-bit formats saturate";
  EXPECT_EQ(to_e4m3_bits(-inf), 0xfe);
  EXPECT_EQ(to_e5m2_bits(inf), 0x7b);
  EXPECT_TRUE(std::isinf(from_f16_bits(0x7c00)));
  EXPECT_TRUE(std::isinf(from_e5m2_bits(0x7c)));
}

TEST(Fp, Nan) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_TRUE(std::isnan(from_f16_bits(to_f16_bits(nan))));
  EXPECT_TRUE(std::isnan(from_bf16_bits(to_bf16_bits(nan))));
  EXPECT_TRUE(std::isnan(from_e4m3_bits(to_e4m3_bits(nan))));
  EXPECT_TRUE(std::isnan(from_e5m2_bits(to_e5m2_bits(nan))));
  EXPECT_TRUE(std::isnan(from_f16_bits(0x7c01)));
  EXPECT_TRUE(std::isnan(from_e4m3_bits(0x7f)));
  EXPECT_TRUE(std::isnan(from_e5m2_bits(0x7d)));
  EXPECT_TRUE(std::isnan(round_to_tf32(std::numeric_limits<float>::quiet_NaN())));
}

TEST(Fp, ZeroKeepsItsSign) {
  EXPECT_EQ(to_f16_bits(-0.0), 0x8000);
  EXPECT_TRUE(std::signbit(from_bf16_bits(to_bf16_bits(-0.0))));
  EXPECT_TRUE(std::signbit(from_e4m3_bits(0x80)));
}

TEST(Fp, DoubleIsRoundedOnce) {
  // Just above the middle of two f16 values, but rounding to float first lands on the middle.
  const double above = 1.0 + 0x1p-11 + 0x1p-40;
  EXPECT_EQ(to_f16_bits(above), 0x3c01);
  EXPECT_EQ(to_f16_bits(static_cast<float>(above)), 0x3c00);
}

TEST(Fp, Tf32KeepsElevenBits) {
  EXPECT_EQ(round_to_tf32(1.0f + 0x1p-10f), 1.0f + 0x1p-10f);
  EXPECT_EQ(round_to_tf32(1.0f + 0x1p-11f), 1.0f);
  EXPECT_EQ(round_to_tf32(1.0f + 0x1p-10f + 0x1p-11f), 1.0f + 0x1p-9f);
  EXPECT_EQ(round_to_tf32(-3.0f), -3.0f);
}

#if defined(__FLT16_MANT_DIG__)
TEST(Fp, HalfAgreesWithTheCompiler) {
  std::mt19937 random(7);
  for (int i = 0; i < 200000; ++i) {
    const auto bits = static_cast<std::uint32_t>(random());
    float value = 0;
    std::memcpy(&value, &bits, sizeof value);
    if (std::isnan(value)) continue;
    const _Float16 half = static_cast<_Float16>(value);
    std::uint16_t expected = 0;
    std::memcpy(&expected, &half, sizeof expected);
    ASSERT_EQ(to_f16_bits(value), expected) << value;
  }
}
#endif

}  // namespace
}  // namespace culet

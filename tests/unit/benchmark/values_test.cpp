// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// The generator of operands' contents and the number formats that verification uses on its own.
#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "base/fp.h"
#include "benchmark/operands.h"
#include "kernels/verify/running_error.h"

namespace culet {
namespace {

using verify::Format;

constexpr Format kFormats[] = {Format::f64,  Format::f32,  Format::tf32, Format::f16, Format::bf16,
                               Format::e4m3, Format::e5m2, Format::s8,   Format::u8,  Format::s32};

TEST(Values, DecodeAgreesWithTheLibraryOverAllNarrowCodes) {
  const auto same = [](double x, double y) { return x == y || (x != x && y != y); };
  for (unsigned code = 0; code < 0x10000; ++code) {
    const auto c = static_cast<std::uint16_t>(code);
    EXPECT_TRUE(same(verify::decode(Format::f16, c), from_f16_bits(c))) << code;
    EXPECT_TRUE(same(verify::decode(Format::bf16, c), from_bf16_bits(c))) << code;
  }
  for (unsigned code = 0; code < 256; ++code) {
    const auto c = static_cast<std::uint8_t>(code);
    EXPECT_TRUE(same(verify::decode(Format::e4m3, c), from_e4m3_bits(c))) << code;
    EXPECT_TRUE(same(verify::decode(Format::e5m2, c), from_e5m2_bits(c))) << code;
  }
}

TEST(Values, AllOnesIsNaNInEveryFloatingFormat) {
  for (const Format f : kFormats) {
    if (verify::is_integer(f)) continue;
    const double poison = verify::decode(f, ~std::uint64_t{0} >> (64 - 8 * verify::bytes_of(f)));
    EXPECT_TRUE(std::isnan(poison)) << static_cast<int>(f);
  }
}

TEST(Values, RandomValuesAreExactInTheirFormatAndInRange) {
  const auto key = verify::stream_key(7, 0, 0);
  for (const Format f : kFormats) {
    bool negative = false, positive = false;
    std::set<double> distinct;
    for (std::uint64_t i = 0; i < 5000; ++i) {
      const double value = verify::random_value(f, key, i);
      EXPECT_EQ(verify::decode(f, verify::encode_exact(f, value)), value) << static_cast<int>(f);
      negative |= value < 0;
      positive |= value > 0;
      distinct.insert(value);
      if (!verify::is_integer(f)) {
        EXPECT_GE(std::fabs(value), 0.125);
        EXPECT_LE(std::fabs(value), 1.0);
      }
    }
    EXPECT_TRUE(positive);
    EXPECT_EQ(negative, f != Format::u8);
    EXPECT_GT(distinct.size(), 20u) << static_cast<int>(f);
  }
}

TEST(Values, EncodingMatchesTheLibrarys) {
  const auto key = verify::stream_key(8, 1, 0);
  for (std::uint64_t i = 0; i < 2000; ++i) {
    const double f16 = verify::random_value(Format::f16, key, i);
    EXPECT_EQ(verify::encode_exact(Format::f16, f16), to_f16_bits(f16));
    const double bf16 = verify::random_value(Format::bf16, key, i);
    EXPECT_EQ(verify::encode_exact(Format::bf16, bf16), to_bf16_bits(bf16));
    const double e4m3 = verify::random_value(Format::e4m3, key, i);
    EXPECT_EQ(verify::encode_exact(Format::e4m3, e4m3), to_e4m3_bits(e4m3));
    const double e5m2 = verify::random_value(Format::e5m2, key, i);
    EXPECT_EQ(verify::encode_exact(Format::e5m2, e5m2), to_e5m2_bits(e5m2));
  }
}

TEST(Values, StreamsDiffer) {
  const auto value = [](std::uint64_t seed, std::uint64_t operand, std::uint64_t copy) {
    return verify::random_value(Format::f32, verify::stream_key(seed, operand, copy), 0);
  };
  EXPECT_NE(value(1, 0, 0), value(2, 0, 0));
  EXPECT_NE(value(1, 0, 0), value(1, 1, 0));
  EXPECT_NE(value(1, 0, 0), value(1, 0, 1));
  EXPECT_EQ(value(1, 2, 3), value(1, 2, 3));
}

TEST(Values, HalfUlpIsHalfTheDistanceOfNeighbours) {
  for (const double v : {1.0, 1.5, 1.99, 2.0, 0.3, 1e-5, 60000.0}) {
    const auto code = to_f16_bits(v);
    const double stored = from_f16_bits(code);
    const double next = from_f16_bits(static_cast<std::uint16_t>(code + 1));
    EXPECT_EQ(verify::half_ulp(Format::f16, stored), (next - stored) / 2) << v;
  }
  EXPECT_EQ(verify::half_ulp(Format::f32, 1.0), 0x1p-24);
  EXPECT_EQ(verify::half_ulp(Format::bf16, 1.0), 0x1p-8);
  EXPECT_EQ(verify::half_ulp(Format::f64, 1.0), 0x1p-53);
}

TEST(Values, StoringSaturatesWhereTheContractSaysSo) {
  EXPECT_EQ(verify::stored({1000, 0}, Format::e4m3, 2).value, 448);
  EXPECT_EQ(verify::stored({-1e6, 0}, Format::e5m2, 2).value, -57344);
  EXPECT_EQ(verify::stored({300, 0}, Format::u8, 2).value, 255);
  EXPECT_EQ(verify::stored({-300.25, 0}, Format::s8, 2).value, -128);
  EXPECT_EQ(verify::stored({2.5, 0}, Format::s32, 2).value, 2);  // ties to even
  EXPECT_EQ(verify::stored({2.5, 0}, Format::s32, 2).error, 0);
  EXPECT_EQ(verify::stored({1000, 0}, Format::bf16, 2).value, 1000);
}

TEST(Values, ErrorRatioTellsWrongFromRight) {
  const Format f = Format::f16;
  EXPECT_EQ(verify::error_ratio(2, {2, 0}, f), 0);
  EXPECT_EQ(verify::error_ratio(2.5, {2, 1}, f), 0.5);
  EXPECT_GT(verify::error_ratio(2.001, {2, 0}, f), 1e20);
  EXPECT_GT(verify::error_ratio(NAN, {2, 1}, f), 1e20);
  EXPECT_GT(verify::error_ratio(2, {NAN, 1}, f), 1e20);
  EXPECT_EQ(verify::error_ratio(NAN, {NAN, 1}, f), 0);
  EXPECT_EQ(verify::error_ratio(INFINITY, {70000, 1}, f), 0);
  EXPECT_GT(verify::error_ratio(INFINITY, {60000, 1}, f), 1e20);
  EXPECT_GT(verify::error_ratio(-INFINITY, {70000, 1}, f), 1e20);
  EXPECT_EQ(verify::error_ratio(5, {1, verify::kUnbounded}, f), 0);
}

}  // namespace
}  // namespace culet

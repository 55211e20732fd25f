// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// The functions of epilogues against the C library's in double, and dtype conversions.
#include <gtest/gtest.h>

#include <cmath>

#include "launch/element.h"
#include "launch/vector_math.h"

namespace culet::test {
namespace {

TEST(VectorMath, Exp) {
  double worst = 0;
  for (double x = -86.9; x < 88.7; x += 0.00137) {
    const auto single = static_cast<float>(x);
    const double want = std::exp(static_cast<double>(single));
    worst = std::max(worst, std::fabs(vector_exp(single) - want) / want);
  }
  EXPECT_LT(worst, 2.5e-7);
  EXPECT_EQ(vector_exp(0.0F), 1.0F);
  EXPECT_EQ(vector_exp(-1000.0F), 0.0F);
  EXPECT_EQ(vector_exp(1000.0F), std::numeric_limits<float>::infinity());
  EXPECT_TRUE(std::isnan(vector_exp(std::nanf(""))));
}

TEST(VectorMath, Tanh) {
  double worst = 0;
  for (double x = -12; x < 12; x += 0.000713) {
    const auto single = static_cast<float>(x);
    const double want = std::tanh(static_cast<double>(single));
    worst = std::max(worst, std::fabs(vector_tanh(single) - want) / std::fabs(want));
  }
  EXPECT_LT(worst, 5e-7);
  EXPECT_EQ(vector_tanh(100.0F), 1.0F);
  EXPECT_EQ(vector_tanh(-100.0F), -1.0F);
  EXPECT_TRUE(std::isnan(vector_tanh(std::nanf(""))));
}

TEST(Element, FourBitFloats) {
  for (unsigned code = 0; code < 16; ++code) {
    if (code == 8) continue;  // minus zero
    EXPECT_EQ(to_e2m1(from_e2m1(code)), code);
  }
  EXPECT_EQ(from_e2m1(to_e2m1(100)), 6);
  EXPECT_EQ(from_e2m1(to_e2m1(2.5)), 2);  // a tie goes to the even code
  EXPECT_EQ(from_e2m1(to_e2m1(3.5)), 4);
  unsigned char pair[1] = {0};
  store_element(DType::e2m1, pair, 0, 1.5);
  store_element(DType::e2m1, pair, 1, -3);
  EXPECT_EQ(load_element(DType::e2m1, pair, 0), 1.5);
  EXPECT_EQ(load_element(DType::e2m1, pair, 1), -3);
}

TEST(Element, IntegersRoundAndSaturate) {
  EXPECT_EQ(to_integer<std::int8_t>(2.5), 2);
  EXPECT_EQ(to_integer<std::int8_t>(3.5), 4);
  EXPECT_EQ(to_integer<std::int8_t>(300), 127);
  EXPECT_EQ(to_integer<std::int8_t>(-300), -128);
  EXPECT_EQ(to_integer<std::uint8_t>(-1), 0);
  EXPECT_EQ(to_integer<std::int32_t>(1e12), 2147483647);
  EXPECT_EQ(to_integer<std::int32_t>(std::nan("")), 0);
}

}  // namespace
}  // namespace culet::test

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// The model on fictional devices whose answers can be worked out by hand, and its monotonicity.
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "culet/ranking.h"

namespace culet {
namespace {

// 100 units, 1e12 operations and 1e9 bytes a second: figures that divide well.
DeviceSpec device() {
  DeviceSpec d;
  d.kind = DeviceKind::cuda;
  d.units = 100;
  d.tensor_ops = {{DType::bf16, 1e12}};
  d.vector_ops = {{DType::f32, 1e11}};
  d.dram_bytes_per_s = 1e9;
  d.l2_bytes_per_s = 1e10;
  d.shared_bytes_per_s = 1e11;
  d.launch_seconds = 0;
  d.latency_seconds = 0;
  return d;
}

Features even_work() {
  Features f;
  f.tiles = 100;
  f.slots = 100;
  f.launches = 1;
  return f;
}

TEST(Roofline, EachTermAlone) {
  Features f = even_work();
  f.math_ops = 1e12;
  EXPECT_NEAR(estimate(f, device()).seconds, 1, 1e-9);
  EXPECT_EQ(estimate(f, device()).limiter, Limiter::math);
  f = even_work();
  f.dram_bytes = 1e9;
  EXPECT_NEAR(estimate(f, device()).seconds, 1, 1e-9);
  EXPECT_EQ(estimate(f, device()).limiter, Limiter::dram);
  f = even_work();
  f.l2_bytes = 1e10;
  EXPECT_NEAR(estimate(f, device()).seconds, 1, 1e-9);
  EXPECT_EQ(estimate(f, device()).limiter, Limiter::l2);
  f = even_work();
  f.shared_bytes = 1e11;
  EXPECT_NEAR(estimate(f, device()).seconds, 1, 1e-9);
  EXPECT_EQ(estimate(f, device()).limiter, Limiter::shared);
}

TEST(Roofline, ATenthOfTheShorterTermsShows) {
  Features f = even_work();
  f.math_ops = 1e12;
  f.dram_bytes = 0.5e9;
  EXPECT_NEAR(estimate(f, device()).seconds, 1.05, 1e-9);
  EXPECT_EQ(estimate(f, device()).limiter, Limiter::math);
}

TEST(Roofline, EfficiencyAndPipes) {
  Features f = even_work();
  f.math_ops = 1e12;
  f.math_efficiency = 0.5;
  EXPECT_NEAR(estimate(f, device()).seconds, 2, 1e-9);
  f.math_efficiency = 1;
  f.tensor = false;
  f.math_dtype = DType::f32;
  EXPECT_NEAR(estimate(f, device()).seconds, 10, 1e-9);
  f.math_dtype = DType::f64;  // not listed: as f32
  EXPECT_NEAR(estimate(f, device()).seconds, 10, 1e-9);
  DeviceSpec bare = device();
  bare.tensor_ops.clear();
  bare.vector_ops.clear();
  EXPECT_TRUE(std::isfinite(estimate(f, bare).seconds));
}

TEST(Roofline, WavesQuantiseMath) {
  Features f = even_work();
  f.math_ops = 1e12;
  f.tiles = 101;  // two rounds for little more than one
  EXPECT_NEAR(estimate(f, device()).seconds, 200.0 / 101, 1e-9);
  EXPECT_EQ(estimate(f, device()).limiter, Limiter::waves);
  f.tiles = 190;
  EXPECT_NEAR(estimate(f, device()).seconds, 200.0 / 190, 1e-9);
  EXPECT_EQ(estimate(f, device()).limiter, Limiter::math);
  f.tiles = 25;  // a quarter of the units
  EXPECT_NEAR(estimate(f, device()).seconds, 4, 1e-9);
  EXPECT_EQ(estimate(f, device()).limiter, Limiter::waves);
  // Two tiles on a unit at once share it: the same rounds as one after the other.
  f.tiles = 200;
  f.slots = 200;
  EXPECT_NEAR(estimate(f, device()).seconds, 1, 1e-9);
}

TEST(Roofline, FewUnitsCanStillFillTheMemory) {
  // Ten units can take 10 * 1e8 = 1e9 bytes a second: all of it. Five can take half.
  Features f = even_work();
  f.dram_bytes = 1e9;
  f.tiles = 10;
  EXPECT_NEAR(estimate(f, device()).seconds, 1, 1e-9);
  f.tiles = 5;
  EXPECT_NEAR(estimate(f, device()).seconds, 2, 1e-9);
  EXPECT_EQ(estimate(f, device()).limiter, Limiter::waves);
}

TEST(Roofline, TheTailOfMemoryWork) {
  // 105 tiles: 100 at full rate, the last five at half of it.
  Features f = even_work();
  f.dram_bytes = 1.05e9;
  f.tiles = 105;
  EXPECT_NEAR(estimate(f, device()).seconds, 1.0 + 0.1, 1e-9);
}

TEST(Roofline, BytesInFlight) {
  // 1e9 bytes/s * 1 us = 1000 bytes in flight are needed, 10 a unit.
  Features f = even_work();
  f.dram_bytes = 1e9;
  f.bytes_in_flight = 10;
  EXPECT_NEAR(estimate(f, device()).seconds, std::sqrt(2.0), 1e-9);
  f.bytes_in_flight = 1;
  EXPECT_NEAR(estimate(f, device()).seconds, std::sqrt(101.0), 1e-6);
  f.bytes_in_flight = 1000;
  EXPECT_NEAR(estimate(f, device()).seconds, 1, 1e-3);
}

TEST(Roofline, ReproducesTheRingsOfDecodeKernels) {
  // H200: rings of 40, 60 and 100 KB a multiprocessor lost about 35, 14 and 0-6 %.
  DeviceSpec d = device();
  d.units = 132;
  d.dram_bytes_per_s = 4.66e12;
  d.l2_bytes_per_s = 6.8e12;
  Features f = even_work();
  f.tiles = f.slots = 132;
  f.dram_bytes = 470e6;
  const double free = estimate(f, d).seconds;
  const auto loss = [&](double kilobytes) {
    f.bytes_in_flight = kilobytes * 1e3;
    return estimate(f, d).seconds / free - 1;
  };
  EXPECT_NEAR(loss(40), 0.35, 0.09);
  EXPECT_NEAR(loss(60), 0.14, 0.04);
  EXPECT_NEAR(loss(100), 0.03, 0.04);
}

TEST(Roofline, FixedCosts) {
  DeviceSpec d = device();
  d.launch_seconds = 2e-6;
  d.latency_seconds = 1e-6;
  Features f = even_work();
  f.launches = 3;
  f.extra_seconds = 5e-6;
  const Estimate nothing = estimate(f, d);
  EXPECT_NEAR(nothing.seconds, 12e-6, 1e-12);
  EXPECT_EQ(nothing.limiter, Limiter::latency);
  f.math_ops = 1e12;
  EXPECT_EQ(estimate(f, d).limiter, Limiter::math);
}

TEST(Roofline, CpuWithFewerThreadsThanCores) {
  DeviceSpec d = device();
  d.kind = DeviceKind::cpu;
  d.units = 4;
  Features f;
  f.tensor = false;
  f.math_dtype = DType::f32;
  f.math_ops = 1e11;
  f.tiles = f.slots = 1;
  EXPECT_NEAR(estimate(f, d).seconds, 4, 1e-9) << "one core of four";
  f.tiles = f.slots = 4;
  EXPECT_NEAR(estimate(f, d).seconds, 1, 1e-9);
}

// More of anything that costs never makes the estimate smaller; a better device never larger.
TEST(Roofline, IsMonotonic) {
  std::mt19937_64 random(2);
  std::uniform_real_distribution<double> exponent(0, 6);
  const auto any = [&](double scale) { return scale * std::pow(10, exponent(random)); };
  for (int i = 0; i < 20000; ++i) {
    DeviceSpec d = device();
    d.launch_seconds = any(1e-9);
    d.units = 1 + static_cast<int>(random() % 200);
    Features f;
    f.math_ops = any(1e6);
    f.dram_bytes = any(1e3);
    f.l2_bytes = any(1e4);
    f.shared_bytes = any(1e5);
    f.tiles = 1 + static_cast<double>(random() % 1000);
    f.slots = 1 + static_cast<double>(random() % 400);
    f.bytes_in_flight = static_cast<double>(random() % 3) * 1e4;
    f.math_efficiency = 0.1 + static_cast<double>(random() % 10) / 11;
    const double base = estimate(f, d).seconds;
    ASSERT_TRUE(std::isfinite(base));
    ASSERT_GT(base, 0);
    for (double Features::*cost :
         {&Features::math_ops, &Features::dram_bytes, &Features::l2_bytes, &Features::shared_bytes,
          &Features::extra_seconds, &Features::launches}) {
      Features more = f;
      more.*cost = more.*cost * 1.5 + 1e-9;
      ASSERT_GE(estimate(more, d).seconds, base);
    }
    for (double DeviceSpec::*rate : {&DeviceSpec::dram_bytes_per_s, &DeviceSpec::l2_bytes_per_s,
                                     &DeviceSpec::shared_bytes_per_s}) {
      DeviceSpec faster = d;
      faster.*rate *= 2;
      ASSERT_LE(estimate(f, faster).seconds, base * (1 + 1e-12));
    }
    Features better = f;
    better.math_efficiency = 1;
    ASSERT_LE(estimate(better, d).seconds, base);
    if (f.bytes_in_flight > 0) {
      better = f;
      better.bytes_in_flight *= 2;
      ASSERT_LE(estimate(better, d).seconds, base);
    }
    Features even = f;  // tiles that fill whole rounds are never worse than the same work uneven
    even.tiles = std::ceil(f.tiles / std::clamp(f.slots, 1.0, 1.0 * d.units)) *
                 std::clamp(f.slots, 1.0, 1.0 * d.units);
    ASSERT_LE(estimate(even, d).seconds, base * (1 + 1e-12));
  }
}

TEST(Limiters, HaveNames) {
  EXPECT_EQ(to_string(Limiter::math), "math");
  EXPECT_EQ(to_string(Limiter::waves), "waves");
  EXPECT_EQ(to_string(Limiter::latency), "latency");
}

}  // namespace
}  // namespace culet

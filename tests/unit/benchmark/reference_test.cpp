// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// Operands in memory, the reference's sums, the samples it takes, and the error bounds.
#include "benchmark/reference.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>
#include <set>

#include "base/fp.h"
#include "benchmark/host_memory.h"

namespace culet::benchmark {
namespace {

Problem parsed(const std::string& text) {
  auto problem = Problem::parse(text);
  EXPECT_TRUE(problem) << (problem ? "" : problem.error().message);
  return *problem;
}

struct Filled {
  explicit Filled(const std::string& text, bool tight = false)
      : layout(*make_set_layout(parsed(text), tight)),
        block(*HostBlock::allocate(layout.block_bytes)) {
    fill_set(layout, seed, block.data());
  }
  SetLayout layout;
  SetSeed seed{5, 0};
  HostBlock block;

  template <typename T>
  T at(int id, std::int64_t offset) const {
    T value;
    std::memcpy(&value, block.data() + layout.place(id).begin + offset * sizeof(T), sizeof(T));
    return value;
  }
  template <typename T>
  void set(int id, std::int64_t offset, T value) {
    std::memcpy(block.data() + layout.place(id).begin + offset * sizeof(T), &value, sizeof(T));
  }
};

TEST(Operands, PaddingAndSurroundingsAreNaN) {
  const Filled f("5x7x9:f32:lda=12:ldb=11:ldd=10");
  for (int row = 0; row < 5; ++row)
    for (int k = 0; k < (row < 4 ? 12 : 9); ++k)
      EXPECT_EQ(std::isnan(f.at<float>(kA, row * 12 + k)), k >= 9) << row << ' ' << k;
  EXPECT_TRUE(std::isnan(f.at<float>(kA, -1)));
  EXPECT_TRUE(std::isnan(f.at<float>(kA, 4 * 12 + 9)));
  for (int i = 0; i < 5 * 10; ++i) EXPECT_TRUE(std::isnan(f.at<float>(kD, i)));
}

TEST(Operands, TightAlignmentIsExactlyWhatIsGuaranteed) {
  const SetLayout loose = *make_set_layout(parsed("8x8x8:bf16"), false);
  EXPECT_EQ(loose.place(kA).begin % 256, 0);
  const SetLayout tight = *make_set_layout(parsed("8x8x8:bf16"), true);
  EXPECT_EQ(tight.place(kA).begin % 256, 16);
  const SetLayout off = *make_set_layout(parsed("8x8x8:bf16:aligna=2"), false);
  EXPECT_EQ(off.place(kA).begin % 256, 2);
  EXPECT_EQ(off.place(kB).begin % 256, 0);
}

TEST(Operands, SurfaceCheckSeesDamage) {
  Filled f("5x7x9:f32:ldd=10");
  const std::uint32_t poison = poison_of(DType::f32, false);
  poison_d(f.layout, poison, f.block.data());
  for (int row = 0; row < 5; ++row)
    for (int n = 0; n < 7; ++n) f.set<float>(kD, row * 10 + n, 1);
  EXPECT_EQ(check_surface(f.layout, poison, f.block.data()).complaint(false), "");
  f.set<float>(kD, 2 * 10 + 3, NAN);
  EXPECT_EQ(check_surface(f.layout, poison, f.block.data()).complaint(true), "");
  EXPECT_EQ(check_surface(f.layout, poison, f.block.data()).complaint(false),
            "D[2,3] of batch 0 is NaN (1 elements in all)");
  f.set<std::uint32_t>(kD, 4 * 10 + 6, poison);
  EXPECT_EQ(check_surface(f.layout, poison, f.block.data()).complaint(false),
            "D[4,6] of batch 0 was not written (1 elements in all)");
  for (const std::int64_t offset : {-1ll, 7ll, 47ll, -1000ll}) {
    Filled g("5x7x9:f32:ldd=10");
    poison_d(g.layout, poison, g.block.data());
    for (int row = 0; row < 5; ++row)
      for (int n = 0; n < 7; ++n) g.set<float>(kD, row * 10 + n, 1);
    g.set<float>(kD, offset, 0);
    EXPECT_NE(check_surface(g.layout, poison, g.block.data()).complaint(true), "") << offset;
  }
}

TEST(Operands, PoisonIsNaNOfItsFormat) {
  for (const DType d :
       {DType::f64, DType::f32, DType::f16, DType::bf16, DType::e4m3, DType::e5m2}) {
    const std::uint64_t twice = std::uint64_t{poison_of(d, false)} * 0x100000001ull;
    EXPECT_TRUE(std::isnan(verify::decode(format_of(d), twice & (~0ull >> (64 - bits(d))))));
  }
  EXPECT_NE(poison_of(DType::s8, false), poison_of(DType::s8, true));
}

TEST(Operands, RotationTakesEnoughCopiesAndFits) {
  const SetLayout layout = *make_set_layout(parsed("64x1024x1024:f32"), false);
  const double set = 4.0 * (64 * 1024 * 2 + 1024 * 1024);
  EXPECT_EQ(rotation_copies(layout, 10 * set, 1e12), 10);
  EXPECT_EQ(rotation_copies(layout, 1, 1e12), 1);
  EXPECT_EQ(rotation_copies(layout, 10 * set, 3.5 * static_cast<double>(layout.block_bytes)), 3);
  EXPECT_EQ(rotation_copies(layout, 10 * set, 100), 0);
  const SetLayout tiny = *make_set_layout(parsed("3x5x7:f32"), false);
  EXPECT_EQ(rotation_copies(tiny, 1e9, 1e12), 1024);
}

// Layouts, strides, batches and broadcasts, against sums over what is really in memory.
TEST(Reference, AgreesWithMemory) {
  for (const std::string text :
       {"5x7x9:f32", "5x7x9:f32:layout=nt:lda=8:ldb=9", "5x7x9x3:f32:layout=tt:stridea=100",
        "5x7x9x3:f32:strideb=0", "4x6x300:f32:layout=nn", "33x20x17:f32"}) {
    Filled f(text, true);
    const Problem& p = f.layout.problem;
    HostReference reference(f.layout, f.seed, plan_samples(p, 1e12, 1), DeviceKind::cpu);
    ASSERT_TRUE(reference.plan().complete);
    double largest = 0;
    for (std::int64_t b = 0; b < p.batch; ++b) {
      for (std::int64_t i = 0; i < p.m; ++i) {
        for (std::int64_t j = 0; j < p.n; ++j) {
          double sum = 0;
          for (std::int64_t l = 0; l < p.k; ++l) {
            const std::int64_t a =
                b * p.stride_a + (p.a_order == Order::row_major ? i * p.lda + l : l * p.lda + i);
            const std::int64_t bb =
                b * p.stride_b + (p.b_order == Order::row_major ? l * p.ldb + j : j * p.ldb + l);
            sum += static_cast<double>(f.at<float>(kA, a)) * f.at<float>(kB, bb);
          }
          f.set<float>(kD, b * p.stride_d + i * p.ldd + j, static_cast<float>(sum));
          largest = std::max(largest, std::fabs(sum - reference.wanted(b, i, j).value));
        }
      }
    }
    EXPECT_LT(largest, 1e-12) << text;
    const Comparison right = reference.compare(f.block.data());
    EXPECT_EQ(right.wrong, 0) << text << ": " << right.complaint();
    EXPECT_LE(right.error, 0.6) << text;
    EXPECT_EQ(right.checked, p.batch * p.m * p.n);
    const std::int64_t at = (p.batch - 1) * p.stride_d + (p.m - 1) * p.ldd + p.n - 1;
    f.set<float>(kD, at, f.at<float>(kD, at) + 0.0156f);  // a 64th: the smallest product
    const Comparison wrong = reference.compare(f.block.data());
    EXPECT_EQ(wrong.wrong, 1) << text;
    EXPECT_GT(wrong.error, 1);
    EXPECT_NE(wrong.complaint().find("should be"), std::string::npos) << wrong.complaint();
  }
}

TEST(Reference, LargeOutputsAreSampledOnEveryEdgeAndTile) {
  const Problem p = parsed("700x900x64:f32");
  const SamplePlan plan = plan_samples(p, 2e7, 3);
  EXPECT_FALSE(plan.complete);
  std::set<std::pair<std::int64_t, std::int64_t>> chosen, tiles;
  for (const SampleBlock& block : plan.blocks)
    for (const auto row : block.rows)
      for (const auto column : block.columns) {
        ASSERT_LT(row, p.m);
        ASSERT_LT(column, p.n);
        chosen.insert({row, column});
        tiles.insert({row / 64, column / 64});
      }
  for (const std::int64_t row : {0, 699})
    for (std::int64_t n = 0; n < p.n; ++n) ASSERT_TRUE(chosen.count({row, n})) << row << ' ' << n;
  for (const std::int64_t column : {0, 899})
    for (std::int64_t m = 0; m < p.m; ++m) ASSERT_TRUE(chosen.count({m, column}));
  EXPECT_EQ(tiles.size(), 11u * 15u);
}

TEST(Reference, SmallBudgetsKeepCornersAndStayWithinReason) {
  const Problem p = parsed("2048x28672x8192x3:bf16");
  const SamplePlan plan = plan_samples(p, 1e8, 3);
  EXPECT_LT(plan.elements() * p.k, 4e8);
  std::set<std::tuple<std::int64_t, std::int64_t, std::int64_t>> chosen;
  for (const SampleBlock& block : plan.blocks)
    for (const auto row : block.rows)
      for (const auto column : block.columns) chosen.insert({block.batch, row, column});
  for (const std::int64_t b : {0, 2})
    for (const std::int64_t row : {0, 2047})
      for (const std::int64_t column : {0, 28671})
        EXPECT_TRUE(chosen.count({b, row, column})) << b << ' ' << row << ' ' << column;
}

TEST(Tolerance, BoundsFollowTheEpilogue) {
  const char* expressions[] = {"acc",
                               "relu(acc + bias[n])",
                               "0.5 * acc + 2 * c[m,n]",
                               "gelu(acc * s)",
                               "gelu_tanh(acc)",
                               "silu(acc) * c[m,n]",
                               "max(acc, bias[n]) - min(acc, 3)",
                               "sigmoid(acc) + tanh(acc / 4)",
                               "exp(acc / 20)",
                               "sqrt(abs(acc) + 1)",
                               "1 / (abs(acc) + 1)",
                               "rcp(2 + abs(acc))"};
  std::mt19937 random(5);
  std::normal_distribution<float> acc(0, 8), operand(0, 1);
  for (const char* expression : expressions) {
    const Epilogue epilogue = *Epilogue::parse(expression);
    const Tolerance tolerance = Tolerance::of(
        parsed(std::string("8x8x64:f32:epi=\"") + expression + "\""), DeviceKind::cpu);
    for (int i = 0; i < 2000; ++i) {
      const double sum = acc(random);
      std::vector<double> operands(epilogue.operands().size() + 1);
      for (double& value : operands) value = operand(random);
      const verify::Bounded acc_bound = tolerance.accumulator(sum, std::fabs(sum) * 4);
      const auto bound = evaluate(epilogue, acc_bound, operands.data(), tolerance.epilogue);
      const double value = epilogue.evaluate(sum, operands);
      EXPECT_NEAR(bound.value, value, 1e-12 * (1 + std::fabs(value))) << expression;
      // Any accumulator within its bound lands within the result's.
      for (const double shift : {-1.0, -0.5, 0.5, 1.0}) {
        const double shifted = epilogue.evaluate(sum + shift * acc_bound.error, operands);
        EXPECT_LE(std::fabs(shifted - bound.value), bound.error) << expression << " at " << sum;
      }
      EXPECT_LT(bound.error, 1e-2 * (1 + std::fabs(value))) << expression << " at " << sum;
    }
  }
}

TEST(Tolerance, IntegersAreExact) {
  const Tolerance t = Tolerance::of(parsed("8x8x64:s8"), DeviceKind::cuda);
  EXPECT_EQ(t.accumulation, 0);
  EXPECT_TRUE(t.exact_store);
  const auto stored = verify::stored(t.accumulator(12345, 1e6), verify::Format::s32, t.half_ulps);
  EXPECT_EQ(stored.error, 0);
}

TEST(Tolerance, EightBitFloatsAreLooserOnTensorCores) {
  const Problem exact = parsed("8x8x4096:e4m3"), fast = parsed("8x8x4096:e4m3:acc=fast");
  const double on_cpu = Tolerance::of(exact, DeviceKind::cpu).accumulation;
  const double on_gpu = Tolerance::of(exact, DeviceKind::cuda).accumulation;
  EXPECT_LT(on_cpu, on_gpu);
  EXPECT_LT(on_gpu, Tolerance::of(fast, DeviceKind::cuda).accumulation);
}

}  // namespace
}  // namespace culet::benchmark

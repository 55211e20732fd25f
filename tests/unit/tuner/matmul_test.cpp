// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// culet::matmul and plan tables on the CPU with the built-in backends.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <numeric>
#include <thread>
#include <utility>
#include <vector>

#include "base/files.h"
#include "compile/compiler.h"
#include "culet/culet.h"

namespace culet {
namespace {

struct Matrices {
  int m, n, k;
  std::vector<float> a, b, d;
  Matrices(int m, int n, int k) : m(m), n(n), k(k), a(m * k), b(k * n), d(m * n, NAN) {
    for (std::size_t i = 0; i < a.size(); ++i)
      a[i] = static_cast<float>(static_cast<int>(i * 7 % 11) - 5);
    for (std::size_t i = 0; i < b.size(); ++i)
      b[i] = static_cast<float>(static_cast<int>(i * 5 % 13) - 6);
  }
  MatrixView view_a() { return {a.data(), DType::f32, m, k, k, 1, 1, 0}; }
  MatrixView view_b() { return {b.data(), DType::f32, k, n, n, 1, 1, 0}; }
  MatrixView view_d() { return {d.data(), DType::f32, m, n, n, 1, 1, 0}; }
  void expect_product() const {
    for (int i = 0; i < m; ++i) {
      for (int j = 0; j < n; ++j) {
        float sum = 0;
        for (int l = 0; l < k; ++l) sum += a[i * k + l] * b[l * n + j];
        ASSERT_EQ(d[i * n + j], sum) << i << "," << j;
      }
    }
  }
};

MatmulOptions options(OnMiss on_miss) {
  MatmulOptions result;
  result.device = "cpu:1";
  result.cache = "none";
  result.on_miss = on_miss;
  return result;
}

TEST(Matmul, ComputesWithEveryPolicyButError) {
  for (OnMiss policy : {OnMiss::vendor, OnMiss::model}) {
    Matrices x(17, 33, 21);
    const auto ok = matmul(x.view_a(), x.view_b(), x.view_d(), options(policy));
    ASSERT_TRUE(ok) << ok.error().message;
    x.expect_product();
  }
}

TEST(Matmul, ErrorPolicyNamesTheProblemAndTheCommand) {
  Matrices x(5, 6, 7);
  const auto ok = matmul(x.view_a(), x.view_b(), x.view_d(), options(OnMiss::error));
  ASSERT_FALSE(ok);
  EXPECT_EQ(ok.error().code, ErrorCode::no_candidate);
  EXPECT_NE(ok.error().message.find("culet tune '5x6x7:f32"), std::string::npos)
      << ok.error().message;
}

TEST(Matmul, AStoredChoiceNeedsNoCompiler) {
  const DeviceSpec device = find_device("cpu:1").value();
  if (const auto found = Compiler::toolchain(SourceLanguage::cpp, device); !found)
    GTEST_SKIP() << found.error().message;
  const auto folder = TemporaryFolder::make();
  ASSERT_TRUE(folder);
  MatmulOptions stored = options(OnMiss::error);
  stored.cache = folder->path();
  const auto choose = [&](Matrices& x, bool with_code) {
    const auto problem = problem_of(x.view_a(), x.view_b(), x.view_d()).value();
    const auto cache = open_cache(folder->path()).value();
    Tuner tuner(Registry::standard(), device, {}, cache);
    for (const RankedCandidate& item : tuner.registry().discover(problem, device)) {
      if (item.candidate.text().find("code=jit") == std::string::npos) continue;
      EXPECT_TRUE(!with_code || tuner.plan(problem, item.candidate));
      EXPECT_EQ(tuner.counts().compiled, with_code ? 1 : 0);
      cache->store_selection(problem, {"cpu_tile", "1", 0}, device.identity(), item.candidate, "");
      return;
    }
    FAIL() << "no candidate is compiled from source";
  };
  Matrices x(18, 34, 22), y(19, 35, 23);
  choose(x, true);
  choose(y, false);
  setenv("CULET_CXX", "/nonexistent/compiler", 1);
  const auto ok = matmul(x.view_a(), x.view_b(), x.view_d(), stored);
  const auto miss = matmul(y.view_a(), y.view_b(), y.view_d(), stored);
  unsetenv("CULET_CXX");
  ASSERT_TRUE(ok) << ok.error().message;
  x.expect_product();
  EXPECT_FALSE(miss) << "its code is not there";
}

TEST(Matmul, TransposedViewsBecomeLayouts) {
  Matrices x(9, 8, 10);
  MatrixView b = x.view_b();
  std::swap(b.rows, b.columns);  // a [n, k] matrix seen as [k, n]
  const MatrixView linear{x.b.data(), DType::f32, x.k, x.n, 1, x.k, 1, 0};
  const auto problem = problem_of(x.view_a(), linear, x.view_d());
  ASSERT_TRUE(problem) << problem.error().message;
  EXPECT_EQ(problem->b_order, Order::col_major);
  EXPECT_EQ(problem->text(), "9x8x10:f32");
}

TEST(Matmul, RefusesShapesThatDoNotFit) {
  Matrices x(4, 4, 4);
  MatrixView bad = x.view_b();
  bad.rows = 5;
  const auto ok = matmul(x.view_a(), bad, x.view_d(), options(OnMiss::vendor));
  ASSERT_FALSE(ok);
  EXPECT_NE(ok.error().message.find("A is 4x4, B 5x4"), std::string::npos) << ok.error().message;
}

TEST(Matmul, AnEpilogueNeedsItsOperands) {
  Matrices x(4, 4, 4);
  MatmulOptions with = options(OnMiss::vendor);
  with.epilogue = "acc + bias[n]";
  const auto missing = matmul(x.view_a(), x.view_b(), x.view_d(), with);
  ASSERT_FALSE(missing);
  EXPECT_NE(missing.error().message.find("1 operands"), std::string::npos)
      << missing.error().message;
  const std::vector<float> bias(4, 100);
  const void* extra[] = {bias.data()};
  with.extra = extra;
  const auto ok = matmul(x.view_a(), x.view_b(), x.view_d(), with);
  ASSERT_TRUE(ok) << ok.error().message;
  Matrices plain(4, 4, 4);
  ASSERT_TRUE(matmul(plain.view_a(), plain.view_b(), plain.view_d(), options(OnMiss::vendor)));
  for (int i = 0; i < 16; ++i) EXPECT_EQ(x.d[i], plain.d[i] + 100);
}

TEST(Matmul, EmptyIsANoOp) {
  Matrices x(4, 4, 4);
  MatrixView a = x.view_a(), d = x.view_d();
  a.rows = d.rows = 0;
  EXPECT_TRUE(matmul(a, x.view_b(), d, options(OnMiss::vendor)));
  EXPECT_TRUE(std::isnan(x.d[0]));
}

TEST(Matmul, ManyThreadsShareOnePlan) {
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([] {
      for (int round = 0; round < 20; ++round) {
        Matrices x(23, 19, 31);
        const auto ok = matmul(x.view_a(), x.view_b(), x.view_d(), options(OnMiss::vendor));
        ASSERT_TRUE(ok) << ok.error().message;
        x.expect_product();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

class RangesTuned : public Observer {
 public:
  void started(const Problem& p) override {
    EXPECT_EQ(p.m, p.m_range.high);
    ranges.emplace_back(p.m_range.low, p.m_range.high);
  }
  std::vector<std::pair<std::int64_t, std::int64_t>> ranges;
};

TEST(PlanTable, ServesEveryMOfTheRange) {
  TuneOptions tune;
  tune.policy.target_seconds = 1e-4;
  tune.policy.max_rounds = 5;
  tune.top = 2;
  Tuner tuner(Registry::standard(), find_device("cpu:1").value(), tune);
  RangesTuned tuned;
  const auto table =
      tuner.plan_table(Problem::parse("9x48x32:f32:layout=tt:m=1..9").value(), &tuned);
  ASSERT_TRUE(table) << table.error().message;
  EXPECT_EQ(tuned.ranges, (std::vector<std::pair<std::int64_t, std::int64_t>>{
                              {1, 1}, {2, 2}, {3, 3}, {4, 4}, {5, 6}, {7, 8}, {9, 9}}));
  EXPECT_EQ(table->intervals().front().range.low, 1);
  EXPECT_EQ(table->intervals().back().range.high, 9);
  EXPECT_EQ(table->find(10), nullptr);
  std::vector<char> workspace(1 << 20);
  for (int m = 1; m <= 9; ++m) {
    Matrices x(m, 48, 32);
    Arguments arguments;
    arguments.a = x.a.data();
    arguments.b = x.b.data();
    arguments.d = x.d.data();
    arguments.m = m;
    arguments.workspace = workspace.data();
    const auto ok = table->run(arguments);
    ASSERT_TRUE(ok) << m << ": " << ok.error().message;
    x.expect_product();
  }
}

}  // namespace
}  // namespace culet

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// A covering set of all CUDA families' configurations compiles, for devices that need not be here:
// every pair of (dtypes, layout, size and alignment, epilogue) occurs, each family takes every
// problem it supports with configurations spread over its space, and none spills, keeps a stack
// frame or is serialised by ptxas. Prints what a configuration costs to compile.
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <array>
#include <cstdio>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "base/parallel.h"
#include "compile/compiler.h"
#include "culet/registry.h"
#include "support/compile_check.h"

namespace culet {
namespace {

constexpr std::size_t kMostConfigurations = 300;

using Factor = std::vector<std::string>;

// Sizes make the alignment: k and n in 16-byte, 8-byte, 4-byte and 2-byte steps; small m for the
// decode families.
const std::vector<Factor>& factors() {
  static const std::vector<Factor> all = {
      {"bf16", "f16>f32", "e4m3>bf16", "e5m2*e4m3>f32", "e4m3>bf16:acc=fast", "s8", "u8*s8>f32",
       "f16:acc=f16", "f32", "tf32"},
      {"tn", "tt", "nn", "nt"},
      {"2048x4096x4096", "512x1004x2052", "100x1002x1030", "333x777x1001", "1x4096x4096",
       "5x2880x4096", "16x6144x4096", "64x4096x4096", "96x256x256x3"},
      {"", "relu(acc + bias[n])", "0.5 * acc + 2 * c[m,n]", "gelu(acc * sa[m]:f32 * sb[n]:f32)"},
  };
  return all;
}

std::string problem_text(const std::vector<std::size_t>& row) {
  const auto& f = factors();
  std::string text = f[2][row[2]] + ":" + f[0][row[0]] + ":layout=" + f[1][row[1]];
  if (!f[3][row[3]].empty()) text += ":epi=\"" + f[3][row[3]] + "\"";
  return text;
}

/// Rows in which every pair of levels of any two factors occurs: each row is the one, of all, that
/// covers most pairs not covered yet.
std::vector<std::string> pairwise_problems() {
  const auto& f = factors();
  std::vector<std::vector<std::size_t>> rows;
  for (std::size_t a = 0; a < f[0].size(); ++a)
    for (std::size_t b = 0; b < f[1].size(); ++b)
      for (std::size_t c = 0; c < f[2].size(); ++c)
        for (std::size_t d = 0; d < f[3].size(); ++d) rows.push_back({a, b, c, d});
  std::set<std::tuple<std::size_t, std::size_t, std::size_t, std::size_t>> covered;
  const auto count_new = [&](const std::vector<std::size_t>& row, bool take) {
    int fresh = 0;
    for (std::size_t i = 0; i < row.size(); ++i) {
      for (std::size_t j = i + 1; j < row.size(); ++j) {
        const std::tuple pair{i, row[i], j, row[j]};
        fresh += covered.count(pair) == 0 ? 1 : 0;
        if (take) covered.insert(pair);
      }
    }
    return fresh;
  };
  std::vector<std::string> problems;
  for (;;) {
    const std::vector<std::size_t>* best = nullptr;
    int most = 0;
    for (const auto& row : rows) {
      const int fresh = count_new(row, false);
      if (fresh > most) {
        most = fresh;
        best = &row;
      }
    }
    if (best == nullptr) return problems;
    count_new(*best, true);
    problems.push_back(problem_text(*best));
  }
}

struct Job {
  const Backend* family;
  Problem problem;
  Config config;
};

/// For each family and each problem it supports, `each` configurations; over all problems they
/// spread over the space.
std::vector<Job> covering_set(const Registry& registry, const DeviceSpec& device,
                              const std::set<std::string>& families, std::size_t each) {
  std::vector<Job> jobs;
  std::map<std::string, std::size_t> seen;
  for (const std::string& text : pairwise_problems()) {
    const auto problem = Problem::parse(text);
    if (!problem) continue;  // a pair that no problem has, as tf32 with 8-bit scales
    for (const std::string& name : families) {
      const Backend& family = *registry.find(name);
      if (!family.supports(*problem, device).yes) continue;
      const std::vector<Config> configs = family.configs(*problem, device);
      EXPECT_FALSE(configs.empty()) << name << " supports " << text << " with no configuration";
      if (configs.empty()) continue;
      for (std::size_t i = 0; i < each; ++i) {
        // Steps of the golden ratio spread evenly, however many there will be.
        const double at = 0.6180339887 * static_cast<double>(seen[name]++);
        const auto index =
            static_cast<std::size_t>((at - static_cast<double>(static_cast<long>(at))) *
                                     static_cast<double>(configs.size()));
        jobs.push_back({&family, *problem, configs[index]});
      }
    }
  }
  return jobs;
}

double cpu_seconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + 1e-6 * static_cast<double>(t.tv_usec);
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

void expect_clean(const std::vector<Job>& jobs, const DeviceSpec& device) {
  ASSERT_GT(jobs.size(), 10U);
  ASSERT_LE(jobs.size(), kMostConfigurations);
  Compiler compiler(nullptr);
  std::vector<std::string> complaints(jobs.size());
  const double begin = cpu_seconds();
  parallel_for(static_cast<int>(jobs.size()), 0, [&](int i) {
    const Job& job = jobs[static_cast<std::size_t>(i)];
    const Step step{std::string(job.family->name()), job.config, Part::all};
    const auto built = job.family->build(job.problem, step, device, compiler);
    std::string& complaint = complaints[static_cast<std::size_t>(i)];
    complaint = built ? compile_complaint(built->artifact.log)
                      : built.error().message + "\n" + built.error().detail;
    if (built && built->artifact.log.find("stack frame") == std::string::npos)
      complaint = "no ptxas report in the log";
  });
  const double used = cpu_seconds() - begin;
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    EXPECT_EQ(complaints[i], "") << jobs[i].problem.text() << "  " << jobs[i].family->name() << "{"
                                 << jobs[i].config.text() << "}";
  }
  std::printf("  %zu configurations for %s, %.2f s of CPU time each\n", jobs.size(),
              device.architecture.c_str(), used / static_cast<double>(jobs.size()));
}

TEST(CoveringSet, ProblemsCoverEveryPair) {
  std::set<std::string> texts;
  for (const std::string& text : pairwise_problems()) EXPECT_TRUE(texts.insert(text).second);
  EXPECT_GE(texts.size(), 90U);  // ten dtypes times nine sizes at least
  EXPECT_LE(texts.size(), 200U);
}

TEST(CoveringSet, CompilesForHopper) {
  const DeviceSpec device = DeviceSpec::preset("h200").value();
  if (const auto found = Compiler::toolchain(SourceLanguage::cuda, device); !found)
    GTEST_SKIP() << found.error().message;
  const Registry registry = Registry::standard();
  expect_clean(
      covering_set(registry, device, {"sm90_dense", "sm90_stream", "gemv", "mma", "simt"}, 1),
      device);
}

TEST(CoveringSet, CompilesForAmpere) {
  DeviceSpec device = DeviceSpec::preset("h200").value();
  device.architecture = "sm_80";
  if (const auto found = Compiler::toolchain(SourceLanguage::cuda, device); !found)
    GTEST_SKIP() << found.error().message;
  const Registry registry = Registry::standard();
  auto jobs = covering_set(registry, device, {"gemv", "mma", "simt"}, 1);
  // A third of them: what differs from Hopper is the instruction set.
  std::vector<Job> some;
  for (std::size_t i = 0; i < jobs.size(); i += 3) some.push_back(jobs[i]);
  expect_clean(some, device);
}

}  // namespace
}  // namespace culet

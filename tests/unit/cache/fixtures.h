// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// Entries with known contents, made from a number, so that any test can say what a store must
// return for it.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "base/files.h"
#include "culet/cache.h"

namespace culet::testing_cache {

inline Problem problem_no(int i) {
  auto problem = Problem::parse(std::to_string(16 + i) + "x4096x4096:bf16");
  EXPECT_TRUE(problem.has_value());
  return *problem;
}

inline Candidate candidate_no(int i) {
  Step step;
  step.backend = "family";
  step.config.set("tile", "128x64x64").set("stages", std::int64_t{i});
  return {{step}};
}

inline Environment environment_no(int i) {
  return {"device " + std::to_string(i), "library 1.0", "policy"};
}

inline SelectionScope scope_no(int i) { return {"family 1", "5", static_cast<std::uint64_t>(i)}; }

inline std::string key_no(int i) { return "key-" + std::to_string(i); }

inline Artifact artifact_no(int i) {
  Artifact artifact;
  artifact.kind = i % 2 == 0 ? ArtifactKind::cubin : ArtifactKind::host_so;
  artifact.entry = "kernel_" + std::to_string(i);
  artifact.toolchain = "compiler 1.2";
  artifact.log = i % 3 == 0 ? "" : "warning: something";
  // Not compressible away: every byte depends on its place and on i.
  for (unsigned j = 0; j < 600; ++j) {
    artifact.bytes += static_cast<char>((j * 2654435761u + static_cast<unsigned>(i) * 97u) >> 13);
  }
  return artifact;
}

inline Trial trial_no(int i) {
  Trial trial;
  trial.candidate = candidate_no(i);
  trial.vendor = i % 2 == 1;
  trial.estimate = Estimate{1e-6 * (i + 1), Limiter::dram};
  trial.outcome = Outcome::measured;
  trial.timing = Timing{2e-6 * (i + 1), 1e-6 * (i + 1), 3e-6 * (i + 1), 7};
  trial.error = 0.25;
  return trial;
}

inline void expect_equal(const Artifact& got, const Artifact& wanted) {
  EXPECT_EQ(got.kind, wanted.kind);
  EXPECT_TRUE(got.bytes == wanted.bytes);
  EXPECT_EQ(got.entry, wanted.entry);
  EXPECT_EQ(got.toolchain, wanted.toolchain);
  EXPECT_EQ(got.log, wanted.log);
}

inline void expect_equal(const Trial& got, const Trial& wanted) {
  EXPECT_EQ(got.candidate, wanted.candidate);
  EXPECT_EQ(got.vendor, wanted.vendor);
  EXPECT_EQ(got.fallback, wanted.fallback);
  EXPECT_EQ(got.outcome, wanted.outcome);
  EXPECT_EQ(got.reason, wanted.reason);
  EXPECT_EQ(got.log, wanted.log);
  EXPECT_EQ(got.error, wanted.error);
  ASSERT_EQ(got.estimate.has_value(), wanted.estimate.has_value());
  if (wanted.estimate) {
    EXPECT_EQ(got.estimate->seconds, wanted.estimate->seconds);
    EXPECT_EQ(got.estimate->limiter, wanted.estimate->limiter);
  }
  ASSERT_EQ(got.timing.has_value(), wanted.timing.has_value());
  if (wanted.timing) {
    EXPECT_EQ(got.timing->median, wanted.timing->median);
    EXPECT_EQ(got.timing->low, wanted.timing->low);
    EXPECT_EQ(got.timing->high, wanted.timing->high);
    EXPECT_EQ(got.timing->samples, wanted.timing->samples);
  }
}

/// Fills a store with entries 0..count-1.
inline void fill(Cache& cache, int count) {
  for (int i = 0; i < count; ++i) {
    cache.store_code(key_no(i), artifact_no(i));
    cache.store_trial(problem_no(i), trial_no(i), environment_no(i));
    cache.store_selection(problem_no(i), scope_no(i), "device", candidate_no(i), "because");
  }
}

/// How many of those a store still has; each one found must be the one that was stored.
inline int check(Cache& cache, int count) {
  int found = 0;
  for (int i = 0; i < count; ++i) {
    if (const auto artifact = cache.find_code(key_no(i))) {
      expect_equal(*artifact, artifact_no(i));
      ++found;
    }
    if (const auto trial = cache.find_trial(problem_no(i), candidate_no(i), environment_no(i))) {
      expect_equal(*trial, trial_no(i));
      ++found;
    }
    if (const auto chosen = cache.find_selection(problem_no(i), scope_no(i), "device")) {
      EXPECT_EQ(*chosen, candidate_no(i));
      ++found;
    }
  }
  return found;
}

inline std::shared_ptr<Cache> must_open(const std::string& path) {
  auto cache = open_cache(path);
  EXPECT_TRUE(cache.has_value()) << (cache ? "" : cache.error().message);
  return cache ? *cache : nullptr;
}

inline std::string file_in(const std::string& folder) { return folder + "/culet.sqlite"; }

}  // namespace culet::testing_cache

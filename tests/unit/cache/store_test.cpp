// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// What every implementation of the store must do, run against the one on disk and the one in
// memory.
#include <sys/stat.h>

#include <cmath>
#include <cstdlib>
#include <fstream>
#include <limits>

#include "fixtures.h"

namespace culet {
namespace {

using namespace testing_cache;

class Store : public ::testing::TestWithParam<bool> {
 protected:
  void SetUp() override {
    auto folder = TemporaryFolder::make();
    ASSERT_TRUE(folder.has_value());
    folder_ = std::make_unique<TemporaryFolder>(std::move(*folder));
    cache_ = must_open(GetParam() ? folder_->path() : "none");
    ASSERT_NE(cache_, nullptr);
  }
  std::unique_ptr<TemporaryFolder> folder_;
  std::shared_ptr<Cache> cache_;
};

INSTANTIATE_TEST_SUITE_P(Implementations, Store, ::testing::Values(true, false),
                         [](const auto& info) { return info.param ? "disk" : "memory"; });

TEST_P(Store, ReturnsWhatWasStored) {
  EXPECT_EQ(check(*cache_, 10), 0);
  fill(*cache_, 10);
  EXPECT_EQ(check(*cache_, 10), 30);
  EXPECT_EQ(cache_->take_warning(), "");
}

TEST_P(Store, LastStoredWins) {
  fill(*cache_, 1);
  Artifact other = artifact_no(7);
  cache_->store_code(key_no(0), other);
  expect_equal(*cache_->find_code(key_no(0)), other);
  EXPECT_EQ(cache_->stats().code_entries, 1);
}

TEST_P(Store, CodeMayBeEmptyOrHoldAnyByte) {
  Artifact artifact = artifact_no(1);
  artifact.bytes.clear();
  cache_->store_code("empty", artifact);
  artifact.bytes = std::string("\0\xff\n\0", 4);
  cache_->store_code("bytes", artifact);
  EXPECT_EQ(cache_->find_code("empty")->bytes, "");
  EXPECT_TRUE(cache_->find_code("bytes")->bytes == artifact.bytes);
}

TEST_P(Store, LargeCodeRoundTrips) {
  Artifact artifact = artifact_no(1);
  artifact.bytes.assign(5'000'000, 'x');
  for (std::size_t i = 0; i < artifact.bytes.size(); i += 3) {
    artifact.bytes[i] = static_cast<char>((i * 2654435761u) >> 11);
  }
  cache_->store_code("large", artifact);
  EXPECT_TRUE(cache_->find_code("large")->bytes == artifact.bytes);
}

TEST_P(Store, EveryPartOfATrialsKeyCounts) {
  const Problem problem = problem_no(1);
  cache_->store_trial(problem, trial_no(1), environment_no(1));
  EXPECT_TRUE(cache_->find_trial(problem, candidate_no(1), environment_no(1)).has_value());
  EXPECT_FALSE(cache_->find_trial(problem_no(2), candidate_no(1), environment_no(1)).has_value());
  EXPECT_FALSE(cache_->find_trial(problem, candidate_no(2), environment_no(1)).has_value());
  for (int field = 0; field < 3; ++field) {
    Environment other = environment_no(1);
    (field == 0 ? other.device : field == 1 ? other.library : other.policy) += "x";
    EXPECT_FALSE(cache_->find_trial(problem, candidate_no(1), other).has_value()) << field;
  }
}

TEST_P(Store, TrialsThatFailedRoundTrip) {
  Trial trial;
  trial.candidate = candidate_no(3);
  trial.candidate.steps.front().part = Part::gemm;
  trial.candidate.steps.push_back({"pointwise", {}, Part::epilogue});
  trial.outcome = Outcome::wrong;
  trial.reason = "D[0,1] is 3, should be 7";
  trial.log = "line one\nline \"two\"\twith tab";
  trial.error = 12.5;
  cache_->store_trial(problem_no(0), trial, environment_no(0));
  const auto got = cache_->find_trial(problem_no(0), trial.candidate, environment_no(0));
  ASSERT_TRUE(got.has_value());
  expect_equal(*got, trial);
  EXPECT_TRUE(got->from_cache);
}

TEST_P(Store, InfiniteErrorStaysInfinite) {
  Trial trial = trial_no(0);
  trial.outcome = Outcome::wrong;
  trial.error = std::numeric_limits<double>::infinity();
  cache_->store_trial(problem_no(0), trial, environment_no(0));
  const auto got = cache_->find_trial(problem_no(0), trial.candidate, environment_no(0));
  ASSERT_TRUE(got.has_value());
  EXPECT_TRUE(std::isinf(got->error));
}

TEST_P(Store, SelectionsBelongToTheirScope) {
  cache_->store_selection(problem_no(0), scope_no(1), "device", candidate_no(1), "narrow");
  EXPECT_FALSE(cache_->find_selection(problem_no(0), scope_no(2), "device").has_value());
  EXPECT_FALSE(cache_->find_selection(problem_no(0), scope_no(1), "other").has_value());
  EXPECT_FALSE(cache_->find_selection(problem_no(1), scope_no(1), "device").has_value());
  EXPECT_EQ(*cache_->find_selection(problem_no(0), scope_no(1), "device"), candidate_no(1));
}

TEST_P(Store, AnySelectionIsTheNewest) {
  EXPECT_FALSE(cache_->find_any_selection(problem_no(0), "device").has_value());
  for (int i = 5; i >= 1; --i) {  // scope order and time order differ
    cache_->store_selection(problem_no(0), scope_no(i), "device", candidate_no(i), "because");
    struct timespec pause {
      0, 2'000'000
    };
    nanosleep(&pause, nullptr);
  }
  EXPECT_EQ(*cache_->find_any_selection(problem_no(0), "device"), candidate_no(1));
  EXPECT_FALSE(cache_->find_any_selection(problem_no(0), "other").has_value());
  const auto entries = cache_->entries();
  ASSERT_EQ(entries.size(), 5u);
  EXPECT_EQ(entries.front().candidate, candidate_no(1).text());
  EXPECT_EQ(entries.front().problem, problem_no(0).text());
  EXPECT_EQ(entries.front().why, "because");
  EXPECT_EQ(entries.front().when.size(), std::string("2026-01-02T03:04:05Z").size());
}

TEST_P(Store, TrialsOfAProblemOnAllDevices) {
  for (int i = 0; i < 4; ++i) cache_->store_trial(problem_no(0), trial_no(i), environment_no(i));
  cache_->store_trial(problem_no(1), trial_no(9), environment_no(0));
  EXPECT_EQ(cache_->trials_of(problem_no(0).text()).size(), 4u);
  EXPECT_EQ(cache_->trials_of("7x7x7:bf16").size(), 0u);
}

TEST_P(Store, StatsVerifyAndClear) {
  fill(*cache_, 4);
  const CacheStats stats = cache_->stats();
  EXPECT_EQ(stats.code_entries, 4);
  EXPECT_EQ(stats.code_bytes, 2400);
  EXPECT_EQ(stats.trials, 4);
  EXPECT_EQ(stats.selections, 4);
  EXPECT_EQ(stats.damaged, 0);
  EXPECT_EQ(stats.path.empty(), !GetParam());
  EXPECT_TRUE(cache_->verify().empty());
  ASSERT_TRUE(cache_->clear().has_value());
  EXPECT_EQ(check(*cache_, 4), 0);
  fill(*cache_, 2);
  EXPECT_EQ(check(*cache_, 4), 6);
}

TEST_P(Store, MeasurementsGoAndCodeStays) {
  fill(*cache_, 4);
  cache_->note_toolchain("sm_90a", "compiler 1.2");
  ASSERT_TRUE(cache_->clear_measurements().has_value());
  const CacheStats stats = cache_->stats();
  EXPECT_EQ(stats.trials + stats.selections, 0);
  EXPECT_EQ(stats.code_entries, 4);
  EXPECT_EQ(check(*cache_, 4), 4);
  EXPECT_EQ(cache_->toolchains("sm_90a").size(), 1u);
}

TEST_P(Store, ToolchainsAreThoseOfAnArchitectureTheLastUsedFirst) {
  using Names = std::vector<std::string>;
  EXPECT_EQ(cache_->toolchains("sm_90a"), Names());
  cache_->note_toolchain("sm_90a", "compiler 1.2");
  cache_->note_toolchain("sm_80", "compiler 1.2");
  cache_->note_toolchain("sm_90a", "compiler 1.2");
  EXPECT_EQ(cache_->toolchains("sm_90a"), Names{"compiler 1.2"});
  EXPECT_EQ(cache_->toolchains("sm_80"), Names{"compiler 1.2"});
  cache_->note_toolchain("sm_90a", "compiler 1.3");
  EXPECT_EQ(cache_->toolchains("sm_90a"), (Names{"compiler 1.3", "compiler 1.2"}));
  cache_->note_toolchain("sm_90a", "compiler 1.2");
  EXPECT_EQ(cache_->toolchains("sm_90a"), (Names{"compiler 1.2", "compiler 1.3"}));
  ASSERT_TRUE(cache_->clear().has_value());
  EXPECT_EQ(cache_->toolchains("sm_90a"), Names());
}

TEST(DiskStore, LastsBeyondTheProcessThatWroteIt) {
  const auto folder = TemporaryFolder::make();
  ASSERT_TRUE(folder.has_value());
  fill(*must_open(folder->path()), 5);
  EXPECT_EQ(check(*must_open(folder->path()), 5), 15);
}

TEST(DiskStore, IsPrivateToItsOwner) {
  const auto folder = TemporaryFolder::make();
  ASSERT_TRUE(folder.has_value());
  const std::string inner = folder->path() + "/a/b";
  const mode_t before = umask(0);
  fill(*must_open(inner), 1);
  umask(before);
  for (const std::string& path : {inner, file_in(inner), file_in(inner) + "-wal"}) {
    struct stat info {};
    ASSERT_EQ(stat(path.c_str(), &info), 0) << path;
    EXPECT_EQ(info.st_mode & 077, 0u) << path;
  }
}

TEST(DiskStore, DefaultPlaceFollowsTheEnvironment) {
  const auto folder = TemporaryFolder::make();
  ASSERT_TRUE(folder.has_value());
  setenv("XDG_CACHE_HOME", folder->path().c_str(), 1);
  unsetenv("CULET_CACHE");
  EXPECT_EQ(must_open("")->stats().path, folder->path() + "/culet/culet.sqlite");
  setenv("CULET_CACHE", (folder->path() + "/named").c_str(), 1);
  EXPECT_EQ(must_open("")->stats().path, folder->path() + "/named/culet.sqlite");
  setenv("CULET_CACHE", "none", 1);
  EXPECT_EQ(must_open("")->stats().path, "");
  unsetenv("CULET_CACHE");
  unsetenv("XDG_CACHE_HOME");
}

TEST(DiskStore, UnusablePlaces) {
  const auto folder = TemporaryFolder::make();
  ASSERT_TRUE(folder.has_value());
  const std::string file = folder->path() + "/file";
  std::ofstream(file) << "not a folder";
  for (const std::string& path : {file, file + "/below", std::string("/proc/culet")}) {
    const auto cache = open_cache(path);
    ASSERT_FALSE(cache.has_value()) << path;
    EXPECT_EQ(cache.error().code, ErrorCode::io);
    EXPECT_NE(cache.error().message.find(path.substr(0, 5)), std::string::npos)
        << cache.error().message;
    EXPECT_EQ(cache.error().message.find('\n'), std::string::npos);
  }
  // The default place only costs a warning.
  unsetenv("CULET_CACHE");
  setenv("XDG_CACHE_HOME", file.c_str(), 1);
  const auto cache = must_open("");
  unsetenv("XDG_CACHE_HOME");
  ASSERT_NE(cache, nullptr);
  EXPECT_NE(cache->take_warning(), "");
  EXPECT_EQ(cache->take_warning(), "");
  EXPECT_EQ(cache->stats().path, "");
  fill(*cache, 1);
  EXPECT_EQ(check(*cache, 1), 3);
}

}  // namespace
}  // namespace culet

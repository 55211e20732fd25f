// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// Files, the environment and subprocesses, with real ones.
#include "base/files.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <thread>
#include <vector>

#include "base/env.h"
#include "base/hash.h"
#include "base/subprocess.h"

namespace culet {
namespace {

class Files : public testing::Test {
 protected:
  void SetUp() override {
    auto folder = TemporaryFolder::make();
    ASSERT_TRUE(folder) << folder.error().message;
    folder_.emplace(std::move(*folder));
  }
  std::string path(const std::string& name) const { return folder_->path() + "/" + name; }
  std::optional<TemporaryFolder> folder_;
};

TEST_F(Files, WriteReplaceRead) {
  const std::string binary("a\0b\xff\n", 5);
  ASSERT_TRUE(write_file_atomically(path("x"), binary));
  EXPECT_EQ(read_file(path("x")).value(), binary);
  ASSERT_TRUE(write_file_atomically(path("x"), ""));
  EXPECT_EQ(read_file(path("x")).value(), "");
  int entries = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator(folder_->path())) {
    ++entries;
  }
  EXPECT_EQ(entries, 1) << "a temporary file was left behind";
}

TEST_F(Files, ReadersNeverSeeAPart) {
  const std::string one(300000, '1'), two(200000, '2');
  ASSERT_TRUE(write_file_atomically(path("x"), one));
  std::vector<std::thread> writers;
  for (const std::string* text : {&one, &two}) {
    writers.emplace_back([this, text] {
      for (int i = 0; i < 20; ++i) ASSERT_TRUE(write_file_atomically(path("x"), *text));
    });
  }
  for (int i = 0; i < 100; ++i) {
    const auto text = read_file(path("x"));
    ASSERT_TRUE(text);
    ASSERT_TRUE(*text == one || *text == two);
  }
  for (std::thread& writer : writers) writer.join();
}

TEST_F(Files, ErrorsNameThePath) {
  const auto missing = read_file(path("missing"));
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().code, ErrorCode::io);
  EXPECT_NE(missing.error().message.find(path("missing")), std::string::npos);
  EXPECT_NE(missing.error().message.find("No such file"), std::string::npos);
  EXPECT_FALSE(read_file(folder_->path()));
  EXPECT_FALSE(write_file_atomically(path("no/such/folder"), "x"));
}

TEST_F(Files, MakeFolders) {
  ASSERT_TRUE(make_folders(path("a/b/c")));
  EXPECT_TRUE(std::filesystem::is_directory(path("a/b/c")));
  EXPECT_TRUE(make_folders(path("a/b/c"))) << "there already";
  ASSERT_TRUE(write_file_atomically(path("file"), "x"));
  const auto wrong = make_folders(path("file/d"));
  ASSERT_FALSE(wrong);
  EXPECT_EQ(wrong.error().code, ErrorCode::io);
}

TEST(TemporaryFolders, AreRemoved) {
  std::string path;
  {
    auto folder = TemporaryFolder::make();
    ASSERT_TRUE(folder);
    path = folder->path();
    ASSERT_TRUE(write_file_atomically(path + "/x", "x"));
    const TemporaryFolder moved = std::move(*folder);
    EXPECT_TRUE(std::filesystem::exists(path));
  }
  EXPECT_FALSE(std::filesystem::exists(path));
}

class Environment : public testing::Test {
 protected:
  void TearDown() override {
    for (const EnvVariable& v : env_table()) ::unsetenv(std::string(v.name).c_str());
  }
};

TEST_F(Environment, CacheFolderFollowsXdg) {
  const char* old = std::getenv("XDG_CACHE_HOME");
  const std::string saved = old == nullptr ? "" : old;
  ::setenv("XDG_CACHE_HOME", "/somewhere", 1);
  EXPECT_EQ(user_cache_dir(), "/somewhere/culet");
  ::setenv("XDG_CACHE_HOME", "relative", 1);
  ::setenv("HOME", "/home/x", 1);
  EXPECT_EQ(user_cache_dir(), "/home/x/.cache/culet");
  old == nullptr ? ::unsetenv("XDG_CACHE_HOME") : ::setenv("XDG_CACHE_HOME", saved.c_str(), 1);
}

TEST_F(Environment, MaxProfilingConfigs) {
  ::unsetenv("CULET_MAX_PROFILING_CONFIGS");
  EXPECT_EQ(env_max_profiling_configs().value(), 5);
  ::setenv("CULET_MAX_PROFILING_CONFIGS", "12", 1);
  EXPECT_EQ(env_max_profiling_configs().value(), 12);
  ::setenv("CULET_MAX_PROFILING_CONFIGS", "all", 1);
  EXPECT_EQ(env_max_profiling_configs().value(), -1);
  for (const char* bad : {"0", "-1", "x", "5x", "99999999999999"}) {
    ::setenv("CULET_MAX_PROFILING_CONFIGS", bad, 1);
    const auto value = env_max_profiling_configs();
    ASSERT_FALSE(value) << bad;
    EXPECT_NE(value.error().message.find("CULET_MAX_PROFILING_CONFIGS"), std::string::npos);
  }
}

TEST_F(Environment, DisableAndThreads) {
  EXPECT_FALSE(env_disabled().value());
  ::setenv("CULET_DISABLE", "0", 1);
  EXPECT_FALSE(env_disabled().value());
  ::setenv("CULET_DISABLE", "1", 1);
  EXPECT_TRUE(env_disabled().value());
  ::setenv("CULET_DISABLE", "no", 1);
  ASSERT_FALSE(env_disabled());
  EXPECT_EQ(env_disabled().error().message, "CULET_DISABLE: 'no' is not 0 or 1");
  EXPECT_EQ(env_threads().value(), 0);
  ::setenv("CULET_THREADS", "3", 1);
  EXPECT_EQ(env_threads().value(), 3);
  ::setenv("CULET_THREADS", "none", 1);
  EXPECT_FALSE(env_threads());
}

TEST_F(Environment, MarkdownHoldsEveryVariable) {
  const std::string text = env_markdown();
  for (const EnvVariable& v : env_table()) {
    EXPECT_NE(text.find(v.name), std::string::npos);
    EXPECT_FALSE(v.meaning.empty());
  }
}

TEST(Subprocess, CapturesBothOutputsAndTheStatus) {
  const auto result = run_process({"sh", "-c", "echo out; echo err >&2; exit 3"});
  ASSERT_TRUE(result) << result.error().message;
  EXPECT_EQ(result->output, "out\nerr\n");
  EXPECT_EQ(result->exit_code, 3);
  EXPECT_FALSE(result->ok());
  EXPECT_EQ(result->how_it_ended({}), "exit status 3");
}

TEST(Subprocess, ArgumentsAreNotInterpreted) {
  const auto result = run_process({"printf", "%s", "a b; $(x) 'q'"});
  ASSERT_TRUE(result);
  EXPECT_EQ(result->output, "a b; $(x) 'q'");
  EXPECT_TRUE(result->ok());
}

TEST(Subprocess, Signals) {
  const auto result = run_process({"sh", "-c", "kill -SEGV $$"});
  ASSERT_TRUE(result);
  EXPECT_EQ(result->signal, SIGSEGV);
  EXPECT_FALSE(result->ok());
}

TEST(Subprocess, TimeLimitEndsChildrenToo) {
  const auto start = std::chrono::steady_clock::now();
  const auto result = run_process({"sh", "-c", "echo early; sleep 30 & sleep 30; wait"},
                                  {.timeout_seconds = 0.3, .max_output = 1000});
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  ASSERT_TRUE(result);
  EXPECT_TRUE(result->timed_out);
  EXPECT_FALSE(result->ok());
  EXPECT_EQ(result->output, "early\n");
  EXPECT_LT(took.count(), 10);
}

TEST(Subprocess, MissingProgram) {
  const auto result = run_process({"no-such-program-anywhere"});
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code, ErrorCode::io);
  EXPECT_NE(result.error().message.find("no-such-program-anywhere"), std::string::npos);
  EXPECT_FALSE(run_process({}));
  EXPECT_EQ(find_program("no-such-program-anywhere"), "");
  EXPECT_EQ(find_program(""), "");
  EXPECT_NE(find_program("sh"), "");
}

TEST(Subprocess, LongOutput) {
  const auto result = run_process({"head", "-c", "3000000", "/dev/zero"});
  ASSERT_TRUE(result);
  EXPECT_TRUE(result->ok());
  EXPECT_EQ(result->output.size(), 1u << 20) << "the rest is dropped, not waited for";
}

TEST(Hash, IsStable) {
  // Known answers of XXH3 for the empty string; they are part of every store's format.
  EXPECT_EQ(hash64(""), 0x2d06800538d394c2u);
  EXPECT_EQ(hash128_hex(""), "99aa06d3014798d86001c324468d497f");
  EXPECT_NE(hash64("a"), hash64("b"));
  EXPECT_EQ(hash128_hex("abc").size(), 32u);
}

}  // namespace
}  // namespace culet

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// The compile cache: one compile per content, found again by content, errors with their log. Run
// with whichever compilers are here.
#include "compile/compiler.h"

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <thread>

#include "compile/toolchain.h"
#include "culet/cache.h"
#include "culet/tuner.h"

namespace culet {
namespace {

DeviceSpec host_device() {
  DeviceSpec device = *DeviceSpec::preset("cpu");
  device.architecture = "x86-64";  // what any machine of CI can run
  return device;
}

DeviceSpec cuda_device(const char* architecture) {
  DeviceSpec device = *DeviceSpec::preset("h200");
  device.architecture = architecture;
  return device;
}

Source host_source(const std::string& body = "return 42;") {
  return {SourceLanguage::cpp,
          "extern \"C\" int culet_test_entry() { " + body + " }\n",
          "culet_test_entry",
          {}};
}

Source cuda_source(const std::string& body = "p[threadIdx.x] = 1;") {
  return {SourceLanguage::cuda,
          "extern \"C\" __global__ void culet_test_entry(float* p) { " + body + " }\n",
          "culet_test_entry",
          {}};
}

#define SKIP_WITHOUT(language, device)                                    \
  if (const auto found = Compiler::toolchain(language, device); !found) { \
    GTEST_SKIP() << found.error().message;                                \
  }

TEST(HostCompile, GivesALibraryThatRuns) {
  SKIP_WITHOUT(SourceLanguage::cpp, host_device());
  Compiler compiler(nullptr);
  const auto artifact = compiler.compile(host_source(), host_device());
  ASSERT_TRUE(artifact) << artifact.error().message << artifact.error().detail;
  EXPECT_EQ(artifact->kind, ArtifactKind::host_so);
  EXPECT_EQ(artifact->entry, "culet_test_entry");
  EXPECT_NE(artifact->toolchain.find(" x86-64"), std::string::npos) << artifact->toolchain;
  const std::string path = testing::TempDir() + "culet_compile_test.so";
  std::ofstream(path, std::ios::binary) << artifact->bytes;
  void* library = dlopen(path.c_str(), RTLD_NOW);
  ASSERT_NE(library, nullptr) << dlerror();
  const auto entry = reinterpret_cast<int (*)()>(dlsym(library, "culet_test_entry"));
  ASSERT_NE(entry, nullptr);
  EXPECT_EQ(entry(), 42);
  dlclose(library);
  std::remove(path.c_str());
}

TEST(HostCompile, ErrorsCarryTheLog) {
  SKIP_WITHOUT(SourceLanguage::cpp, host_device());
  Compiler compiler(nullptr);
  const auto artifact = compiler.compile(host_source("return nonsense;"), host_device());
  ASSERT_FALSE(artifact);
  EXPECT_EQ(artifact.error().code, ErrorCode::build_failed);
  EXPECT_NE(artifact.error().detail.find("nonsense"), std::string::npos);
  EXPECT_EQ(artifact.error().message.find('\n'), std::string::npos);
}

TEST(HostCompile, MissingCompilerIsAReason) {
  setenv("CULET_CXX", "/nonexistent/compiler", 1);
  const auto found = Compiler::toolchain(SourceLanguage::cpp, host_device());
  unsetenv("CULET_CXX");
  ASSERT_FALSE(found);
  EXPECT_EQ(found.error().message, "CULET_CXX=/nonexistent/compiler: no such program");
}

TEST(HostCompile, EveryLevelHasAnOptionTheCompilerKnows) {
  SKIP_WITHOUT(SourceLanguage::cpp, host_device());
  Compiler compiler(nullptr);
  for (const char* level : {"x86-64-v3", "x86-64-v4", "x86-64-v4-bf16", "x86-64-v4-amx"}) {
    DeviceSpec device = host_device();
    device.architecture = level;
    const auto artifact = compiler.compile(host_source(), device);
    EXPECT_TRUE(artifact) << level << ": " << artifact.error().detail;
  }
  EXPECT_EQ(compiler.compiled(), 4);
}

TEST(CudaCompile, GivesACubinAndPtxasLog) {
  SKIP_WITHOUT(SourceLanguage::cuda, cuda_device("sm_90a"));
  Compiler compiler(nullptr);
  for (const char* architecture : {"sm_80", "sm_90a"}) {
    const auto artifact = compiler.compile(cuda_source(), cuda_device(architecture));
    ASSERT_TRUE(artifact) << artifact.error().message << artifact.error().detail;
    EXPECT_EQ(artifact->kind, ArtifactKind::cubin);
    EXPECT_NE(artifact->toolchain.find(architecture), std::string::npos);
    EXPECT_NE(artifact->log.find("stack frame"), std::string::npos) << artifact->log;
  }
  EXPECT_EQ(compiler.compiled(), 2);
}

TEST(CudaCompile, SpillsAndStackFramesShowInTheLog) {
  SKIP_WITHOUT(SourceLanguage::cuda, cuda_device("sm_90a"));
  Compiler compiler(nullptr);
  const auto artifact = compiler.compile(
      cuda_source("volatile float x[64]; x[int(p[1]) & 63] = p[0]; p[0] = x[int(p[2]) & 63];"),
      cuda_device("sm_90a"));
  ASSERT_TRUE(artifact);
  EXPECT_NE(artifact->log.find("256 bytes stack frame"), std::string::npos) << artifact->log;
}

TEST(CudaCompile, ErrorsCarryTheLog) {
  SKIP_WITHOUT(SourceLanguage::cuda, cuda_device("sm_90a"));
  Compiler compiler(nullptr);
  const auto artifact = compiler.compile(cuda_source("nonsense;"), cuda_device("sm_90a"));
  ASSERT_FALSE(artifact);
  EXPECT_EQ(artifact.error().code, ErrorCode::build_failed);
  EXPECT_NE(artifact.error().detail.find("nonsense"), std::string::npos);
}

TEST(Compile, LanguageMustFitTheDevice) {
  Compiler compiler(nullptr);
  EXPECT_EQ(compiler.compile(cuda_source(), host_device()).error().code,
            ErrorCode::invalid_argument);
  EXPECT_EQ(compiler.compile(host_source(), cuda_device("sm_90a")).error().code,
            ErrorCode::invalid_argument);
  EXPECT_EQ(compiler.compiled(), 0);
}

TEST(CompileCache, SameContentCompilesOnce) {
  SKIP_WITHOUT(SourceLanguage::cpp, host_device());
  for (const bool with_cache : {false, true}) {
    Compiler compiler(with_cache ? *open_cache("none") : nullptr);
    std::vector<std::thread> threads;
    std::atomic<int> good{0};
    for (int i = 0; i < 8; ++i) {
      threads.emplace_back([&] {
        const auto artifact = compiler.compile(host_source(), host_device());
        if (artifact && artifact->bytes.size() > 1000) ++good;
      });
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(good.load(), 8);
    EXPECT_EQ(compiler.compiled(), 1) << "with cache: " << with_cache;
  }
}

TEST(CompileCache, WhatWasCompiledAheadIsToldOnce) {
  SKIP_WITHOUT(SourceLanguage::cpp, host_device());
  const auto go_on = [] { return false; };
  for (const bool with_cache : {false, true}) {
    for (const bool good : {false, true}) {
      const Source source = host_source(good ? "return 42;" : "return nonsense;");
      Compiler compiler(with_cache ? *open_cache("none") : nullptr);
      EXPECT_EQ(compiler.compile(source, host_device(), go_on, nullptr).has_value(), good);
      EXPECT_EQ(compiler.compile(source, host_device(), go_on, nullptr).has_value(), good);
      for (const CodeFrom from : {CodeFrom::compiled, CodeFrom::stored}) {
        Compilation how;
        const auto result = compiler.compile(source, host_device(), go_on, &how);
        EXPECT_EQ(result.has_value(), good);
        EXPECT_TRUE(how.from == from) << "with cache: " << with_cache << ", good: " << good;
        EXPECT_GT(how.seconds, 0);
        EXPECT_EQ(how.error.empty(), good) << how.error;
        const std::string log = good ? std::string() : result.error().detail;
        EXPECT_EQ(log.find("nonsense") == std::string::npos, good) << log;
      }
      EXPECT_EQ(compiler.compiled(), 1);
    }
  }
}

TEST(CompileCache, FailuresCompileOnceToo) {
  SKIP_WITHOUT(SourceLanguage::cpp, host_device());
  Compiler compiler(nullptr);
  EXPECT_FALSE(compiler.compile(host_source("return nonsense;"), host_device()));
  const auto again = compiler.compile(host_source("return nonsense;"), host_device());
  ASSERT_FALSE(again);
  EXPECT_NE(again.error().detail.find("nonsense"), std::string::npos);
  EXPECT_EQ(compiler.compiled(), 1);
}

TEST(CompileCache, ACompilerThatWasKilledIsAskedAgain) {
  const auto real = Compiler::toolchain(SourceLanguage::cpp, host_device());
  if (!real) GTEST_SKIP() << real.error().message;
  const std::string folder = testing::TempDir() + "culet_killed_" + std::to_string(getpid());
  std::filesystem::create_directories(folder);
  // The first source it is given, it is killed at, as by a system without memory: once itself, once
  // a program of its.
  const std::string script = folder + "/c++";
  std::ofstream(script) << "#!/bin/sh\n"
                           "case $1 in -*version) exec c++ \"$@\";; esac\n"
                        << "cd '" << folder << "'\n"
                        << "if mkdir first 2>/dev/null; then kill -9 $$; fi\n"
                           "if mkdir second 2>/dev/null; then\n"
                           "  echo 'c++: fatal error: Killed signal terminated program cc1plus'\n"
                           "  exit 1\nfi\nexec c++ \"$@\"\n";
  std::filesystem::permissions(script, std::filesystem::perms::owner_all);
  setenv("CULET_CXX", script.c_str(), 1);
  Compiler compiler(nullptr);
  for (int i = 0; i < 2; ++i) {
    const auto killed = compiler.compile(host_source(), host_device());
    ASSERT_FALSE(killed);
    EXPECT_NE(killed.error().code, ErrorCode::build_failed) << killed.error().message;
  }
  const auto artifact = compiler.compile(host_source(), host_device());
  EXPECT_TRUE(artifact) << artifact.error().message << artifact.error().detail;
  unsetenv("CULET_CXX");
  std::filesystem::remove_all(folder);
}

TEST(CompileCache, AnotherProcessFindsTheCode) {
  SKIP_WITHOUT(SourceLanguage::cpp, host_device());
  const auto cache = *open_cache("none");
  Compiler first(cache);
  const auto made = first.compile(host_source(), host_device());
  ASSERT_TRUE(made);
  Compiler second(cache);
  const auto found = second.compile(host_source(), host_device());
  ASSERT_TRUE(found);
  EXPECT_EQ(second.compiled(), 0);
  EXPECT_EQ(found->bytes, made->bytes);
  EXPECT_EQ(found->entry, made->entry);
}

TEST(CompileCache, EverythingThatMattersIsInTheKey) {
  SKIP_WITHOUT(SourceLanguage::cpp, host_device());
  Compiler compiler(*open_cache("none"));
  Source source = host_source();
  const auto count = [&](const Source& s, const DeviceSpec& device) {
    EXPECT_TRUE(compiler.compile(s, device));
    return compiler.compiled();
  };
  EXPECT_EQ(count(source, host_device()), 1);
  source.options = {"-DX=1"};
  EXPECT_EQ(count(source, host_device()), 2);
  source.options = {"-DX", "-DY"};
  EXPECT_EQ(count(source, host_device()), 3);
  source.text += " ";
  EXPECT_EQ(count(source, host_device()), 4);
  DeviceSpec other = host_device();
  other.architecture = "x86-64-v3";
  EXPECT_EQ(count(source, other), 5);
  // What does not change the code does not either: other names, other sizes of the device.
  other.name = "another";
  other.units = 99;
  EXPECT_EQ(count(source, other), 5);
}

TEST(CompileCache, ACacheThatLosesEverythingOnlyCostsTime) {
  SKIP_WITHOUT(SourceLanguage::cpp, host_device());
  const auto cache = *open_cache("none");
  Compiler compiler(cache);
  ASSERT_TRUE(compiler.compile(host_source(), host_device()));
  ASSERT_TRUE(cache->clear());
  ASSERT_TRUE(compiler.compile(host_source(), host_device()));
  EXPECT_EQ(compiler.compiled(), 2);
}

TEST(Dump, WritesSourceCodeAndLog) {
  SKIP_WITHOUT(SourceLanguage::cpp, host_device());
  namespace fs = std::filesystem;
  const fs::path folder = fs::path(testing::TempDir()) / "culet_dump_test";
  fs::remove_all(folder);
  Compiler compiler(nullptr, folder.string());
  ASSERT_TRUE(compiler.compile(host_source(), host_device()));
  EXPECT_FALSE(compiler.compile(host_source("return nonsense;"), host_device()));
  int sources = 0, libraries = 0, logs = 0;
  for (const auto& entry : fs::directory_iterator(folder)) {
    sources += entry.path().extension() == ".cpp";
    libraries += entry.path().extension() == ".so";
    logs += entry.path().extension() == ".log";
    EXPECT_EQ(entry.path().filename().string().find("culet_test_entry-"), 0u);
  }
  EXPECT_EQ(sources, 2);
  EXPECT_EQ(libraries, 1);
  EXPECT_EQ(logs, 1);
  fs::remove_all(folder);
}

TEST(ParallelFor, RunsEveryJobOnce) {
  for (const int threads : {0, 1, 3, 64}) {
    std::vector<std::atomic<int>> seen(37);
    parallel_for(37, threads, [&](int i) { ++seen[static_cast<std::size_t>(i)]; });
    for (const auto& count : seen) EXPECT_EQ(count.load(), 1);
  }
  parallel_for(0, 4, [](int) { FAIL(); });
}

TEST(ParallelFor, AnExceptionComesBackAfterAllJobs) {
  std::atomic<int> done{0};
  EXPECT_THROW(parallel_for(10, 2,
                            [&](int i) {
                              ++done;
                              if (i == 3) throw std::runtime_error("x");
                            }),
               std::runtime_error);
  EXPECT_EQ(done.load(), 10);
}

/// A family whose source, launch and failure are planted.
class PlantedFamily final : public KernelFamily {
 public:
  explicit PlantedFamily(const std::string& body) : source_(host_source(body)) {}
  explicit PlantedFamily(Source source) : source_(std::move(source)) {}
  std::string_view name() const override { return "planted"; }
  std::string version() const override { return "1"; }
  DeviceKind device_kind() const override { return DeviceKind::cpu; }
  Support supports(const Problem&, const DeviceSpec&) const override { return Support::can(); }
  std::vector<Config> configs(const Problem&, const DeviceSpec&) const override { return {{}}; }
  std::optional<Features> features(const Problem&, const Config&,
                                   const DeviceSpec&) const override {
    return std::nullopt;
  }
  Result<Source> source(const Problem&, const Step&, const DeviceSpec&) const override {
    return source_;
  }
  Result<LaunchSpec> launch(const Problem&, const Step&, const DeviceSpec&) const override {
    LaunchSpec spec;
    spec.workspace_bytes = 77;
    return spec;
  }

 private:
  Source source_;
};

TEST(KernelFamily, BuildsThroughTheContext) {
  SKIP_WITHOUT(SourceLanguage::cpp, host_device());
  Compiler compiler(nullptr);
  const Step step{"planted", {}, Part::all};
  const auto built = PlantedFamily("return 1;").build({}, step, host_device(), compiler);
  ASSERT_TRUE(built);
  EXPECT_EQ(built->launch.workspace_bytes.at(5), 77);
  EXPECT_EQ(built->artifact.entry, "culet_test_entry");
  EXPECT_EQ(built->step, step);
  const auto failed = PlantedFamily("nonsense;").build({}, step, host_device(), compiler);
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error().code, ErrorCode::build_failed);
}

TEST(KernelFamily, SourcesMayIncludeTheLayoutAlgebra) {
  SKIP_WITHOUT(SourceLanguage::cuda, cuda_device("sm_90a"));
  Compiler compiler(nullptr);
  Source source = cuda_source();
  source.text = R"(
#include "layout.cuh"
using namespace culet::kernels;
extern "C" __global__ void culet_test_entry(float* p) {
  constexpr Layout kPadded = modes(leaf(16, 17), leaf(16, 1));
  __shared__ float tile[kPadded.cosize()];
  tile[offset_of<kPadded>(threadIdx.y, threadIdx.x)] = p[threadIdx.x];
  __syncthreads();
  p[threadIdx.y] = tile[offset_of<kPadded>(threadIdx.x, threadIdx.y)];
}
)";
  const auto built =
      PlantedFamily(source).build({}, {"planted", {}, Part::all}, cuda_device("sm_90a"), compiler);
  ASSERT_TRUE(built) << built.error().message << built.error().detail;
  EXPECT_NE(built->artifact.log.find(" 0 bytes stack frame"), std::string::npos)
      << built->artifact.log;
}

}  // namespace
}  // namespace culet

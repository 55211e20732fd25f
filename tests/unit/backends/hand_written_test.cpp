// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// Candidates that somebody wrote by hand: what is wrong with them is said, not ignored.
#include <gtest/gtest.h>

#include "culet/registry.h"

namespace culet {
namespace {

Problem problem(const std::string& text) { return Problem::parse(text).value(); }
Candidate candidate(const std::string& text) { return Candidate::parse(text).value(); }

TEST(HandWritten, WhyItIsNotInTheSpace) {
  const std::vector<Candidate> space = {
      candidate("simt{tile=64x64 stages=2}"), candidate("simt{tile=64x64 stages=3}"),
      candidate("simt{tile=32x64 stages=4}"),
      candidate("lib{a=1}:gemm + point{columns=4}:epilogue"), candidate("plain{}")};
  const auto why = [&](const std::string& text) { return why_not_in(space, candidate(text)); };
  EXPECT_EQ(why("simt{tile=64x64 stages=9}"), "simt has no stages=9 here, only 2, 3, 4");
  EXPECT_EQ(why("simt{tile=64x64 stage=2}"), "simt has no key stage here, only tile, stages");
  EXPECT_EQ(why("simt{tile=32x64 stages=2}"), "the nearest there is simt{tile=64x64 stages=2}");
  EXPECT_EQ(why("simt{tile=32x64}"), "the nearest there is simt{tile=32x64 stages=4}");
  EXPECT_EQ(why("plain{a=1}"), "plain has no keys here");
  EXPECT_EQ(why("lib{a=1}:gemm + point{columns=5}:epilogue"),
            "point has no columns=5 here, only 4");
  EXPECT_EQ(why("lib{a=1}"),
            "lib has no candidates here, only simt, lib:gemm + point:epilogue, plain");
}

/// Accepts every source.
class NoCompiler final : public BuildContext {
 public:
  Result<Artifact> compile(const Source&, const DeviceSpec&) override { return Artifact{}; }
};

TEST(HandWritten, NoBackendIgnoresAKey) {
  const Registry registry = Registry::standard();
  int asked = 0;
  for (const char* text : {"4x512x512:bf16", "256x512x512:f32", "4x512x512:bf16:epi=\"relu(acc)\"",
                           "256x512x512:f32:epi=\"relu(acc)\""}) {
    for (const DeviceSpec& device :
         {DeviceSpec::preset("h200").value(), find_device("cpu:1").value()}) {
      for (const auto& backend : registry.backends()) {
        const Part part = backend->is_epilogue_step() ? Part::epilogue : Part::all;
        const bool asks = backend->device_kind() == device.kind &&
                          (part == Part::epilogue || backend->supports(problem(text), device).yes);
        const auto configs = asks ? backend->configs(problem(text), device) : std::vector<Config>();
        if (configs.empty()) continue;
        SCOPED_TRACE(text + (" " + std::string(backend->name())));
        NoCompiler context;
        Step step{std::string(backend->name()), configs.front(), part};
        const auto good = backend->build(problem(text), step, device, context);
        EXPECT_TRUE(good) << good.error().message;
        step.config.set("colour", 7);
        const auto bad = backend->build(problem(text), step, device, context);
        ASSERT_FALSE(bad);
        EXPECT_NE(bad.error().message.find("colour=7: it has no such key here, only "),
                  std::string::npos)
            << bad.error().message;
        ++asked;
      }
    }
  }
  EXPECT_GE(asked, 16);
}

TEST(HandWritten, ThreadsAreThoseOfTheDevice) {
  DeviceSpec device = find_device("cpu:1").value();
  device.threads = 8;
  const Problem p = problem("64x512x512:f32");
  const Registry registry = Registry::standard();
  int asked = 0;
  for (const auto& backend : registry.backends()) {
    const Part part = backend->is_epilogue_step() ? Part::epilogue : Part::all;
    const bool asks = backend->device_kind() == device.kind &&
                      (part == Part::epilogue || backend->supports(p, device).yes);
    const auto configs = asks ? backend->configs(p, device) : std::vector<Config>();
    if (configs.empty() || !configs.front().has("threads")) continue;
    SCOPED_TRACE(std::string(backend->name()));
    NoCompiler context;
    Step step{std::string(backend->name()), configs.front(), part};
    const auto build = [&](const char* threads) {
      step.config.set("threads", threads);
      return backend->build(p, step, device, context);
    };
    for (const int threads : {1, 3, 8}) {
      const auto built = build(std::to_string(threads).c_str());
      ASSERT_TRUE(built) << built.error().message;
      EXPECT_EQ(built->launch.host.threads, threads);
    }
    for (const char* threads :
         {"0", "-1", "9", "2147483647", "4294967298", "36893488147419103234", "all"}) {
      const auto built = build(threads);
      ASSERT_FALSE(built) << threads;
      EXPECT_EQ(built.error().code, ErrorCode::invalid_argument);
      EXPECT_EQ(built.error().message,
                step.backend + ": threads=" + threads + ": 1..8, as the device has, is expected");
    }
    DeviceSpec unsaid = device;  // of a program that did not say how many
    unsaid.threads = 0;
    step.config = backend->configs(p, unsaid).front();
    const auto one = backend->build(p, step, unsaid, context);
    EXPECT_TRUE(one) << one.error().message;
    ++asked;
  }
  EXPECT_GE(asked, 2);  // cpu_tile, cpu_pointwise, and openblas where it is
}

}  // namespace
}  // namespace culet

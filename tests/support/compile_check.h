// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// Compiles configurations of a CUDA family, one or a sample of its space, for a device that need
// not be here, and fails on what would make a kernel slow without making it wrong: spills, stack
// frames, and ptxas warnings about WGMMA or register moves (C7508 to C7511).
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "compile/compile_complaint.h"
#include "compile/compiler.h"
#include "culet/culet.h"

namespace culet::testing {

/// Every `stride`-th configuration of the family for a problem, at most `limit`.
inline void expect_clean_compiles(const Backend& backend, const std::string& problem_text,
                                  const std::string& preset, std::size_t limit) {
  const DeviceSpec device = DeviceSpec::preset(preset).value();
  const auto toolchain = Compiler::toolchain(SourceLanguage::cuda, device);
  if (!toolchain) GTEST_SKIP() << "no CUDA compiler: " << toolchain.error().message;
  const Problem problem = Problem::parse(problem_text).value();
  const Support support = backend.supports(problem, device);
  ASSERT_TRUE(support.yes) << support.reason;
  const std::vector<Config> configs = backend.configs(problem, device);
  ASSERT_FALSE(configs.empty());
  std::vector<const Config*> chosen;
  const std::size_t stride = std::max<std::size_t>(1, (configs.size() + limit - 1) / limit);
  for (std::size_t i = 0; i < configs.size(); i += stride) chosen.push_back(&configs[i]);
  Compiler compiler(nullptr);
  std::vector<std::string> complaints(chosen.size());
  parallel_for(static_cast<int>(chosen.size()), 0, [&](int i) {
    const auto at = static_cast<std::size_t>(i);
    const Step step{std::string(backend.name()), *chosen[at], Part::all};
    const auto built = backend.build(problem, step, device, compiler);
    complaints[at] = built ? compile_complaint(built->artifact.log)
                           : built.error().message + "\n" + built.error().detail;
    if (built && built->artifact.log.find("stack frame") == std::string::npos)
      complaints[at] = "no ptxas report in the log";
  });
  for (std::size_t i = 0; i < chosen.size(); ++i) {
    EXPECT_EQ(complaints[i], "") << problem_text << " " << chosen[i]->text();
  }
}

/// One configuration, for a device that need not be a preset.
inline void expect_clean_build(const Backend& backend, const std::string& problem_text,
                               const std::string& config_text, const DeviceSpec& device,
                               Part part = Part::all) {
  SCOPED_TRACE(problem_text + "  " + config_text);
  const auto toolchain = Compiler::toolchain(SourceLanguage::cuda, device);
  if (!toolchain) GTEST_SKIP() << "no CUDA compiler: " << toolchain.error().message;
  const auto problem = Problem::parse(problem_text);
  ASSERT_TRUE(problem) << problem.error().message;
  const auto config = Config::parse(config_text);
  ASSERT_TRUE(config) << config.error().message;
  Compiler compiler(nullptr);
  const auto built =
      backend.build(*problem, {std::string(backend.name()), *config, part}, device, compiler);
  ASSERT_TRUE(built) << built.error().message << "\n" << built.error().detail;
  EXPECT_FALSE(built->artifact.bytes.empty());
  EXPECT_NE(built->artifact.log.find("stack frame"), std::string::npos) << "no ptxas report";
  EXPECT_EQ(compile_complaint(built->artifact.log), "") << built->artifact.log;
}

}  // namespace culet::testing

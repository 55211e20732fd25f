// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// One chosen configuration of a CUDA family must compile cleanly, for a device that need not be
// here; compile_check.h does the same for a sample of the whole space.
#pragma once

#include <string>

#include "compile_check.h"

namespace culet::testing {

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

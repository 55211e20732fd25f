// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// The CUDA epilogue step: refuses whole problems, compiles cleanly, covers every element.
#include <gtest/gtest.h>

#include "../../support/compile_check.h"
#include "backends/backends.h"

namespace culet {
namespace {

DeviceSpec device() { return DeviceSpec::preset("a100").value(); }

TEST(Pointwise, RefusesWholeProblems) {
  const auto backend = make_pointwise_backend();
  const Problem p = Problem::parse("64x64x64:bf16").value();
  EXPECT_TRUE(backend->is_epilogue_step());
  EXPECT_FALSE(backend->supports(p, device()).yes);
  EXPECT_FALSE(backend->supports(p, device()).reason.empty());
  const auto& family = dynamic_cast<const KernelFamily&>(*backend);
  const Config config = backend->configs(p, device()).front();
  EXPECT_FALSE(family.source(p, {"pointwise", config, Part::all}, device()));
  EXPECT_TRUE(family.source(p, {"pointwise", config, Part::epilogue}, device()));
}

TEST(Pointwise, ReadsAsWideAsRowsAllow) {
  const auto backend = make_pointwise_backend();
  const auto columns = [&](const char* text) {
    return backend->configs(Problem::parse(text).value(), device()).front().get_int("columns");
  };
  EXPECT_EQ(columns("64x64x64:bf16"), 4);
  EXPECT_EQ(columns("64x63x64:bf16"), 1);
  EXPECT_EQ(columns("64x64x64:f64"), 1);
}

TEST(Pointwise, Compiles) {
  const auto backend = make_pointwise_backend();
  testing::expect_clean_build(*backend, "64x64x64:bf16:epi=\"silu(acc + bias[n]) * c[m,n]\"",
                              "columns=4", device(), Part::epilogue);
  testing::expect_clean_build(*backend, "64x63x64x2:s8>s8:epi=\"acc * s[m]\"", "columns=1",
                              device(), Part::epilogue);
  testing::expect_clean_build(*backend, "64x63x64:f64:epi=\"tanh(acc)\"", "columns=1", device(),
                              Part::epilogue);
}

}  // namespace
}  // namespace culet

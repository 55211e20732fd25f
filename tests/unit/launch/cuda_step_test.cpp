// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// Loading CUDA code where it cannot run: each refusal says why.
#include <gtest/gtest.h>

#include "device/cuda.h"
#include "launch/loaded_step.h"

namespace culet {
namespace {

BuiltStep cubin(const std::string& toolchain) {
  BuiltStep step;
  step.artifact.kind = ArtifactKind::cubin;
  step.artifact.bytes = "not code";
  step.artifact.entry = "kernel";
  step.artifact.toolchain = toolchain;
  return step;
}

std::string refusal(const BuiltStep& step, const DeviceSpec& device) {
  const auto loaded = load_cuda_step(Problem(), step, device);
  EXPECT_FALSE(loaded);
  return loaded ? std::string() : loaded.error().message;
}

TEST(CudaStep, OtherKindsOfArtifactAreNotItsOwn) {
  BuiltStep step = cubin("");
  step.artifact.kind = ArtifactKind::host_so;
  EXPECT_NE(refusal(step, *DeviceSpec::preset("h200")).find("not a CUDA kernel"),
            std::string::npos);
}

TEST(CudaStep, CodeForAnotherArchitectureIsRefused) {
  EXPECT_EQ(refusal(cubin("nvrtc 13.0 sm_80"), *DeviceSpec::preset("h200")),
            "kernel was compiled for sm_80, the device NVIDIA H200 is sm_90a");
  // sm_90 code would load on the part, but is not what was asked for.
  EXPECT_NE(refusal(cubin("nvrtc 13.0 sm_90"), *DeviceSpec::preset("h200")).find("sm_90,"),
            std::string::npos);
}

TEST(CudaStep, NoDriverIsAReason) {
  if (cuda_driver()) GTEST_SKIP() << "there is a CUDA driver";
  const std::string text = refusal(cubin("nvrtc 13.0 sm_90a"), *DeviceSpec::preset("h200"));
  EXPECT_EQ(text, cuda_driver().error().message);
}

}  // namespace
}  // namespace culet

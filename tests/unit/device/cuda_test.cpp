// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// Absent CUDA libraries are ordinary errors; what needs no GPU is checked everywhere.
#include "device/cuda.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "device/cublaslt.h"
#include "device/library.h"
#include "device/nvml.h"
#include "device/nvrtc.h"
#include "device/probe_cuda.h"

namespace culet {
namespace {

bool one_line(const Error& error) {
  return !error.message.empty() && error.message.find('\n') == std::string::npos;
}

TEST(CudaDriver, AbsenceIsAReason) {
  const auto driver = cuda_driver();
  if (driver) GTEST_SKIP() << "there is a CUDA driver";
  EXPECT_EQ(driver.error().code, ErrorCode::device);
  EXPECT_TRUE(one_line(driver.error())) << driver.error().message;
  EXPECT_NE(driver.error().message.find("CUDA"), std::string::npos);
  EXPECT_EQ(cuda::device_count(), 0);
  EXPECT_FALSE(cuda::Context::enter(0));
  EXPECT_FALSE(cuda::DeviceBuffer::allocate(16));
  EXPECT_FALSE(cuda::Stream::create());
  EXPECT_FALSE(cuda::Event::create());
  EXPECT_FALSE(probe_cuda(0));
  EXPECT_FALSE(gpu_state(0));
  const auto device = find_device("cuda");
  ASSERT_FALSE(device);
  EXPECT_EQ(exit_status(device.error().code), 5);
  // Owners of nothing are harmless.
  cuda::DeviceBuffer buffer;
  cuda::Stream stream;
  cuda::Event event;
  cuda::Graph graph;
}

TEST(Nvml, TheDriversVersionIsReadFromItsModule) {
  const std::string path = testing::TempDir() + "culet_module_version";
  std::ofstream(path) << "580.159.03\n";
  const auto version = gpu_driver_version(path);
  ASSERT_TRUE(version) << version.error().message;
  EXPECT_EQ(*version, "580.159.03");
  // What is no version, or not there, is NVML's to say.
  for (const char* text : {"", "unknown\n", "580.159.03 beta\n"}) {
    std::ofstream(path) << text;
    const auto other = gpu_driver_version(path);
    EXPECT_EQ(other.has_value(), gpu_driver_version("/nonexistent").has_value()) << text;
    EXPECT_TRUE(other ? *other != text : one_line(other.error()));
  }
  std::remove(path.c_str());
}

TEST(CudaDriver, ForkedChildGetsAnAnswer) {
  const bool here = cuda_driver().has_value();
  const pid_t child = fork();
  if (child == 0) {
    const auto again = cuda_driver();
    // Initialised in the parent: unusable here, and said so. Not initialised: a fresh try.
    const bool right = here ? !again && again.error().message.find("forked") != std::string::npos
                            : again.has_value() == here;
    _exit(right ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

TEST(CudaDriver, UnknownErrorsAreDescribed) {
  EXPECT_TRUE(cuda::check(cuda::kSuccess, "x"));
  const auto bad = cuda::check(123456, "doing this");
  ASSERT_FALSE(bad);
  EXPECT_EQ(bad.error().message.find("doing this: "), 0u);
}

TEST(Library, SaysWhatWasLookedFor) {
  const auto library =
      Library::open("such library", {"libnothing.so.1", "libnothing.so"}, {"/tmp"});
  ASSERT_FALSE(library);
  EXPECT_EQ(library.error().message,
            "no such library (libnothing.so.1 or libnothing.so not found)");
}

TEST(Library, SearchesTheFolderTheUserNames) {
  namespace fs = std::filesystem;
  const fs::path root = fs::path(testing::TempDir()) / "culet_cuda_path";
  fs::create_directories(root / "lib64");
  fs::create_directories(root / "venv/lib/python3.11/site-packages/nvidia/cublas/lib");
  const char* old_path = std::getenv("CULET_CUDA_PATH");
  const char* old_env = std::getenv("VIRTUAL_ENV");
  setenv("CULET_CUDA_PATH", root.c_str(), 1);
  setenv("VIRTUAL_ENV", (root / "venv").c_str(), 1);
  const auto folders = cuda_library_folders();
  old_path == nullptr ? unsetenv("CULET_CUDA_PATH") : setenv("CULET_CUDA_PATH", old_path, 1);
  old_env == nullptr ? unsetenv("VIRTUAL_ENV") : setenv("VIRTUAL_ENV", old_env, 1);
  ASSERT_FALSE(folders.empty());
  EXPECT_EQ(folders.front(), (root / "lib64").string());
  const auto wheel = (root / "venv/lib/python3.11/site-packages/nvidia/cublas/lib").string();
  EXPECT_NE(std::find(folders.begin(), folders.end(), wheel), folders.end());
  fs::remove_all(root);
}

TEST(Nvrtc, CompilesForEveryArchitectureItKnows) {
  const auto compiler = nvrtc();
  if (!compiler) GTEST_SKIP() << compiler.error().message;
  EXPECT_GE((*compiler)->major(), 12);
  const std::string source = "extern \"C\" __global__ void k(float* p) { p[threadIdx.x] = 1; }";
  for (const char* architecture : {"sm_80", "sm_90a"}) {
    const auto output = (*compiler)->compile(source, "k.cu", architecture, {"--ptxas-options=-v"});
    ASSERT_TRUE(output) << output.error().message;
    EXPECT_EQ(output->cubin.substr(1, 3), "ELF");
    EXPECT_NE(output->log.find("0 bytes spill stores"), std::string::npos) << output->log;
  }
  const auto unknown = (*compiler)->compile(source, "k.cu", "sm_10", {});
  ASSERT_FALSE(unknown);
  EXPECT_NE(unknown.error().message.find("sm_10"), std::string::npos);
  const auto broken = (*compiler)->compile("int f( {", "k.cu", "sm_90a", {});
  ASSERT_FALSE(broken);
  EXPECT_EQ(broken.error().code, ErrorCode::build_failed);
  EXPECT_NE(broken.error().detail.find("error"), std::string::npos);
}

TEST(Cublaslt, DescriptorsFitIntoOurMemory) {
  const auto library = cublaslt::library();
  if (!library) GTEST_SKIP() << library.error().message;
  cublaslt::Descriptor desc, layout, preference;
  for (auto* d : {&desc, &layout, &preference}) std::fill(d->data, d->data + 64, ~0ull);
  EXPECT_EQ((*library)->desc_init(&desc, sizeof desc, cublaslt::ComputeType::kF32,
                                  cublaslt::DataType::kF32),
            cublaslt::kStatusSuccess);
  EXPECT_EQ((*library)->layout_init(&layout, sizeof layout, cublaslt::DataType::kBf16, 64, 32, 64),
            cublaslt::kStatusSuccess);
  EXPECT_EQ((*library)->preference_init(&preference, sizeof preference), cublaslt::kStatusSuccess);
  EXPECT_FALSE(cublaslt::check(cublaslt::kStatusNotSupported, "x"));
}

TEST(Architecture, FromComputeCapability) {
  EXPECT_EQ(cuda_architecture(9, 0), "sm_90a");
  EXPECT_EQ(cuda_architecture(10, 0), "sm_100a");
  EXPECT_EQ(cuda_architecture(8, 0), "sm_80");
  EXPECT_EQ(cuda_architecture(7, 5), "sm_75");
}

TEST(Rates, ProbedPartsAgreeWithTheirPreset) {
  const auto preset = DeviceSpec::preset("h200");
  DeviceSpec probed = *preset;
  probed.tensor_ops.clear();
  fill_cuda_rates(9, 0, &probed);
  ASSERT_EQ(probed.tensor_ops.size(), preset->tensor_ops.size());
  for (const auto& [dtype, rate] : preset->tensor_ops) {
    EXPECT_NEAR(probed.tensor_ops.at(dtype), rate, 1e-6 * rate) << to_string(dtype);
  }
  for (const auto& [dtype, rate] : preset->vector_ops) {
    EXPECT_NEAR(probed.vector_ops.at(dtype), rate, 1e-6 * rate) << to_string(dtype);
  }
  // A part without tf32 or 8-bit floats has no such rate.
  DeviceSpec turing = *preset;
  fill_cuda_rates(7, 5, &turing);
  EXPECT_EQ(turing.tensor_ops.count(DType::bf16), 0u);
  EXPECT_EQ(turing.tensor_ops.count(DType::e4m3), 0u);
  EXPECT_EQ(turing.tensor_ops.count(DType::f16), 1u);
}

TEST(GpuState, WordsForThrottling) {
  GpuState state;
  EXPECT_EQ(state.throttling(), "");
  state.throttle_reasons = 0x1;  // idle
  EXPECT_EQ(state.throttling(), "");
  state.throttle_reasons = 0x4 | 0x40;
  EXPECT_EQ(state.throttling(), "power cap, thermal (hardware)");
  state.sm_clock_mhz = 1980;
  EXPECT_EQ(state.text(), "1980 MHz, throttled: power cap, thermal (hardware)");
}

}  // namespace
}  // namespace culet

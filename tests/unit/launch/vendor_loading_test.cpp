// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// A vendor library that is missing, is something else, or is of another version is a reason in one
// line; detection of the CPU.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "device/cpu_info.h"
#include "device/onednn.h"
#include "device/openblas.h"
#include "host_kernel_fixture.h"

namespace culet::test {
namespace {

TEST(VendorLoading, Missing) {
  const auto blas = load_openblas({"libopenblas-absent.so"}, {"/nowhere"});
  ASSERT_FALSE(blas);
  EXPECT_EQ(blas.error().code, ErrorCode::device);
  EXPECT_EQ(blas.error().message, "no OpenBLAS (libopenblas-absent.so not found)");
  const auto dnn = load_onednn({"libdnnl-absent.so"}, {"/nowhere"});
  ASSERT_FALSE(dnn);
  EXPECT_EQ(dnn.error().message, "no oneDNN (libdnnl-absent.so not found)");
}

TEST(VendorLoading, SomethingElse) {
  const auto blas = load_openblas({"libm.so.6"}, {});
  ASSERT_FALSE(blas);
  EXPECT_EQ(blas.error().message, "libm.so.6 lacks entry points of OpenBLAS");
  const auto dnn = load_onednn({"libm.so.6"}, {});
  ASSERT_FALSE(dnn);
  EXPECT_EQ(dnn.error().message, "libm.so.6 has no dnnl_version");
}

TEST(VendorLoading, AnotherMajorVersionOfOneDnn) {
  const std::string bytes = compile_shared(R"(
    struct Version { int major, minor, patch; const char* hash; unsigned cpu, gpu; };
    extern "C" const Version* dnnl_version() { static Version v{3, 4, 1, "", 2, 0}; return &v; })");
  if (bytes.empty()) GTEST_SKIP() << "no C++ compiler named c++";
  const std::string path =
      (std::filesystem::temp_directory_path() / "culet-test-dnnl3.so").string();
  std::ofstream(path, std::ios::binary) << bytes;
  const auto dnn = load_onednn({path}, {});
  std::filesystem::remove(path);
  ASSERT_FALSE(dnn);
  EXPECT_EQ(dnn.error().message, path + " is oneDNN 3.4; culet speaks the interface of 2.x");
}

TEST(CpuInfo, LevelsIncludeEachOther) {
  EXPECT_TRUE(cpu_level_covers("x86-64-v4-amx", "x86-64-v3"));
  EXPECT_TRUE(cpu_level_covers("x86-64-v3", "x86-64-v3"));
  EXPECT_FALSE(cpu_level_covers("x86-64-v3", "x86-64-v4"));
  EXPECT_FALSE(cpu_level_covers("x86-64-v4", "sm_90a"));
  EXPECT_FALSE(cpu_level_covers("generic", "x86-64"));
}

// ThreadSanitizer makes every access a call: on a busy machine 3.5e8 operations, 1.4e8 bytes a
// second.
#if defined(__SANITIZE_THREAD__)
constexpr double kSlower = 20;
#else
constexpr double kSlower = 1;
#endif

TEST(CpuInfo, ProbeIsPlausibleAndItsIdentityStable) {
  const DeviceSpec one = probe_cpu(1);
  const DeviceSpec again = probe_cpu(1);
  EXPECT_TRUE(one.present);
  EXPECT_EQ(one.kind, DeviceKind::cpu);
  EXPECT_EQ(one.threads, 1);
  EXPECT_GE(one.units, 1);
  EXPECT_EQ(one.identity(), again.identity());
  EXPECT_NE(one.identity(), probe_cpu(2).identity());
  EXPECT_GT(one.clock_ghz, 0.3);
  EXPECT_LT(one.clock_ghz, 8);
  EXPECT_GT(one.vector_ops.at(DType::f32) * kSlower, 1e8);
  EXPECT_LT(one.vector_ops.at(DType::f32), 1e12);
  EXPECT_GT(one.dram_bytes_per_s * kSlower, 2e8);
  EXPECT_GE(one.l1_bytes, 16 << 10);
  EXPECT_GE(one.l2_bytes, one.l1_bytes);
  EXPECT_GT(one.memory_bytes, 0);
  EXPECT_EQ(one.units, 1);  // as many as there are threads, at most as many as there are cores
  EXPECT_GE(probe_cpu(0).units, one.units);
  EXPECT_GE(probe_cpu(0).threads, probe_cpu(0).units);
}

}  // namespace
}  // namespace culet::test

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// What the cuBLASLt backend does without a GPU: reasons, and algorithms as text.
#include <gtest/gtest.h>

#include "backends/backends.h"
#include "culet/cache.h"
#include "launch/cublaslt_matmul.h"
#include "launch/loaded_step.h"

namespace culet {
namespace {

Problem parse(const std::string& text) {
  const auto problem = Problem::parse(text);
  EXPECT_TRUE(problem) << text << ": " << (problem ? "" : problem.error().message);
  return problem.value_or(Problem());
}

class NoCompiler final : public BuildContext {
 public:
  Result<Artifact> compile(const Source&, const DeviceSpec&) override {
    return fail(ErrorCode::build_failed, "no compiler here");
  }
};

const char* const kConfig =
    "algo=66 tile=64x8 stages=64xauto splitk=1 reduction=none swizzle=0 custom=3 inner=auto "
    "cluster=1x2 workspace=4096 lib=13.1.0 raw=a00000042.100000023.0.5000000000003";

TEST(Cublaslt, ADescribedDeviceIsRefusedWithAReason) {
  const auto backend = make_cublaslt_backend();
  EXPECT_TRUE(backend->is_vendor());
  EXPECT_EQ(backend->device_kind(), DeviceKind::cuda);
  const DeviceSpec device = *DeviceSpec::preset("h200");
  const Support support = backend->supports(parse("32x64x128:bf16"), device);
  EXPECT_FALSE(support.yes);
  EXPECT_FALSE(support.reason.empty());
  if (cublaslt::library()) {
    EXPECT_NE(support.reason.find("no NVIDIA H200 is here"), std::string::npos) << support.reason;
  } else {
    EXPECT_NE(support.reason.find("no cuBLASLt"), std::string::npos) << support.reason;
  }
  EXPECT_TRUE(backend->configs(parse("32x64x128:bf16"), device).empty());
  EXPECT_FALSE(backend->features(parse("32x64x128:bf16"), Config(), device));
}

TEST(Cublaslt, EmptyProblemsAreRefused) {
  const auto backend = make_cublaslt_backend();
  const DeviceSpec device = *DeviceSpec::preset("h200");
  EXPECT_NE(backend->supports(parse("32x64x0:bf16"), device).reason.find("k=0"), std::string::npos);
  EXPECT_NE(backend->supports(parse("0x64x64:bf16"), device).reason.find("size is 0"),
            std::string::npos);
}

TEST(Cublaslt, BuildKeepsTheAttributes) {
  const Config config = *Config::parse(kConfig);
  NoCompiler none;
  const auto built = make_cublaslt_backend()->build(
      parse("32x64x128:bf16"), {"cublaslt", config, Part::all}, *DeviceSpec::preset("h200"), none);
  ASSERT_TRUE(built) << built.error().message;
  EXPECT_EQ(built->artifact.kind, ArtifactKind::library_call);
  EXPECT_EQ(built->artifact.entry, "cublaslt");
  EXPECT_EQ(built->artifact.bytes, kConfig);
  EXPECT_EQ(built->artifact.toolchain, "cublasLt 13.1.0");
  EXPECT_EQ(built->launch.workspace_bytes.at(1), 4096);
  const auto algorithm = parse_cublaslt_config(config);
  ASSERT_TRUE(algorithm);
  EXPECT_EQ(algorithm->algorithm.data[0], 0xa00000042u);
  EXPECT_EQ(algorithm->algorithm.data[3], 0x5000000000003u);
  EXPECT_EQ(algorithm->algorithm.data[4], 0u);
}

TEST(Cublaslt, MalformedAlgorithmsAreErrors) {
  NoCompiler none;
  for (const auto& [key, value] : {std::pair("raw", "xyz"),
                                   {"raw", "1..2"},
                                   {"raw", "."},
                                   {"raw", "11111111111111111"},
                                   {"raw", "1.2.3.4.5.6.7.8.9"},
                                   {"workspace", "-5"},
                                   {"workspace", "9223372036854775807"}}) {
    Config config = *Config::parse(kConfig);
    config.set(key, value);
    const auto built =
        make_cublaslt_backend()->build(parse("32x64x128:bf16"), {"cublaslt", config, Part::all},
                                       *DeviceSpec::preset("h200"), none);
    EXPECT_FALSE(built) << key << "=" << value;
  }
  EXPECT_FALSE(parse_cublaslt_config(Config()));
}

TEST(Cublaslt, LoadingChecksTheLibraryBeforeTheDevice) {
  BuiltStep step;
  step.artifact.kind = ArtifactKind::library_call;
  step.artifact.entry = "openblas";
  const DeviceSpec device = *DeviceSpec::preset("h200");
  EXPECT_EQ(load_cublaslt_step(parse("32x64x128:bf16"), step, device).error().code,
            ErrorCode::invalid_argument);
  step.artifact.entry = "cublaslt";
  Config config = *Config::parse(kConfig);
  config.set("lib", "1.2.3");
  step.artifact.bytes = config.text();
  const auto loaded = load_cublaslt_step(parse("32x64x128:bf16"), step, device);
  ASSERT_FALSE(loaded);
  EXPECT_EQ(loaded.error().code, ErrorCode::device);
  if (cublaslt::library()) {
    EXPECT_NE(loaded.error().message.find("1.2.3"), std::string::npos) << loaded.error().message;
  }
}

TEST(Cublaslt, AttributesOfAZeroAlgorithmHaveNames) {
  const auto library = cublaslt::library();
  if (!library) GTEST_SKIP() << library.error().message;
  const Config config = cublaslt_config(**library, {});
  EXPECT_EQ(config.get("tile"), "auto");
  EXPECT_EQ(config.get("cluster"), "auto");
  EXPECT_EQ(config.get("raw"), "0");
  EXPECT_EQ(*Config::parse(config.text()), config);
}

TEST(Cublaslt, RulesOnDtypesAndEpilogues) {
  const auto library = cublaslt::library();
  if (!library) GTEST_SKIP() << library.error().message;
  const auto reason = [&](const std::string& text) {
    const auto matmul = CublasltMatmul::describe(parse(text), **library);
    return matmul ? std::string("yes") : matmul.error().message;
  };
  for (const char* text :
       {"32x64x128:bf16", "32x64x128:tf32>f32:layout=nt", "32x64x128:f64:acc=f64", "32x64x128:s8",
        "32x64x128:e4m3*e5m2>f32", "32x64x128x4:f16:epi=\"gelu_tanh(acc + bias[n])\"",
        "32x64x128:s8:epi=\"2 * acc + c[m,n]\"", "32x64x128:e4m3:epi=\"acc + bias[n]\""}) {
    EXPECT_EQ(reason(text), "yes") << text;
  }
  EXPECT_NE(reason("32x64x128:u8").find("u8"), std::string::npos);
  EXPECT_NE(reason("32x64x128:s8*u8").find("s8*u8"), std::string::npos);
  EXPECT_NE(reason("32x64x128:bf16:epi=\"silu(acc)\"").find("epilogue"), std::string::npos);
  EXPECT_NE(reason("32x64x128:bf16:epi=\"acc + bias[n]:f32\"").find("bias"), std::string::npos);
  EXPECT_NE(reason("32x64x128:bf16:epi=\"acc + c[m,n]:f32\"").find("c is f32"), std::string::npos);
  EXPECT_NE(reason("32x64x128:s8:epi=\"0.5 * acc\"").find("alpha=0.5"), std::string::npos);
  EXPECT_NE(reason("32x64x128:s8:epi=\"relu(acc)\"").find("activations"), std::string::npos);
}

}  // namespace
}  // namespace culet

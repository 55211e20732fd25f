// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// Stored code is found without a compiler, and only where it is what was asked for.
#include "compile/stored_code.h"

#include <gtest/gtest.h>

#include "compile/compiler.h"
#include "compile/toolchain.h"

namespace culet {
namespace {

/// Counts what is left to compile.
class Otherwise final : public BuildContext {
 public:
  Result<Artifact> compile(const Source&, const DeviceSpec&) override {
    ++asked;
    return fail(ErrorCode::device, "no compiler here");
  }
  int asked = 0;
};

class StoredCodeTest : public ::testing::Test {
 protected:
  StoredCodeTest() {
    device_.architecture = "sm_90a";
    source_ = {SourceLanguage::cuda, "the source", "kernel", {"--option"}};
  }
  /// What a compiler of that name would have left in the store.
  void store(const std::string& compiler, const std::string& bytes) {
    const std::string text = compiler + " " + device_.architecture;
    const std::string fingerprint = text + " " + nvrtc_options();
    Artifact artifact;
    artifact.kind = ArtifactKind::cubin;
    artifact.bytes = bytes;
    artifact.entry = source_.entry;
    artifact.toolchain = text;
    cache_->store_code(code_key(source_, fingerprint), artifact);
    cache_->note_toolchain(device_.architecture, fingerprint);
  }
  /// The bytes that are found; empty where the compiler was asked.
  std::string found(const Source& source) {
    StoredCode code(*cache_, otherwise_);
    const int before = otherwise_.asked;
    const auto artifact = code.compile(source, device_);
    EXPECT_EQ(artifact.has_value(), otherwise_.asked == before);
    return artifact ? artifact->bytes : std::string();
  }

  std::shared_ptr<Cache> cache_ = *open_cache("none");
  DeviceSpec device_ = *DeviceSpec::preset("h200");
  Source source_;
  Otherwise otherwise_;
};

TEST_F(StoredCodeTest, IsFoundWhicheverCompilerMadeItTheLastUsedFirst) {
  EXPECT_EQ(found(source_), "");
  store("nvrtc 12.8", "old");
  EXPECT_EQ(found(source_), "old");
  store("nvrtc 13.0", "new");
  EXPECT_EQ(found(source_), "new");
  store("nvrtc 12.8", "old");
  EXPECT_EQ(found(source_), "old");
  EXPECT_EQ(otherwise_.asked, 1);
}

TEST_F(StoredCodeTest, AnythingElseIsCompiled) {
  store("nvrtc 13.0", "code");
  for (int field = 0; field < 3; ++field) {
    Source other = source_;
    if (field == 0) other.text = "another source";
    if (field == 1) other.entry = "other";
    if (field == 2) other.options.clear();
    EXPECT_EQ(found(other), "") << field;
  }
  device_.architecture = "sm_80";
  EXPECT_EQ(found(source_), "");
  EXPECT_EQ(otherwise_.asked, 4);
}

TEST_F(StoredCodeTest, OptionsOfAnotherCuletDoNotCount) {
  const std::string fingerprint = "nvrtc 13.0 sm_90a --std=c++11";
  Artifact artifact{ArtifactKind::cubin, "code", source_.entry, "nvrtc 13.0 sm_90a", {}};
  cache_->store_code(code_key(source_, fingerprint), artifact);
  cache_->note_toolchain("sm_90a", fingerprint);
  EXPECT_EQ(found(source_), "");
}

TEST_F(StoredCodeTest, ACompilerLeavesItsName) {
  DeviceSpec host = *DeviceSpec::preset("cpu");
  host.architecture = "x86-64";
  const Source source{SourceLanguage::cpp, "extern \"C\" int f() { return 1; }\n", "f", {}};
  Compiler compiler(cache_);
  const auto compiled = compiler.compile(source, host);
  if (!compiled) GTEST_SKIP() << compiled.error().message;
  ASSERT_EQ(cache_->toolchains("x86-64").size(), 1u);
  StoredCode code(*cache_, otherwise_);
  const auto again = code.compile(source, host);
  ASSERT_TRUE(again) << again.error().message;
  EXPECT_TRUE(again->bytes == compiled->bytes);
  EXPECT_EQ(otherwise_.asked, 0);
}

}  // namespace
}  // namespace culet

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// CUDA sources through NVRTC: straight to machine code for the exact architecture, never to PTX,
// whose compilation by the driver would be a second, unseen one.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "compile/toolchain.h"
#include "device/nvrtc.h"

namespace culet {

namespace {

/// ptxas' -v puts registers, stack frames and spills into the log, where tests look for them.
const std::vector<std::string>& fixed_options() {
  static const std::vector<std::string> options = {"--std=c++20", "--ptxas-options=-v"};
  return options;
}

class NvrtcToolchain final : public Toolchain {
 public:
  NvrtcToolchain(const Nvrtc& nvrtc, std::string architecture)
      : nvrtc_(nvrtc), architecture_(std::move(architecture)) {}

  std::string text() const override {
    return fmt::format("{} {}", nvrtc_.version(), architecture_);
  }
  std::string fingerprint() const override { return fmt::format("{} {}", text(), nvrtc_options()); }
  ArtifactKind kind() const override { return ArtifactKind::cubin; }
  const char* source_suffix() const override { return ".cu"; }
  const char* code_suffix() const override { return ".cubin"; }

  Result<Output> compile(const Source& source) const override {
    std::vector<std::string> options = fixed_options();
    options.insert(options.end(), source.options.begin(), source.options.end());
    auto output = nvrtc_.compile(source.text, source.entry + ".cu", architecture_, options);
    if (!output) return tl::unexpected<Error>(output.error());
    return Output{std::move(output->cubin), std::move(output->log)};
  }

 private:
  const Nvrtc& nvrtc_;
  std::string architecture_;
};

}  // namespace

std::string nvrtc_options() { return fmt::format("{}", fmt::join(fixed_options(), " ")); }

Result<std::unique_ptr<Toolchain>> nvrtc_toolchain(const DeviceSpec& device) {
  auto loaded = nvrtc();
  if (!loaded) return tl::unexpected<Error>(loaded.error());
  if (auto known = (*loaded)->knows(device.architecture); !known) {
    return tl::unexpected<Error>(known.error());
  }
  return std::make_unique<NvrtcToolchain>(**loaded, device.architecture);
}

}  // namespace culet

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// The backend that computes every valid problem on the CPU, slowly and in double: the answer where
// nothing else has one, and never chosen otherwise.
#include "backends/backends.h"
#include "backends/known_keys.h"

namespace culet {

namespace {

class ReferenceBackend final : public Backend {
 public:
  std::string_view name() const override { return "reference"; }
  std::string version() const override { return "1"; }
  DeviceKind device_kind() const override { return DeviceKind::cpu; }
  bool is_fallback() const override { return true; }

  Support supports(const Problem&, const DeviceSpec& device) const override {
    if (device.kind != DeviceKind::cpu) return Support::cannot("runs on the CPU");
    return Support::can();
  }

  std::vector<Config> configs(const Problem&, const DeviceSpec&) const override {
    Config config;
    config.set("sum", "f64");
    return {config};
  }

  std::optional<Features> features(const Problem& problem, const Config&,
                                   const DeviceSpec&) const override {
    Features features;
    features.tensor = false;
    features.math_dtype = DType::f32;
    features.math_ops = problem.flops();
    // 128-bit vectors of doubles without fused multiply-adds, and every operand converted: about
    // 2 GF/s a core where f32 reaches 100 to 200.
    features.math_efficiency = 0.015;
    features.dram_bytes = problem.compulsory_bytes();
    return features;
  }

  Result<BuiltStep> build(const Problem& problem, const Step& step, const DeviceSpec& device,
                          BuildContext&) const override {
    const Config known = configs(problem, device).front();
    if (auto ok = check_keys(name(), step.config, known); !ok) return tl::unexpected(ok.error());
    BuiltStep built;
    built.step = step;
    built.artifact.kind = ArtifactKind::library_call;
    built.artifact.entry = "reference";
    built.artifact.bytes = problem.text();
    built.artifact.toolchain = "culet";
    built.launch.host.threads = device.threads;
    return built;
  }
};

}  // namespace

std::shared_ptr<const Backend> make_reference_backend() {
  return std::make_shared<ReferenceBackend>();
}

}  // namespace culet

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// Finishes on the CPU what a vendor's GEMM has begun: applies any epilogue to the accumulator in
// memory.
#include <algorithm>

#include "backends/backends.h"
#include "backends/known_keys.h"
#include "backends/threads_key.h"

namespace culet {

namespace {

class CpuPointwiseBackend final : public Backend {
 public:
  std::string_view name() const override { return "cpu_pointwise"; }
  std::string version() const override { return "1"; }
  DeviceKind device_kind() const override { return DeviceKind::cpu; }
  bool is_epilogue_step() const override { return true; }

  Support supports(const Problem&, const DeviceSpec&) const override {
    return Support::cannot("computes epilogue steps only");
  }

  std::vector<Config> configs(const Problem&, const DeviceSpec& device) const override {
    Config config;
    config.set("threads", std::max(1, device.threads));
    return {config};
  }

  std::optional<Features> features(const Problem& problem, const Config&,
                                   const DeviceSpec& device) const override {
    const double elements = static_cast<double>(problem.m) * static_cast<double>(problem.n) *
                            static_cast<double>(problem.batch);
    Features features;
    features.tensor = false;
    features.math_dtype = DType::f32;
    // Vectors of 128 bits, one operation a pass over a block in the first-level cache.
    features.math_ops = elements * 2 * static_cast<double>(problem.epilogue.nodes().size());
    features.math_efficiency = 0.05;
    features.dram_bytes = elements * (4 + static_cast<double>(bits(problem.d)) / 8);
    for (const EpilogueOperand& operand : problem.epilogue.operands()) {
      if (operand.index != EpilogueIndex::full) continue;
      features.dram_bytes += elements * static_cast<double>(bits(operand.dtype)) / 8;
    }
    features.tiles = features.slots = device.threads;
    return features;
  }

  Result<BuiltStep> build(const Problem& problem, const Step& step, const DeviceSpec& device,
                          BuildContext&) const override {
    if (step.part != Part::epilogue) {
      return fail(ErrorCode::unsupported, "cpu_pointwise computes epilogue steps only");
    }
    const Config known = configs(problem, device).front();
    if (auto ok = check_keys(name(), step.config, known); !ok) return tl::unexpected(ok.error());
    const auto threads = parse_threads(name(), step.config, device, device.threads);
    if (!threads) return tl::unexpected(threads.error());
    BuiltStep built;
    built.step = step;
    built.artifact.kind = ArtifactKind::library_call;
    built.artifact.entry = "cpu_pointwise";
    built.artifact.bytes = problem.text();
    built.artifact.toolchain = "culet";
    built.launch.host.threads = *threads;
    return built;
  }
};

}  // namespace

std::shared_ptr<const Backend> make_cpu_pointwise_backend() {
  return std::make_shared<CpuPointwiseBackend>();
}

}  // namespace culet

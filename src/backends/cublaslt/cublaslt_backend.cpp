// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// NVIDIA's library as a backend: every algorithm its heuristics offer is a candidate, its first
// choice first. It is the baseline that an own kernel has to beat.
#include <fmt/format.h>

#include "backends/backends.h"
#include "backends/known_keys.h"
#include "device/cuda.h"
#include "launch/cublaslt_matmul.h"

namespace culet {

namespace {

class CublasltBackend final : public Backend {
 public:
  std::string_view name() const override { return "cublaslt"; }
  std::string version() const override {
    const auto library = cublaslt::library();
    return library ? "cublasLt " + (*library)->version : "cublasLt absent";
  }
  DeviceKind device_kind() const override { return DeviceKind::cuda; }
  bool is_vendor() const override { return true; }

  Support supports(const Problem& problem, const DeviceSpec& device) const override;
  std::vector<Config> configs(const Problem& problem, const DeviceSpec& device) const override;
  std::optional<Features> features(const Problem&, const Config&,
                                   const DeviceSpec&) const override {
    return std::nullopt;
  }
  Result<BuiltStep> build(const Problem& problem, const Step& step, const DeviceSpec& device,
                          BuildContext& context) const override;
};

/// The algorithms for a problem, asked for in the device's context.
Result<std::vector<CublasltAlgorithm>> ask(const Problem& problem, const DeviceSpec& device) {
  auto library = cublaslt::library();
  if (!library) return tl::unexpected<Error>(library.error());
  if (!device.present) {
    return fail(ErrorCode::device,
                fmt::format("its heuristics must be asked on a real device, and no {} is here",
                            device.name));
  }
  auto context = cuda::Context::enter(device.ordinal);
  if (!context) return tl::unexpected<Error>(context.error());
  return cublaslt_algorithms(problem, **library);
}

Support CublasltBackend::supports(const Problem& problem, const DeviceSpec& device) const {
  if (problem.is_empty()) return Support::cannot("nothing to compute: a size is 0");
  if (problem.k == 0) return Support::cannot("k=0: cuBLASLt multiplies nothing");
  const auto whole = ask(problem, device);
  if (whole) return Support::can();
  if (problem.epilogue.is_identity()) return Support::cannot(whole.error().message);
  const auto gemm = ask(problem_of(problem, Part::gemm), device);
  if (gemm) return Support::gemm_only();
  return Support::cannot(gemm.error().message);
}

std::vector<Config> CublasltBackend::configs(const Problem& problem,
                                             const DeviceSpec& device) const {
  std::vector<Config> configs;
  const auto algorithms = ask(problem, device);
  if (!algorithms) return configs;
  const cublaslt::Library& library = **cublaslt::library();
  for (const CublasltAlgorithm& algorithm : *algorithms) {
    configs.push_back(cublaslt_config(library, algorithm));
  }
  return configs;
}

Result<BuiltStep> CublasltBackend::build(const Problem&, const Step& step, const DeviceSpec&,
                                         BuildContext&) const {
  auto algorithm = parse_cublaslt_config(step.config);
  if (!algorithm) return tl::unexpected<Error>(algorithm.error());
  if (const auto library = cublaslt::library()) {
    const Config known = cublaslt_config(**library, *algorithm);
    if (auto ok = check_keys(name(), step.config, known); !ok) return tl::unexpected(ok.error());
  }
  BuiltStep built;
  built.step = step;
  built.artifact.kind = ArtifactKind::library_call;
  built.artifact.bytes = step.config.text();
  built.artifact.entry = "cublaslt";
  built.artifact.toolchain = fmt::format("cublasLt {}", step.config.get("lib"));
  built.launch.workspace_bytes = algorithm->workspace_bytes;
  built.launch.workspace_align = 256;
  return built;
}

}  // namespace

std::shared_ptr<const Backend> make_cublaslt_backend() {
  return std::make_shared<CublasltBackend>();
}

}  // namespace culet

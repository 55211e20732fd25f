// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// Our own kernels for the CPU as a backend: one C++ template, compiled for the problem by the
// system's compiler, or taken from a menu of precompiled instances where there is none.
#include <fmt/format.h>

#include "backends/backends.h"
#include "backends/cpu_tile/tile_config.h"
#include "backends/known_keys.h"
#include "compile/compiler.h"
#include "culet/backend.h"

namespace culet {

namespace {

using cpu_tile::Level;
using cpu_tile::TileConfig;

class CpuTileBackend final : public KernelFamily {
 public:
  std::string_view name() const override { return "cpu_tile"; }
  std::string version() const override { return "2"; }
  DeviceKind device_kind() const override { return DeviceKind::cpu; }

  Support supports(const Problem& problem, const DeviceSpec& device) const override;
  std::vector<Config> configs(const Problem& problem, const DeviceSpec& device) const override;
  std::optional<Features> features(const Problem& problem, const Config& config,
                                   const DeviceSpec& device) const override;
  Result<Source> source(const Problem& problem, const Step& step,
                        const DeviceSpec& device) const override;
  Result<LaunchSpec> launch(const Problem& problem, const Step& step,
                            const DeviceSpec& device) const override;
  Result<BuiltStep> build(const Problem& problem, const Step& step, const DeviceSpec& device,
                          BuildContext& context) const override;
};

/// Whether kernels can be compiled for the device. A device that is only described is ranked as if
/// it had a compiler.
bool can_compile(const DeviceSpec& device) {
  return !device.present || Compiler::toolchain(SourceLanguage::cpp, device).has_value();
}

bool reads(DType dtype) {
  return dtype == DType::f32 || dtype == DType::bf16 || dtype == DType::f64 ||
         dtype == DType::s32 || dtype == DType::s8 || dtype == DType::u8;
}

/// The rule that a problem breaks whatever its epilogue; empty if there is none.
std::string refusal(const Problem& p, const DeviceSpec& device) {
  if (cpu_tile::level_of(device) == Level::none) {
    return fmt::format("{}: its kernels need x86-64-v3 (AVX2 and FMA) or better",
                       device.architecture);
  }
  const bool f32 = p.a == DType::f32 && p.b == DType::f32 && p.d == DType::f32;
  const bool bf16 =
      p.a == DType::bf16 && p.b == DType::bf16 && (p.d == DType::bf16 || p.d == DType::f32);
  if (!f32 && !bf16) {
    return fmt::format("{}*{}>{}: it has f32*f32>f32, bf16*bf16>f32 and bf16*bf16>bf16",
                       to_string(p.a), to_string(p.b), to_string(p.d));
  }
  if (p.accumulate != Accumulate::f32 && p.accumulate != Accumulate::fast)
    return fmt::format("acc={}: it sums in f32", to_string(p.accumulate));
  if (p.a_order != Order::row_major) return "A is column-major: it reads A along k";
  return {};
}

/// The step's configuration. A step may be of a choice in a file that somebody else wrote: what its
/// kernel cannot run is refused here, not only left out of the space.
Result<TileConfig> checked(const Problem& problem, const Step& step, const DeviceSpec& device) {
  const std::string prefix = "cpu_tile: ";
  if (step.part == Part::epilogue)
    return fail(ErrorCode::unsupported, prefix + "an epilogue alone is not a GEMM");
  if (const std::string reason = refusal(problem, device); !reason.empty())
    return fail(ErrorCode::unsupported, prefix + reason);
  auto config = TileConfig::parse(step.config, device);
  if (!config) return config;
  if (const std::string reason = cpu_tile::config_error(*config, problem, device); !reason.empty())
    return fail(ErrorCode::invalid_argument, prefix + reason);
  return config;
}

Support CpuTileBackend::supports(const Problem& p, const DeviceSpec& device) const {
  if (std::string reason = refusal(p, device); !reason.empty())
    return Support::cannot(std::move(reason));
  if (p.epilogue.is_identity()) return Support::can();
  for (const EpilogueOperand& operand : p.epilogue.operands()) {
    if (!reads(operand.dtype)) return Support::gemm_only();
  }
  // Precompiled kernels end in D = acc.
  return can_compile(device) ? Support::can() : Support::gemm_only();
}

std::vector<Config> CpuTileBackend::configs(const Problem& problem,
                                            const DeviceSpec& device) const {
  std::vector<Config> out;
  for (const TileConfig& config : cpu_tile::all_configs(problem, device, can_compile(device))) {
    out.push_back(config.config());
  }
  return out;
}

std::optional<Features> CpuTileBackend::features(const Problem& problem, const Config& config,
                                                 const DeviceSpec& device) const {
  auto parsed = TileConfig::parse(config, device);
  if (!parsed) return std::nullopt;
  return cpu_tile::features_of(problem, *parsed, device);
}

Result<Source> CpuTileBackend::source(const Problem& problem, const Step& step,
                                      const DeviceSpec& device) const {
  auto config = checked(problem, step, device);
  if (!config) return tl::unexpected<Error>(config.error());
  return cpu_tile::source_of(problem, *config);
}

Result<LaunchSpec> CpuTileBackend::launch(const Problem& problem, const Step& step,
                                          const DeviceSpec& device) const {
  auto config = checked(problem, step, device);
  if (!config) return tl::unexpected<Error>(config.error());
  LaunchSpec launch = cpu_tile::launch_of(problem, *config);
  if (!config->jit && launch.packed_b_bytes > 0) {
    launch.pack_entry = cpu_tile::menu_name(problem, *config, cpu_tile::level_of(device));
  }
  return launch;
}

Result<BuiltStep> CpuTileBackend::build(const Problem& problem, const Step& step,
                                        const DeviceSpec& device, BuildContext& context) const {
  auto config = checked(problem, step, device);
  if (!config) return tl::unexpected<Error>(config.error());
  if (auto ok = check_keys(name(), step.config, config->config()); !ok)
    return tl::unexpected<Error>(ok.error());
  if (config->jit) return KernelFamily::build(problem, step, device, context);
  auto spec = launch(problem, step, device);
  if (!spec) return tl::unexpected<Error>(spec.error());
  BuiltStep built{step, {}, std::move(*spec)};
  built.artifact.kind = ArtifactKind::host_builtin;
  built.artifact.entry = cpu_tile::menu_name(problem, *config, cpu_tile::level_of(device));
  built.artifact.toolchain = fmt::format("culet {}", device.architecture);
  return built;
}

}  // namespace

std::shared_ptr<const Backend> make_cpu_tile_backend() {
  cpu_tile::register_menu();
  return std::make_shared<CpuTileBackend>();
}

}  // namespace culet

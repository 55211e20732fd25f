// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// oneDNN as the f32 and bf16 vendor baseline on the CPU: plain weights, or weights packed once
// where the problem allows that. It falls back to a reference implementation without saying so,
// tens of times slower; such answers are refused here.
#include "device/onednn.h"

#include <fmt/format.h>

#include <algorithm>

#include "backends/backends.h"
#include "backends/known_keys.h"
#include "launch/library_steps.h"
#include "launch/onednn_matmul.h"

namespace culet {

namespace {

// A primitive is made for each m of a range when a plan is loaded, at 0.1 to 2 ms each.
constexpr std::int64_t kMaxRange = 256;

std::string dtypes_text(const Problem& p) {
  return fmt::format("{}*{}>{}", to_string(p.a), to_string(p.b), to_string(p.d));
}

bool dtypes_known(const Problem& p) {
  if (p.accumulate != Accumulate::f32 || p.a != p.b) return false;
  if (p.a == DType::f32) return p.d == DType::f32;
  return p.a == DType::bf16 && (p.d == DType::f32 || p.d == DType::bf16);
}

int threads_of(const DeviceSpec& device) { return std::max(1, device.threads); }

/// Describes a variant and refuses the library's reference implementations.
Result<std::unique_ptr<OneDnnMatmul>> describe(const OneDnn& library, const Problem& problem,
                                               const OneDnnVariant& variant, int threads) {
  const OmpThreads omp(library, threads);
  auto matmul = OneDnnMatmul::describe(library, problem, variant, problem.m);
  if (!matmul) return matmul;
  const std::string implementation = (*matmul)->implementation();
  if (implementation.find("ref") != std::string::npos) {
    return fail(
        ErrorCode::unsupported,
        fmt::format("the library has only its reference code ({}) for this", implementation));
  }
  return matmul;
}

std::vector<OneDnnVariant> variants(const Problem& problem) {
  std::vector<OneDnnVariant> all;
  for (const bool packed : {true, false}) {
    if (packed && !problem.pack_b) continue;
    for (const bool loop : {false, true}) {
      if (loop && problem.batch <= 1) continue;
      all.push_back({packed, loop});
    }
  }
  return all;
}

class OneDnnBackend final : public Backend {
 public:
  std::string_view name() const override { return "onednn"; }
  std::string version() const override { return onednn() ? onednn()->version : "missing"; }
  DeviceKind device_kind() const override { return DeviceKind::cpu; }
  bool is_vendor() const override { return true; }

  Support supports(const Problem& whole, const DeviceSpec& device) const override {
    if (device.kind != DeviceKind::cpu) return Support::cannot("used on the CPU");
    if (!onednn()) return Support::cannot(onednn().error().message);
    const OneDnn& library = *onednn();
    if (auto settable = onednn_threads_settable(library, threads_of(device)); !settable) {
      return Support::cannot(settable.error().message);
    }
    const bool fuses = onednn_fuses(whole);
    const Problem p = fuses ? whole : problem_of(whole, Part::gemm);
    if (!dtypes_known(p)) {
      return Support::cannot(
          fmt::format("{}: only f32*f32>f32 and bf16*bf16>f32 or bf16", dtypes_text(p)));
    }
    if (p.is_empty()) return Support::cannot("an empty problem");
    if (p.k == 0) return Support::cannot("k=0: it would leave D as it was");
    if (p.m_range.high - p.m_range.low >= kMaxRange) {
      return Support::cannot(fmt::format("m={}..{}: more than {} sizes, each of which needs code",
                                         p.m_range.low, p.m_range.high, kMaxRange));
    }
    std::string reason;
    for (const OneDnnVariant& variant : variants(p)) {
      auto matmul = describe(library, p, variant, threads_of(device));
      if (matmul) return fuses ? Support::can() : Support::gemm_only();
      reason = matmul.error().message;
    }
    return Support::cannot(reason);
  }

  std::vector<Config> configs(const Problem& problem, const DeviceSpec& device) const override {
    std::vector<Config> configs;
    if (!onednn()) return configs;
    for (const OneDnnVariant& variant : variants(problem)) {
      if (describe(*onednn(), problem, variant, threads_of(device))) {
        configs.push_back(variant.config(problem));
      }
    }
    return configs;
  }

  std::optional<Features> features(const Problem&, const Config&,
                                   const DeviceSpec&) const override {
    return std::nullopt;
  }

  Result<BuiltStep> build(const Problem& problem, const Step& step, const DeviceSpec& device,
                          BuildContext&) const override {
    if (!onednn()) return tl::unexpected(onednn().error());
    const auto variant = OneDnnVariant::parse(step.config);
    if (!variant) return tl::unexpected(variant.error());
    if (auto ok = check_keys(name(), step.config, variant->config(problem)); !ok)
      return tl::unexpected(ok.error());
    auto matmul = describe(*onednn(), problem, *variant, threads_of(device));
    if (!matmul) return fail(ErrorCode::build_failed, matmul.error().message);
    BuiltStep built;
    built.step = step;
    built.artifact.kind = ArtifactKind::library_call;
    built.artifact.entry = "onednn";
    built.artifact.bytes = library_attributes(onednn()->version);
    built.artifact.toolchain =
        fmt::format("oneDNN {} {}", onednn()->version, (*matmul)->implementation());
    built.launch.host.threads = threads_of(device);
    if (variant->packed) {
      const bool own_b = variant->loop && problem.batch > 1 && problem.stride_b != 0;
      built.launch.packed_b_bytes =
          static_cast<std::int64_t>((*matmul)->weights_bytes()) * (own_b ? problem.batch : 1);
      built.launch.pack_entry = "reorder";
    }
    return built;
  }
};

}  // namespace

std::shared_ptr<const Backend> make_onednn_backend() { return std::make_shared<OneDnnBackend>(); }

}  // namespace culet

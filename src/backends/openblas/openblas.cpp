// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// OpenBLAS as the f32 vendor baseline on the CPU. It fuses nothing.
#include "device/openblas.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "backends/backends.h"
#include "backends/known_keys.h"
#include "backends/threads_key.h"
#include "launch/library_steps.h"

namespace culet {

namespace {

// Problems that take less than about a millisecond on one core: there one thread is often the
// faster choice, and the library does not find that by itself (it threads a gemv from 96x96 on).
constexpr double kSmallOperations = 1e8;

bool is_f32(const Problem& p) {
  return p.a == DType::f32 && p.b == DType::f32 && p.d == DType::f32 &&
         p.accumulate == Accumulate::f32;
}

class OpenBlasBackend final : public Backend {
 public:
  std::string_view name() const override { return "openblas"; }
  std::string version() const override { return openblas() ? openblas()->version : "missing"; }
  DeviceKind device_kind() const override { return DeviceKind::cpu; }
  bool is_vendor() const override { return true; }

  Support supports(const Problem& whole, const DeviceSpec& device) const override {
    if (device.kind != DeviceKind::cpu) return Support::cannot("runs on the CPU");
    if (!openblas()) return Support::cannot(openblas().error().message);
    const bool identity = whole.epilogue.is_identity();
    const Problem p = identity ? whole : problem_of(whole, Part::gemm);
    if (!is_f32(p)) {
      return Support::cannot(fmt::format("{}*{}>{}: only f32*f32>f32", to_string(p.a),
                                         to_string(p.b), to_string(p.d)));
    }
    constexpr std::int64_t kMax = std::numeric_limits<int>::max();
    const std::pair<const char*, std::int64_t> sizes[] = {
        {"m", p.m_range.high}, {"n", p.n},     {"k", p.k},
        {"lda", p.lda},        {"ldb", p.ldb}, {"ldd", p.ldd}};
    for (const auto& [what, value] : sizes) {
      if (value > kMax) {
        return Support::cannot(fmt::format("{}={}: its integers end at {}", what, value, kMax));
      }
    }
    return identity ? Support::can() : Support::gemm_only();
  }

  std::vector<Config> configs(const Problem& problem, const DeviceSpec& device) const override {
    const bool always_one =
        problem.n == 1 || (problem.m_range.low == 1 && problem.m_range.high == 1);
    const bool sometimes_one = problem.m_range.low <= 1 && !always_one;
    std::vector<int> threads = {std::max(1, device.threads)};
    if (device.threads > 1 && problem.flops() < kSmallOperations) threads.push_back(1);
    std::vector<Config> configs;
    for (const int count : threads) {
      const auto add = [&](std::string_view call) {
        Config config;
        config.set("call", call).set("threads", count);
        configs.push_back(config);
      };
      if (always_one) add("gemv");
      if (sometimes_one) add("auto");
      add("gemm");
    }
    return configs;
  }

  std::optional<Features> features(const Problem&, const Config&,
                                   const DeviceSpec&) const override {
    return std::nullopt;
  }

  Result<BuiltStep> build(const Problem&, const Step& step, const DeviceSpec& device,
                          BuildContext&) const override {
    if (!openblas()) return tl::unexpected(openblas().error());
    const Config keys = Config().set("call", "").set("threads", "");
    if (auto ok = check_keys(name(), step.config, keys); !ok) return tl::unexpected(ok.error());
    const auto threads = parse_threads(name(), step.config, device, device.threads);
    if (!threads) return tl::unexpected(threads.error());
    BuiltStep built;
    built.step = step;
    built.artifact.kind = ArtifactKind::library_call;
    built.artifact.entry = "openblas";
    built.artifact.bytes = library_attributes(openblas()->version);
    built.artifact.toolchain = fmt::format("OpenBLAS {}", openblas()->version);
    built.launch.host.threads = *threads;
    return built;
  }
};

}  // namespace

std::shared_ptr<const Backend> make_openblas_backend() {
  return std::make_shared<OpenBlasBackend>();
}

}  // namespace culet

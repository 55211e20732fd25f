// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// A kernel family whose kernels do nothing, for either kind of device, and a plan of it: running
// that plan is the launch path alone.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <utility>

#include "culet/culet.h"

namespace bench {

template <typename T>
T must(culet::Result<T> result) {
  if (!result) {
    std::fprintf(stderr, "%s\n%s\n", result.error().message.c_str(), result.error().detail.c_str());
    std::exit(culet::exit_status(result.error().code));
  }
  if constexpr (!std::is_void_v<T>) return std::move(*result);
}

/// `maps` tensor maps among the kernel's arguments: TMA kernels have two or three, which are
/// encoded anew for new pointers.
class NullFamily : public culet::KernelFamily {
 public:
  NullFamily(culet::DeviceKind kind, int maps) : kind_(kind), maps_(maps) {}
  std::string_view name() const override { return "null"; }
  std::string version() const override { return "1"; }
  culet::DeviceKind device_kind() const override { return kind_; }
  culet::Support supports(const culet::Problem&, const culet::DeviceSpec&) const override {
    return culet::Support::can();
  }
  std::vector<culet::Config> configs(const culet::Problem&,
                                     const culet::DeviceSpec&) const override {
    return {culet::Config().set("maps", maps_)};
  }
  std::optional<culet::Features> features(const culet::Problem&, const culet::Config&,
                                          const culet::DeviceSpec&) const override {
    return culet::Features{};
  }
  culet::Result<culet::Source> source(const culet::Problem&, const culet::Step&,
                                      const culet::DeviceSpec&) const override {
    culet::Source source;
    source.entry = "null_kernel";
    if (kind_ == culet::DeviceKind::cpu) {
      source.language = culet::SourceLanguage::cpp;
      source.text = "extern \"C\" void null_kernel(const void*) {}\n";
    } else {
      source.language = culet::SourceLanguage::cuda;
      source.text =
          "struct alignas(64) Map { char bytes[128]; };\n"
          "extern \"C\" __global__ void null_kernel(const void*, const void*, void*, "
          "long long, long long, long long";
      for (int i = 0; i < maps_; ++i)
        source.text += ", const __grid_constant__ Map m" + std::to_string(i);
      source.text += ") {}\n";
    }
    return source;
  }
  culet::Result<culet::LaunchSpec> launch(const culet::Problem& problem, const culet::Step&,
                                          const culet::DeviceSpec&) const override {
    using culet::LaunchArg;
    using culet::MValue;
    using culet::Operand;
    culet::LaunchSpec launch;
    launch.block[0] = 128;
    launch.args = {LaunchArg::pointer(Operand::a), LaunchArg::pointer(Operand::b),
                   LaunchArg::pointer(Operand::d), LaunchArg::i64(MValue::times_m(1)),
                   LaunchArg::i64(problem.n),      LaunchArg::i64(problem.k)};
    for (int i = 0; i < maps_; ++i) {
      culet::TensorMapSpec map;
      map.operand = i == 0 ? Operand::a : i == 1 ? Operand::b : Operand::d;
      map.dims[0] = i == 2 ? problem.n : problem.k;
      map.dims[1] = i == 1 ? MValue(problem.n) : MValue::times_m(1);
      map.strides_bytes[1] = 2 * (i == 0 ? problem.lda : i == 1 ? problem.ldb : problem.ldd);
      map.box[0] = 64;
      map.box[1] = 64;
      launch.args.push_back(LaunchArg::tensor_map(map));
    }
    return launch;
  }
  /// Keeps the code for those who launch it without culet.
  culet::Result<culet::BuiltStep> build(const culet::Problem& problem, const culet::Step& step,
                                        const culet::DeviceSpec& device,
                                        culet::BuildContext& context) const override {
    culet::Result<culet::BuiltStep> built = KernelFamily::build(problem, step, device, context);
    if (built) code_ = built->artifact.bytes;
    return built;
  }
  const std::string& code() const { return code_; }

 private:
  culet::DeviceKind kind_;
  int maps_ = 0;
  mutable std::string code_;
};

inline culet::Plan null_plan(const culet::DeviceSpec& device, const culet::Problem& problem,
                             const std::shared_ptr<const NullFamily>& family) {
  culet::Registry registry;
  must(registry.add(family));
  static const std::shared_ptr<culet::Cache> cache = must(culet::open_cache("none"));
  culet::Tuner tuner(registry, device, {}, cache);
  culet::Candidate candidate;
  candidate.steps.push_back({"null", family->configs(problem, device).front(), culet::Part::all});
  return must(tuner.plan(problem, candidate));
}

}  // namespace bench

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// What every CUDA GEMM family over a typed configuration does alike: refuse by one reason, list its
// space, and check problem and configuration before it writes source or a launch.
#pragma once

#include <charconv>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "backends/known_keys.h"
#include "culet/backend.h"

namespace culet {

/// 90 of "sm_90a"; 0 where the text is something else.
inline int architecture_number(std::string_view text) {
  if (!text.starts_with("sm_")) return 0;
  int number = 0;
  std::from_chars(text.data() + 3, text.data() + text.size(), number);
  return number;
}

/// `Typed` has `Config config() const` and `static Result<Typed> parse(const Config&)`.
template <class Typed>
class GemmFamily : public KernelFamily {
 public:
  DeviceKind device_kind() const final { return DeviceKind::cuda; }

  Support supports(const Problem& problem, const DeviceSpec& device) const final {
    std::string reason = why_not(problem, device);
    return reason.empty() ? Support::can() : Support::cannot(std::move(reason));
  }

  std::vector<Config> configs(const Problem& problem, const DeviceSpec& device) const final {
    std::vector<Config> configs;
    for (const Typed& c : all(problem, device)) configs.push_back(c.config());
    return configs;
  }

  std::optional<Features> features(const Problem& problem, const Config& config,
                                   const DeviceSpec& device) const final {
    const auto c = Typed::parse(config);
    if (!c) return std::nullopt;
    return features_of_valid(*c, problem, device);
  }

  Result<Source> source(const Problem& whole, const Step& step,
                        const DeviceSpec& device) const final {
    const Problem problem = problem_of(whole, step.part);
    const auto c = checked(problem, step, device);
    if (!c) return tl::unexpected(c.error());
    return source_of_valid(*c, problem, device);
  }

  Result<LaunchSpec> launch(const Problem& whole, const Step& step,
                            const DeviceSpec& device) const final {
    const Problem problem = problem_of(whole, step.part);
    const auto c = checked(problem, step, device);
    if (!c) return tl::unexpected(c.error());
    return launch_of_valid(*c, problem, device);
  }

 private:
  /// The rule that the problem breaks, empty if there is none: what discovery and launch share.
  virtual std::string why_not(const Problem& problem, const DeviceSpec& device) const = 0;
  /// The rule that a configuration breaks for a problem that is supported.
  virtual std::string why_not(const Typed& c, const Problem& problem,
                              const DeviceSpec& device) const = 0;
  virtual std::vector<Typed> all(const Problem& problem, const DeviceSpec& device) const = 0;
  virtual std::optional<Features> features_of_valid(const Typed& c, const Problem& problem,
                                                    const DeviceSpec& device) const = 0;
  virtual Source source_of_valid(const Typed& c, const Problem& problem,
                                 const DeviceSpec& device) const = 0;
  virtual LaunchSpec launch_of_valid(const Typed& c, const Problem& problem,
                                     const DeviceSpec& device) const = 0;

  Result<Typed> checked(const Problem& problem, const Step& step, const DeviceSpec& device) const {
    const std::string prefix = std::string(name()) + ": ";
    if (step.part == Part::epilogue)
      return fail(ErrorCode::unsupported, prefix + "an epilogue alone is not a GEMM");
    if (const std::string reason = why_not(problem, device); !reason.empty())
      return fail(ErrorCode::unsupported, prefix + reason);
    auto c = Typed::parse(step.config);
    if (!c) return c;
    if (auto ok = check_keys(name(), step.config, c->config()); !ok)
      return tl::unexpected(ok.error());
    if (const std::string reason = why_not(*c, problem, device); !reason.empty())
      return fail(ErrorCode::invalid_argument, prefix + reason);
    return c;
  }
};

}  // namespace culet

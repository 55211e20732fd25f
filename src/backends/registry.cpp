// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// The list of built-in backends, and discovery: from a problem to every candidate the registered
// backends offer.
#include "culet/registry.h"

#include <fmt/format.h>

#include <algorithm>
#include <exception>

#include "backends/backends.h"

namespace culet {

Registry Registry::standard() {
  Registry registry;
  for (const auto& backend : {
           make_cublaslt_backend(),
           make_sm90_dense_backend(),
           make_sm90_stream_backend(),
           make_gemv_backend(),
           make_mma_backend(),
           make_simt_backend(),
           make_pointwise_backend(),
           make_openblas_backend(),
           make_onednn_backend(),
           make_cpu_tile_backend(),
           make_cpu_pointwise_backend(),
           make_reference_backend(),
       }) {
    (void)registry.add(backend);  // built-in names are distinct
  }
  return registry;
}

Result<void> Registry::add(std::shared_ptr<const Backend> backend) {
  if (!backend) return fail(ErrorCode::invalid_argument, "backend: null");
  if (find(backend->name()) != nullptr) {
    return fail(
        ErrorCode::invalid_argument,
        fmt::format("backend '{}' is registered already; names must be unique", backend->name()));
  }
  backends_.push_back(std::move(backend));
  return {};
}

const Backend* Registry::find(std::string_view name) const {
  for (const auto& backend : backends_) {
    if (backend->name() == name) return backend.get();
  }
  return nullptr;
}

bool BackendFilter::allows(const Backend& backend) const {
  const auto listed = [&](const std::vector<std::string>& names) {
    return std::any_of(names.begin(), names.end(), [&](const std::string& name) {
      return name == backend.name() || (name == "vendor" && backend.is_vendor());
    });
  };
  return (allow.empty() || listed(allow)) && !listed(deny);
}

Result<BackendFilter> BackendFilter::parse(std::string_view text, const Registry& registry) {
  BackendFilter filter;
  std::size_t begin = 0;
  while (begin <= text.size()) {
    const std::size_t comma = std::min(text.find(',', begin), text.size());
    std::string_view name = text.substr(begin, comma - begin);
    begin = comma + 1;
    if (name.empty()) continue;
    const bool denied = name.front() == '-';
    if (denied) name.remove_prefix(1);
    if (name != "vendor" && registry.find(name) == nullptr) {
      std::string known = "vendor";
      for (const auto& backend : registry.backends()) known += fmt::format(", {}", backend->name());
      return fail(ErrorCode::invalid_argument,
                  fmt::format("unknown backend '{}'; known are {} (a leading - leaves one out)",
                              name, known));
    }
    (denied ? filter.deny : filter.allow).emplace_back(name);
  }
  return filter;
}

namespace {

/// A user's backend may throw: that is a no with a reason.
Support answer_of(const Backend& backend, const Problem& problem, const DeviceSpec& device) {
  try {
    return backend.supports(problem, device);
  } catch (const std::exception& exception) {
    return Support::cannot(fmt::format("supports() threw: {}", exception.what()));
  }
}

}  // namespace

std::vector<Answer> Registry::ask(const Problem& problem, const DeviceSpec& device,
                                  const BackendFilter& filter) const {
  std::vector<Answer> answers;
  for (const auto& backend : backends_) {
    if (backend->device_kind() != device.kind || backend->is_epilogue_step()) continue;
    Answer answer{backend.get(), {}};
    answer.support = filter.allows(*backend) ? answer_of(*backend, problem, device)
                                             : Support::cannot("left out by the backend filter");
    answers.push_back(std::move(answer));
  }
  return answers;
}

namespace {

/// The step that applies the epilogue to another step's accumulator, and its share of the time.
struct EpilogueStep {
  Step step;
  double seconds = 0;
};

std::optional<EpilogueStep> epilogue_step(const Registry& registry, const Problem& problem,
                                          const DeviceSpec& device) {
  for (const auto& backend : registry.backends()) {
    if (backend->device_kind() != device.kind || !backend->is_epilogue_step()) continue;
    const std::vector<Config> configs = backend->configs(problem, device);
    if (configs.empty()) continue;
    EpilogueStep result{{std::string(backend->name()), configs.front(), Part::epilogue}, 0};
    if (const auto features = backend->features(problem, configs.front(), device)) {
      result.seconds = estimate(*features, device).seconds;
    }
    return result;
  }
  return std::nullopt;
}

void add_candidates(const Registry& registry, const Answer& answer, const Problem& problem,
                    const DeviceSpec& device, std::vector<RankedCandidate>* out) {
  const Backend& backend = *answer.backend;
  const bool whole = answer.support.fuses_epilogue || problem.epilogue.is_identity();
  const Problem part = whole ? problem : problem_of(problem, Part::gemm);
  std::optional<EpilogueStep> second;
  if (!whole) {
    second = epilogue_step(registry, problem, device);
    if (!second || !backend.supports(part, device).yes) return;
  }
  for (const Config& config : backend.configs(part, device)) {
    RankedCandidate item;
    item.candidate.steps.push_back(
        {std::string(backend.name()), config, whole ? Part::all : Part::gemm});
    item.vendor = backend.is_vendor();
    item.fallback = backend.is_fallback();
    if (const auto features = backend.features(part, config, device)) {
      item.estimate = estimate(*features, device);
      if (second) item.estimate->seconds += second->seconds;
    }
    if (second) item.candidate.steps.push_back(second->step);
    out->push_back(std::move(item));
  }
}

}  // namespace

std::vector<RankedCandidate> Registry::discover(const Problem& problem, const DeviceSpec& device,
                                                const BackendFilter& filter) const {
  std::vector<RankedCandidate> candidates;
  for (const Answer& answer : ask(problem, device, filter)) {
    if (answer.support.yes) add_candidates(*this, answer, problem, device, &candidates);
  }
  const auto group = [](const RankedCandidate& c) { return c.fallback ? 2 : c.vendor ? 0 : 1; };
  std::stable_sort(candidates.begin(), candidates.end(), [&](const auto& x, const auto& y) {
    if (group(x) != group(y)) return group(x) < group(y);
    if (group(x) == 0) return false;
    return (x.estimate ? x.estimate->seconds : 1e30) < (y.estimate ? y.estimate->seconds : 1e30);
  });
  return candidates;
}

}  // namespace culet

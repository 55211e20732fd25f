// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// What a user decides beside what was measured: pin, deny, and forgetting a problem.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "console.h"
#include "culet/overrides.h"
#include "culet/settings.h"
#include "session.h"
#include "verbs.h"

namespace culet::cli {
namespace {

int usage(const std::string& message) {
  return report_error({ErrorCode::invalid_argument, message, {}});
}

/// The backend of a step, or an error that names those there are.
Result<const Backend*> backend_of(const Registry& registry, const std::string& name) {
  if (const Backend* backend = registry.find(name)) return backend;
  std::string known;
  for (const auto& backend : registry.backends()) {
    known += fmt::format("{}{}", known.empty() ? "" : ", ", backend->name());
  }
  return fail(ErrorCode::invalid_argument,
              fmt::format("unknown backend '{}'; known are {}", shown(name), known));
}

/// A misspelled candidate would be pinned and never used. Without the device there is no telling.
Result<void> check_space(const Registry& registry, const Problem& problem, const DeviceSpec& device,
                         const Candidate& candidate) {
  std::vector<Candidate> space;
  for (RankedCandidate& item : registry.discover(problem, device))
    space.push_back(std::move(item.candidate));
  if (std::find(space.begin(), space.end(), candidate) != space.end()) return {};
  return fail(ErrorCode::invalid_argument,
              fmt::format("candidate '{}' is not in the space of {} on {} with {} threads: {}; "
                          "`culet rank {} --top all` lists it, --device names another",
                          candidate.text(), problem.text(), device.name, device.threads,
                          why_not_in(space, candidate), shell_quoted(problem.text())));
}

Result<Pin> checked_pin(const Arguments& arguments, const Problem& problem) {
  auto candidate = Candidate::parse(arguments.candidate);
  if (!candidate) return tl::unexpected(candidate.error());
  const Registry registry = Registry::standard();
  DeviceKind kind = DeviceKind::cpu;
  for (const Step& step : candidate->steps) {
    const auto backend = backend_of(registry, step.backend);
    if (!backend) return tl::unexpected(backend.error());
    kind = (*backend)->device_kind();
  }
  const bool named = arguments.device != "auto";
  const auto device = open_device(named ? arguments.device : std::string(to_string(kind)));
  if (!device && named) return tl::unexpected(device.error());
  if (device) {
    if (auto ok = check_space(registry, problem, *device, *candidate); !ok)
      return tl::unexpected(ok.error());
  }
  return Pin{problem.text(), kind, std::move(*candidate)};
}

int list_pins(const Overrides& overrides) {
  std::vector<std::vector<std::string>> rows{{"problem", "device", "candidate"}};
  for (const Pin& pin : overrides.pins()) {
    rows.push_back({pin.problem, std::string(to_string(pin.device)), pin.candidate.text()});
  }
  return print(rows.size() == 1 ? "Nothing is pinned.\n" : columns(rows));
}

int list_denials(const Overrides& overrides) {
  std::string out;
  for (const std::string& denied : overrides.denials()) out += denied + "\n";
  return print(out.empty() ? "Nothing is denied.\n" : out);
}

}  // namespace

int run_pin(const Arguments& arguments) {
  if (arguments.problems.empty()) {
    if (arguments.remove) return usage("--remove: which problem's pin?");
    const auto overrides = load_overrides(arguments.cache);
    return overrides ? list_pins(*overrides) : report_error(overrides.error());
  }
  const auto problems = read_problems(arguments);
  if (!problems) return report_error(problems.error());
  const Problem& problem = problems->front();
  if (arguments.remove) {
    if (!arguments.candidate.empty()) return usage("--remove: takes a problem only");
    const auto done = change_overrides(arguments.cache, [&](Overrides& overrides) -> Result<void> {
      if (overrides.unpin(problem)) return {};
      return fail(ErrorCode::io, "nothing is pinned to " + problem.text());
    });
    return done ? 0 : report_error(done.error());
  }
  if (arguments.candidate.empty()) return usage("which candidate? (see culet pin --help)");
  const auto pin = checked_pin(arguments, problem);
  if (!pin) return report_error(pin.error());
  const auto done = change_overrides(arguments.cache, [&](Overrides& overrides) -> Result<void> {
    if (const auto by = overrides.denied(pin->candidate); !by.empty()) {
      return fail(ErrorCode::invalid_argument,
                  fmt::format("the candidate is denied: culet deny {} --remove allows it",
                              shell_quoted(by)));
    }
    overrides.pin(problem, pin->device, pin->candidate);
    return {};
  });
  return done ? 0 : report_error(done.error());
}

int run_deny(const Arguments& arguments) {
  const std::string& what = arguments.denied;
  if (what.empty()) {
    if (arguments.remove) return usage("--remove: which backend or candidate?");
    const auto overrides = load_overrides(arguments.cache);
    return overrides ? list_denials(*overrides) : report_error(overrides.error());
  }
  if (!arguments.remove) {
    const Registry registry = Registry::standard();
    const auto known = backend_of(registry, what.substr(0, what.find('{')));
    if (!known) return report_error(known.error());
  }
  const auto done = change_overrides(arguments.cache, [&](Overrides& overrides) -> Result<void> {
    if (!arguments.remove) return overrides.deny(what);
    if (overrides.allow(what)) return {};
    return fail(ErrorCode::io, fmt::format("'{}' is not denied", shown(what)));
  });
  return done ? 0 : report_error(done.error());
}

int run_forget(const Arguments& arguments) {
  const auto problems = read_problems(arguments);
  if (!problems) return report_error(problems.error());
  const std::string file = store_file(arguments.cache);
  std::error_code ignored;
  if (file.empty() || !std::filesystem::exists(file, ignored)) {
    return report_error({ErrorCode::io, "no store at " + (file.empty() ? "none" : file), {}});
  }
  const auto cache = open_cache(std::filesystem::path(file).parent_path().string());
  if (!cache) return report_error(cache.error());
  const auto overrides = load_overrides(arguments.cache);
  std::string out;
  for (const Problem& problem : *problems) {
    const auto count = (*cache)->forget(problem.text());
    if (!count) return report_error(count.error());
    bool pinned = false;
    for (const DeviceKind kind : {DeviceKind::cpu, DeviceKind::cuda}) {
      pinned = pinned || (overrides && overrides->pinned(problem, kind) != nullptr);
    }
    out += fmt::format("Forgot {} trials and selections of {}{}\n", *count, problem.text(),
                       pinned ? "; its pin stays" : "");
  }
  warn_from(**cache);
  return print(out);
}

}  // namespace culet::cli

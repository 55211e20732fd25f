// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// The verbs that only look: list, doctor and env.
#include <fmt/format.h>

#include "console.h"
#include "culet/doctor.h"
#include "culet/overrides.h"
#include "culet/settings.h"
#include "culet/version.h"
#include "session.h"
#include "verbs.h"

namespace culet::cli {
namespace {

using Rows = std::vector<std::vector<std::string>>;

std::string_view role(const Backend& backend) {
  if (backend.is_vendor()) return "vendor";
  if (backend.is_fallback()) return "fallback";
  return backend.is_epilogue_step() ? "epilogue step" : "own";
}

/// What the user decided, for whom no table has a place.
std::string denial_lines(const Overrides& overrides) {
  std::string lines;
  for (const std::string& denied : overrides.denials())
    lines += fmt::format("Denied by the user: {} (culet deny {} --remove allows it)\n", denied,
                         shell_quoted(denied));
  return lines.empty() ? lines : "\n" + lines;
}

/// The row's last fields: how many candidates a backend has, and why not more.
void fill_in(const Overrides& overrides, const std::vector<RankedCandidate>& found, bool why,
             std::string reason, std::vector<std::string>* row) {
  std::string_view by;
  std::size_t denied = 0;
  for (const RankedCandidate& item : found) {
    const std::string_view text = overrides.denied(item.candidate);
    denied += text.empty() ? 0 : 1;
    if (!text.empty()) by = text;
  }
  if (denied > 0 && denied == found.size()) (*row)[2] = "denied";
  row->back() = std::to_string(found.size() - denied);
  if (denied > 0 && reason.empty()) {
    reason = denied == found.size() ? fmt::format("denied by the user: {}", by)
                                    : fmt::format("{} more are denied by the user", denied);
  }
  if (why) row->push_back(std::move(reason));
}

int list_backends(const Registry& registry, const Overrides& overrides) {
  Rows rows{{"backend", "device", "role", "version"}};
  for (const auto& backend : registry.backends()) {
    rows.push_back({std::string(backend->name()), std::string(to_string(backend->device_kind())),
                    std::string(role(*backend)), backend->version()});
  }
  return print(columns(rows) + denial_lines(overrides));
}

int list_answers(const Registry& registry, const Problem& problem, const DeviceSpec& device,
                 const Overrides& overrides, bool why) {
  Rows rows{{"backend", "role", "answer", "candidates"}};
  if (why) rows.front().emplace_back("why");
  for (const Answer& answer : registry.ask(problem, device)) {
    std::vector<std::string> row{std::string(answer.backend->name()),
                                 std::string(role(*answer.backend)),
                                 !answer.support.yes             ? "no"
                                 : answer.support.fuses_epilogue ? "yes"
                                                                 : "yes, without the epilogue",
                                 "-"};
    if (answer.support.yes) {
      BackendFilter only;
      only.allow = {std::string(answer.backend->name())};
      fill_in(overrides, registry.discover(problem, device, only), why, answer.support.reason,
              &row);
    } else if (why) {
      row.push_back(answer.support.reason);
    }
    rows.push_back(std::move(row));
  }
  const Candidate* const pin = overrides.pinned(problem, device.kind);
  return print(fmt::format(
      "{} on {} ({})\n\n{}{}{}", problem.text(), device.name, device.architecture, columns(rows),
      denial_lines(overrides),
      pin == nullptr ? std::string() : fmt::format("\nPinned by the user: {}\n", pin->text())));
}

std::string settings_rows() {
  Rows rows;
  for (const Setting& setting : settings()) {
    rows.push_back({"  " + std::string(setting.name),
                    setting.value ? *setting.value : fmt::format("({})", setting.standard)});
  }
  return columns(rows);
}

}  // namespace

int run_list(const Arguments& arguments) {
  const Registry registry = Registry::standard();
  const auto overrides = load_overrides(arguments.cache);
  if (!overrides) return report_error(overrides.error());
  if (arguments.problems.empty()) return list_backends(registry, *overrides);
  const auto problems = read_problems(arguments);
  if (!problems) return report_error(problems.error());
  const auto device = open_device(arguments.device);
  if (!device) return report_error(device.error());
  return list_answers(registry, problems->front(), *device, *overrides, arguments.why);
}

int run_doctor(const Arguments& arguments) {
  std::string out = "culet " CULET_VERSION "\n";
  std::string_view group;
  Rows rows;
  std::string notes;
  for (const Finding& finding : diagnose(arguments.cache)) {
    const bool first = finding.group != group;
    group = finding.group;
    rows.push_back({first ? std::string(group) : std::string(), finding.name,
                    std::string(to_string(finding.state)), finding.text});
    if (!finding.advice.empty()) notes += fmt::format("  {}: {}\n", finding.name, finding.advice);
  }
  out += "\n" + columns(rows);
  if (!notes.empty()) out += "\nWhat is missing, and how to get it:\n" + notes;
  out += "\nEnvironment (in brackets: not set, what holds then):\n" + settings_rows();
  return print(out);
}

int run_env(const Arguments& arguments) {
  return print(arguments.markdown ? settings_markdown() : settings_rows());
}

}  // namespace culet::cli

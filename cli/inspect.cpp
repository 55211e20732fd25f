// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// The verbs that only look: list, doctor and env.
#include <fmt/format.h>

#include "console.h"
#include "culet/doctor.h"
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

int list_backends(const Registry& registry) {
  Rows rows{{"backend", "device", "role", "version"}};
  for (const auto& backend : registry.backends()) {
    rows.push_back({std::string(backend->name()), std::string(to_string(backend->device_kind())),
                    std::string(role(*backend)), backend->version()});
  }
  return print(columns(rows));
}

int list_answers(const Registry& registry, const Problem& problem, const DeviceSpec& device,
                 bool why) {
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
      row.back() = std::to_string(registry.discover(problem, device, only).size());
    }
    if (why) row.push_back(answer.support.reason);
    rows.push_back(std::move(row));
  }
  return print(fmt::format("{} on {} ({})\n\n{}", problem.text(), device.name, device.architecture,
                           columns(rows)));
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
  if (arguments.problems.empty()) return list_backends(registry);
  const auto problems = read_problems(arguments);
  if (!problems) return report_error(problems.error());
  const auto device = open_device(arguments.device);
  if (!device) return report_error(device.error());
  return list_answers(registry, problems->front(), *device, arguments.why);
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

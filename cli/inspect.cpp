// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// The verbs that only look: list, cache, doctor and env.
#include <fmt/format.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>

#include "console.h"
#include "culet/doctor.h"
#include "culet/settings.h"
#include "culet/version.h"
#include "session.h"
#include "verbs.h"

namespace culet::cli {
namespace {

using Rows = std::vector<std::vector<std::string>>;

int print(const std::string& text) {
  const auto delivered = deliver(text, {});
  return delivered ? 0 : report_error(delivered.error());
}

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

int cache_ls(Cache& cache) {
  Rows rows{{"when", "problem", "device", "choice"}};
  for (const Cache::Entry& entry : cache.entries()) {
    rows.push_back({entry.when, entry.problem, entry.device, entry.candidate});
  }
  if (rows.size() == 1) return print("No selections are stored.\n");
  return print(columns(rows));
}

int cache_show(Cache& cache, const Problem& problem) {
  const std::string text = problem.text();
  std::string out = text + "\n";
  for (const Cache::Entry& entry : cache.entries()) {
    if (entry.problem != text) continue;
    out += fmt::format("\n{}  {}\n  chosen {}\n  why    {}\n  from   {}\n", entry.when,
                       entry.device, entry.candidate, entry.why, entry.scope);
  }
  Rows rows{{"median us", "low us", "high us", "outcome", "candidate"}};
  for (const Trial& trial : cache.trials_of(text)) {
    const auto figure = [&](double Timing::*field) {
      return trial.timing ? fmt::format("{:.3f}", *trial.timing.*field * 1e6) : std::string("-");
    };
    rows.push_back({figure(&Timing::median), figure(&Timing::low), figure(&Timing::high),
                    std::string(to_string(trial.outcome)), trial.candidate.text()});
  }
  if (rows.size() == 1) {
    return report_error({ErrorCode::io, fmt::format("nothing is stored for {}", text), {}});
  }
  return print(out + "\n" + columns(rows));
}

int cache_verify(Cache& cache) {
  const CacheStats stats = cache.stats();  // first: reading may find damage, which verify() tells
  const std::vector<std::string> damaged = cache.verify();
  std::string out;
  for (const std::string& line : damaged) out += "damaged: " + line + "\n";
  out += fmt::format("{} kernels, {} trials, {} selections: {}\n", stats.code_entries, stats.trials,
                     stats.selections,
                     damaged.empty() ? "all whole" : fmt::format("{} damaged", damaged.size()));
  const int status = print(out);
  return status == 0 && !damaged.empty() ? exit_status(ErrorCode::io) : status;
}

int cache_clear(Cache& cache) {
  const CacheStats stats = cache.stats();
  if (auto cleared = cache.clear(); !cleared) return report_error(cleared.error());
  return print(fmt::format("Deleted {} kernels, {} trials and {} selections from {}\n",
                           stats.code_entries, stats.trials, stats.selections, stats.path));
}

/// Looking must not make what it looks for. An empty answer is right for the default place, which
/// fills by itself; a place that was named and holds nothing is more likely misspelled.
std::optional<int> without_store(const Arguments& arguments, const std::string& file) {
  struct stat info {};
  if (::lstat(file.c_str(), &info) == 0 || (errno != ENOENT && errno != ENOTDIR)) return {};
  const std::string text = "no store at " + file;
  const char* named = std::getenv("CULET_CACHE");
  const bool is_default = arguments.cache.empty() && (named == nullptr || named[0] == '\0');
  if (is_default && arguments.cache_verb != "show") return print(text + "\n");
  return report_error({ErrorCode::io, text, {}});
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

int run_cache(const Arguments& arguments) {
  const std::string file = store_file(arguments.cache);
  if (arguments.cache_verb == "path") return print((file.empty() ? "none" : file) + "\n");
  std::optional<Problem> problem;
  if (arguments.cache_verb == "show") {
    const auto problems = read_problems(arguments);
    if (!problems) return report_error(problems.error());
    problem = problems->front();
  }
  if (!file.empty()) {
    if (const auto status = without_store(arguments, file)) return *status;
  }
  // By its folder, as if it were named: falling back to memory would answer for an empty store.
  const auto opened =
      open_cache(file.empty() ? "none" : std::filesystem::path(file).parent_path().string());
  if (!opened) return report_error(opened.error());
  Cache& cache = **opened;
  warn_from(cache);
  int status = 0;
  if (problem) {
    status = cache_show(cache, *problem);
  } else if (arguments.cache_verb == "ls") {
    status = cache_ls(cache);
  } else if (arguments.cache_verb == "verify") {
    status = cache_verify(cache);
  } else {
    status = cache_clear(cache);
  }
  warn_from(cache);
  return status;
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

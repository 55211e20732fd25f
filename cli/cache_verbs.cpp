// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// The verbs of `culet cache` that look into the store, check it and empty it.
#include <fmt/format.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>

#include "cache_exchange.h"
#include "console.h"
#include "culet/settings.h"
#include "session.h"
#include "verbs.h"

namespace culet::cli {
namespace {

using Rows = std::vector<std::vector<std::string>>;

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

int cache_clear(Cache& cache, bool measurements_only) {
  const CacheStats stats = cache.stats();
  const auto cleared = measurements_only ? cache.clear_measurements() : cache.clear();
  if (!cleared) return report_error(cleared.error());
  const std::string kernels =
      measurements_only ? std::string() : fmt::format("{} kernels, ", stats.code_entries);
  return print(fmt::format("Deleted {}{} trials and {} selections from {}\n", kernels, stats.trials,
                           stats.selections, stats.path));
}

/// Looking must not make what it looks for. An empty answer is right for the default place, which
/// fills by itself; a place that was named and holds nothing is more likely misspelled.
std::optional<int> without_store(const Arguments& arguments, const std::string& file) {
  struct stat info {};
  if (::lstat(file.c_str(), &info) == 0 || (errno != ENOENT && errno != ENOTDIR)) return {};
  const std::string text = "no store at " + file;
  const char* named = std::getenv("CULET_CACHE");
  const bool is_default = arguments.cache.empty() && (named == nullptr || named[0] == '\0');
  const bool is_asked_for = arguments.cache_verb == "show" || arguments.cache_verb == "export";
  if (is_default && !is_asked_for) return print(text + "\n");
  return report_error({ErrorCode::io, text, {}});
}

}  // namespace

int run_cache(const Arguments& arguments) {
  const std::string file = store_file(arguments.cache);
  if (arguments.cache_verb == "path") return print((file.empty() ? "none" : file) + "\n");
  std::optional<Problem> problem;
  if (arguments.cache_verb == "show") {
    const auto problems = read_problems(arguments);
    if (!problems) return report_error(problems.error());
    problem = problems->front();
  }
  const bool fills = arguments.cache_verb == "import" || arguments.cache_verb == "merge";
  if (fills && file.empty()) {
    return report_error({ErrorCode::invalid_argument,
                         "--cache none: there is no store to keep the entries in",
                         {}});
  }
  if (!fills && !file.empty()) {
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
  } else if (arguments.cache_verb == "export") {
    status = cache_export(arguments, cache);
  } else if (arguments.cache_verb == "import") {
    status = cache_import(arguments, cache);
  } else if (arguments.cache_verb == "merge") {
    status = cache_merge(arguments, cache);
  } else {
    status = cache_clear(cache, arguments.measurements);
  }
  warn_from(cache);
  return status;
}

}  // namespace culet::cli

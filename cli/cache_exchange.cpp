// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// `culet cache export`, `import` and `merge`: what was taken, what was left, and why, in a line
// each.
#include "cache_exchange.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <thread>

#include "console.h"
#include "culet/exchange.h"
#include "culet/settings.h"
#include "session.h"

namespace culet::cli {
namespace {

namespace fs = std::filesystem;

std::string count(std::int64_t number, std::string_view what) {
  return fmt::format("{} {}{}", number, what, number == 1 ? "" : "s");
}

std::string entries(std::int64_t trials, std::int64_t selections) {
  return fmt::format("{} and {}", count(trials, "trial"), count(selections, "selection"));
}

void warn_of_damage(std::int64_t damaged, const std::string& where) {
  if (damaged > 0) {
    warn(fmt::format("{}: {} damaged and left out", where, count(damaged, "entry is")));
  }
}

/// Every device that find_device() could give here. The CPU is one with each count of threads.
std::vector<std::string> devices_here() {
  std::vector<std::string> identities;
  if (auto cpu = find_device("cpu:1")) {
    const int cores = static_cast<int>(std::thread::hardware_concurrency());
    for (int threads = 1; threads <= std::max(cores, 1); ++threads) {
      cpu->threads = cpu->units = threads;
      identities.push_back(cpu->identity());
    }
  }
  for (int i = 0;; ++i) {
    const auto gpu = find_device(fmt::format("cuda:{}", i));
    if (!gpu) return identities;
    identities.push_back(gpu->identity());
  }
}

Result<ImportRules> rules_here(const std::string& relax) {
  ImportRules rules;
  if (!relax.empty()) {
    auto fields = parse_relax(relax);
    if (!fields) return fail(fields.error().code, "--relax: " + fields.error().message);
    rules.relax = std::move(*fields);
  }
  rules.devices = devices_here();
  const Registry registry = Registry::standard();
  for (const auto& backend : registry.backends()) {
    rules.versions[std::string(backend->name())] = backend->version();
  }
  rules.policy = MeasurePolicy().text();
  return rules;
}

void warn_of_code(const Taken& taken, const std::string& file) {
  if (taken.refused_code > 0) {
    warn(fmt::format(
        "{}: {} refused: another store made the code, and it would be loaded and run; "
        "--allow-code takes it",
        file, count(taken.refused_code, taken.refused_code == 1 ? "kernel is" : "kernels are")));
  }
  if (taken.damaged_code > 0) {
    warn(fmt::format("{}: {} damaged and left out", file, count(taken.damaged_code, "kernel")));
  }
}

/// No entry is fine; a problem that was named and is not there is more likely misspelled.
Result<void> check_known(const std::vector<std::string>& problems, const StoreContents& contents) {
  for (const std::string& problem : problems) {
    const auto is_it = [&](const auto& entry) { return entry.problem == problem; };
    if (std::none_of(contents.trials.begin(), contents.trials.end(), is_it) &&
        std::none_of(contents.selections.begin(), contents.selections.end(), is_it)) {
      return fail(ErrorCode::io, "nothing is stored for " + problem);
    }
  }
  return {};
}

}  // namespace

int cache_export(const Arguments& arguments, Cache& cache) {
  const std::string& file = arguments.output;
  if (arguments.code && file.empty()) {
    return report_error({ErrorCode::invalid_argument,
                         "--code: compiled code goes beside the file of -o, which is missing",
                         {}});
  }
  std::vector<std::string> problems;
  if (!arguments.problems.empty()) {
    const auto read = read_problems(arguments);
    if (!read) return report_error(read.error());
    for (const Problem& problem : *read) problems.push_back(problem.text());
  }
  const auto contents = cache.contents(problems);
  if (!contents) return report_error(contents.error());
  if (auto known = check_known(problems, *contents); !known) return report_error(known.error());
  warn_of_damage(contents->damaged, cache.stats().path);
  // Code first: an exchange file that is there has its code beside it.
  std::string kernels;
  if (arguments.code) {
    const auto saved = cache.save_code(code_file_of(file));
    if (!saved) return report_error(saved.error());
    kernels = fmt::format("; {} to {}", count(*saved, "kernel"), code_file_of(file));
  }
  if (auto done = deliver(exchange_text(*contents), file); !done) return report_error(done.error());
  if (file.empty()) return 0;
  return print(fmt::format("Exported {} to {}{}\n",
                           entries(static_cast<std::int64_t>(contents->trials.size()),
                                   static_cast<std::int64_t>(contents->selections.size())),
                           file, kernels));
}

int cache_import(const Arguments& arguments, Cache& cache) {
  const std::string& file = arguments.files.front();
  const auto text = load(file);
  if (!text) return report_error(text.error());
  const auto contents = exchange_entries(*text, file);
  if (!contents) return report_error(contents.error());
  Matched matched{*contents, {}};
  if (!arguments.any) {
    const auto rules = rules_here(arguments.relax);
    if (!rules) return report_error(rules.error());
    matched = match(*contents, *rules);
  }
  CodeSource code;
  code.allow_foreign = arguments.allow_code;
  std::error_code ignored;
  if (fs::exists(code_file_of(file), ignored)) code.file = code_file_of(file);
  if (code.file.empty() && arguments.allow_code) {
    return report_error(
        {ErrorCode::io, fmt::format("--allow-code: there is no {}", code_file_of(file)), {}});
  }
  const auto taken = cache.take(matched.contents, code);
  if (!taken) return report_error(taken.error());
  std::string out = fmt::format("Imported {} from {}; {} known already\n",
                                entries(taken->trials, taken->selections), file, taken->known);
  if (taken->code > 0) out += fmt::format("Imported {}\n", count(taken->code, "kernel"));
  for (const Skipped& skipped : matched.skipped) {
    out += fmt::format("Skipped {}: {}\n", entries(skipped.trials, skipped.selections),
                       skipped.reason);
  }
  warn_of_code(*taken, code.file);
  return print(out);
}

int cache_merge(const Arguments& arguments, Cache& cache) {
  for (const std::string& folder : arguments.files) {
    const std::string file = store_file(folder);
    std::error_code error;
    if (file.empty() || !fs::exists(file, error)) {
      return report_error({ErrorCode::io, "no store at " + (file.empty() ? folder : file), {}});
    }
    if (fs::equivalent(file, cache.stats().path, error)) {
      return report_error({ErrorCode::invalid_argument, folder + ": is the store itself", {}});
    }
  }
  for (const std::string& folder : arguments.files) {
    const auto other = open_cache(folder);
    if (!other) return report_error(other.error());
    warn_from(**other);
    const auto contents = (*other)->contents();
    if (!contents) return report_error(contents.error());
    warn_of_damage(contents->damaged, (*other)->stats().path);
    const CodeSource code{(*other)->stats().path, arguments.allow_code, true};
    const auto taken = cache.take(*contents, code);
    if (!taken) return report_error(taken.error());
    std::string out = fmt::format("Took {} from {}; {} known already\n",
                                  entries(taken->trials, taken->selections), folder, taken->known);
    if (taken->code > 0) out += fmt::format("Took {}\n", count(taken->code, "kernel"));
    warn_of_code(*taken, code.file);
    if (const int status = print(out); status != 0) return status;
  }
  return 0;
}

}  // namespace culet::cli

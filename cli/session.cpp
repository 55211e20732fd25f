// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// Meaning of the options, see session.h.
#include "session.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <filesystem>
#include <set>

#include "console.h"
#include "culet/settings.h"

namespace culet::cli {
namespace {

/// Beyond this many problems a block for each hides more than it shows.
constexpr std::size_t kBlocks = 4;
constexpr int kRowsOfOne = 8, kRowsOfSeveral = 3;

template <typename T>
std::optional<T> number(std::string_view text) {
  T value{};
  const char* end = text.data() + text.size();
  const auto [at, error] = std::from_chars(text.data(), end, value);
  if (text.empty() || error != std::errc() || at != end) return std::nullopt;
  return value;
}

tl::unexpected<Error> bad(std::string_view option, std::string_view value,
                          std::string_view wanted) {
  return fail(ErrorCode::invalid_argument,
              fmt::format("{}: '{}' is not {}", option, shown(value), wanted));
}

Result<std::vector<std::int64_t>> parse_m(std::string_view text) {
  std::vector<std::int64_t> values;
  while (!text.empty()) {
    const std::size_t comma = std::min(text.find(','), text.size());
    const auto value = number<std::int64_t>(text.substr(0, comma));
    if (!value || *value < 0) {
      return bad("--m", text.substr(0, comma), "a size; a list is 1,16,64");
    }
    values.push_back(*value);
    text.remove_prefix(std::min(comma + 1, text.size()));
  }
  return values;
}

/// What comes of more overflows: nanoseconds and bytes have 64 bits.
constexpr double kMostOfAUnit = 1e9;

Result<double> positive(std::string_view option, const std::string& text, std::string_view unit) {
  if (text.empty()) return 0;
  const auto value = number<double>(text);
  if (!value || !(*value > 0 && *value <= kMostOfAUnit)) {
    return bad(option, text, fmt::format("a positive number of {}, at most 1e9", unit));
  }
  return *value;
}

Result<int> parse_top(const std::string& text) {
  if (text == "all") return -1;
  const auto value = number<int>(text);
  if (!value || *value < 1) return bad("--top", text, "a number of 1..2147483647 or 'all'");
  return *value;
}

Result<TuneOptions> parse_options(const Arguments& arguments, const Registry& registry) {
  // Options win, so what they replace is not even parsed. No other thread runs yet.
  if (arguments.backends) unsetenv("CULET_BACKENDS");
  if (arguments.top) unsetenv("CULET_MAX_PROFILING_CONFIGS");
  if (arguments.dump) unsetenv("CULET_DUMP");
  if (arguments.isolation) unsetenv("CULET_ISOLATION");
  auto options = options_from_environment(registry);
  if (!options) return options;
  if (arguments.top) {
    const auto top = parse_top(*arguments.top);
    if (!top) return tl::unexpected(top.error());
    options->top = *top;
  }
  if (arguments.backends) {
    auto filter = BackendFilter::parse(*arguments.backends, registry);
    if (!filter) return fail(filter.error().code, "--backends: " + filter.error().message);
    options->backends = std::move(*filter);
  }
  if (!arguments.seed.empty()) {
    const auto seed = number<std::uint64_t>(arguments.seed);
    if (!seed) return bad("--seed", arguments.seed, "a number from 0 to 2^64-1");
    options->seed = *seed;
  }
  const auto memory = positive("--max-memory", arguments.max_memory, "gigabytes");
  if (!memory) return tl::unexpected(memory.error());
  options->max_memory_bytes = *memory * 1e9;
  if (arguments.dump) options->dump_dir = *arguments.dump;
  if (arguments.isolation) {
    const auto isolation = parse_isolation(*arguments.isolation);
    if (!isolation)
      return fail(isolation.error().code, "--isolation: " + isolation.error().message);
    options->isolation = *isolation;
  }
  options->measure = !arguments.no_measure;
  options->use_cached_trials = !arguments.fresh;
  return options;
}

/// An output that cannot be written is better known before tuning than after.
Result<void> check_output(const std::string& path) {
  if (path.empty()) return {};
  namespace fs = std::filesystem;
  std::error_code ignored;
  if (fs::is_directory(path, ignored)) {
    return fail(ErrorCode::io, fmt::format("--output: '{}' is a folder", path));
  }
  const std::string folder = fs::path(path).parent_path().string();
  const std::string parent = folder.empty() ? "." : folder;
  if (!fs::is_directory(parent, ignored)) {
    return fail(ErrorCode::io, fmt::format("--output: there is no folder '{}'", parent));
  }
  if (::access(parent.c_str(), W_OK) != 0 && ::access(path.c_str(), W_OK) != 0) {
    return fail(ErrorCode::io, fmt::format("--output: '{}' cannot be written", path));
  }
  return {};
}

/// Text files only: a terminal, a device or a pipe nobody writes to would be read forever.
Result<void> check_shapes(const std::string& path) {
  const bool stream =
      path == "/dev/stdin" || path.starts_with("/dev/fd/") || path.starts_with("/proc/self/fd/");
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0) return {};  // reading it says why
  if (S_ISREG(info.st_mode) || S_ISDIR(info.st_mode) || path == "/dev/stdin" ||
      (stream && S_ISFIFO(info.st_mode))) {
    return {};
  }
  return fail(ErrorCode::io,
              fmt::format("--shapes: '{}' is neither a file nor standard input", shown(path)));
}

Result<void> check_dump(const std::string& folder, std::string_view option) {
  if (folder.empty()) return {};
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error || ::access(folder.c_str(), W_OK) != 0) {
    return fail(ErrorCode::io, fmt::format("{}: cannot write into '{}'{}{}", option, folder,
                                           error ? ": " : "", error ? error.message() : ""));
  }
  return {};
}

/// Whether a verb tries candidates out, which is what a log is about.
bool measures(const Arguments& arguments) {
  const Verb verb = arguments.verb;
  return !arguments.dry_run && (verb == Verb::tune || verb == Verb::bench || verb == Verb::explain);
}

Result<std::unique_ptr<RunLog>> open_log(const Arguments& arguments) {
  const std::string path = arguments.log ? *arguments.log : log_from_environment();
  if (path.empty() || !measures(arguments)) return nullptr;
  auto log = RunLog::open(path);
  if (!log) {
    return fail(log.error().code,
                fmt::format("{}: {}", arguments.log ? "--log" : "CULET_LOG", log.error().message));
  }
  // The report would take the place of this log and of all that was in the file.
  std::error_code ignored;
  if (!arguments.output.empty() && std::filesystem::is_regular_file(path, ignored) &&
      std::filesystem::equivalent(path, arguments.output, ignored)) {
    return fail(ErrorCode::invalid_argument,
                fmt::format("--output: '{}' is the log", shown(arguments.output)));
  }
  return log;
}

}  // namespace

Result<void> begin_log(Session& session, const Tuner& tuner, const Arguments& arguments) {
  if (session.log == nullptr) return {};
  auto begun = session.log->run_started(tuner, arguments.words);
  if (!begun) {
    session.log.reset();
    return begun;
  }
  for (const std::string& text : session.warnings) session.log->warning(text);
  return {};
}

void warn_from(const Session& session) {
  for (const std::string& text : warn_from(*session.cache)) {
    if (session.log != nullptr) session.log->warning(text);
  }
}

int end_log(const Session& session, int status) {
  if (session.log == nullptr) return status;
  session.log->run_finished(status);
  const std::string trouble = session.log->trouble();
  if (!trouble.empty()) warn("the log is not complete: " + trouble);
  return status;
}

Result<std::vector<Problem>> read_problems(const Arguments& arguments) {
  std::vector<Problem> given;
  for (const std::string& text : arguments.problems) {
    auto problem = Problem::parse(text);
    if (!problem) {
      return fail(problem.error().code,
                  fmt::format("problem {}: {}", shown(text), problem.error().message));
    }
    given.push_back(std::move(*problem));
  }
  if (!arguments.shapes.empty()) {
    if (auto ok = check_shapes(arguments.shapes); !ok) return tl::unexpected(ok.error());
    auto shapes = read_shapes(arguments.shapes);
    if (!shapes) return tl::unexpected(shapes.error());
    given.insert(given.end(), shapes->begin(), shapes->end());
  }
  if (given.empty()) {
    return fail(ErrorCode::invalid_argument,
                arguments.shapes.empty()
                    ? "no problem given; one looks like 16x4096x4096:bf16"
                    : fmt::format("--shapes: '{}' holds no problems", arguments.shapes));
  }
  const auto sizes = parse_m(arguments.m);
  if (!sizes) return tl::unexpected(sizes.error());
  std::vector<Problem> problems;
  std::set<std::string> seen;
  const auto add = [&](const Problem& problem) {
    if (seen.insert(problem.text()).second) problems.push_back(problem);
  };
  for (const Problem& problem : given) {
    if (sizes->empty()) add(problem);
    for (const std::int64_t m : *sizes) {
      const auto other = problem.with_m(m);
      if (!other)
        return fail(other.error().code, fmt::format("--m {}: {}", m, other.error().message));
      add(*other);
    }
  }
  return problems;
}

Result<DeviceSpec> open_device(const std::string& text) {
  auto device = find_device(text);
  if (!device && device.error().message.find(text) == std::string::npos) {
    return fail(device.error().code,
                fmt::format("--device {}: {}", shown(text), device.error().message));
  }
  return device;
}

Result<Session> open_session(const Arguments& arguments) {
  Session session;
  session.registry = Registry::standard();
  auto problems = read_problems(arguments);
  if (!problems) return tl::unexpected(problems.error());
  session.problems = std::move(*problems);
  const auto format = parse_report_format(arguments.format);
  if (!format) return fail(format.error().code, "--format: " + format.error().message);
  session.format = *format;
  if (arguments.trials != "all" && arguments.trials != "tried")
    return bad("--trials", arguments.trials, "all or tried");
  if (arguments.dry_run && session.format != ReportFormat::table) {
    return fail(ErrorCode::invalid_argument,
                fmt::format("--dry-run: writes a table only, not --format {}", arguments.format));
  }
  auto options = parse_options(arguments, session.registry);
  if (!options) return tl::unexpected(options.error());
  session.options = std::move(*options);
  auto overrides = load_overrides(arguments.cache);
  if (!overrides) return tl::unexpected(overrides.error());
  session.options.overrides = std::move(*overrides);
  const auto budget = positive("--budget", arguments.budget, "seconds");
  if (!budget) return tl::unexpected(budget.error());
  session.budget_seconds = *budget;
  if (auto ok = check_output(arguments.output); !ok) return tl::unexpected(ok.error());
  const auto dump = check_dump(session.options.dump_dir, arguments.dump ? "--dump" : "CULET_DUMP");
  if (!dump) return tl::unexpected(dump.error());
  auto log = open_log(arguments);
  if (!log) return tl::unexpected(log.error());
  session.log = std::move(*log);
  auto device = open_device(arguments.device);
  if (!device) return tl::unexpected(device.error());
  session.device = std::move(*device);
  // Ranking stores nothing.
  const bool in_memory = arguments.verb == Verb::rank || arguments.dry_run;
  auto cache = open_cache(in_memory ? "none" : arguments.cache);
  if (!cache) return tl::unexpected(cache.error());
  session.cache = std::move(*cache);
  session.warnings = warn_from(*session.cache);
  return session;
}

RenderOptions table_options(const Arguments& arguments, std::size_t problems) {
  RenderOptions options;
  const char* no_color = std::getenv("NO_COLOR");  // https://no-color.org
  options.color = arguments.output.empty() && isatty(STDOUT_FILENO) == 1 &&
                  (no_color == nullptr || no_color[0] == '\0');
  options.rows = problems == 1 ? kRowsOfOne : kRowsOfSeveral;
  options.tried_only = arguments.trials == "tried";
  options.summary_only = problems > kBlocks && arguments.format == "table";
  return options;
}

}  // namespace culet::cli

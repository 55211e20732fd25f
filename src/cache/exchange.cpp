// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// The JSON form of a store's trials and selections, described in docs/cache.md. Names and units are
// made for people: what the store holds is in records.cpp.
#include "culet/exchange.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <ctime>
#include <initializer_list>
#include <limits>
#include <nlohmann/json.hpp>
#include <tuple>

#include "base/json_limits.h"
#include "base/text.h"
#include "base/whole_number.h"
#include "cache/records.h"
#include "cache/rows.h"

namespace culet {
namespace {

using json = nlohmann::ordered_json;

constexpr std::string_view kFormat = "culet cache";
constexpr int kSchema = 1;
/// More than any measurement has, and few enough that a time survives seconds -> microseconds ->
/// seconds -> microseconds, each rounded, digit by digit.
constexpr int kDigits = 12;
constexpr double kInfinity = std::numeric_limits<double>::infinity();
/// Microseconds far below and above any time, and far enough from the smallest and the largest
/// double to stay positive and finite in seconds, and in microseconds again.
constexpr double kSmallest = 1e-100, kLargest = 1e300;

// --- writing ---------------------------------------------------------------------------------

json number(double value) {
  if (!std::isfinite(value)) return nullptr;
  char text[64];
  const auto end =
      std::to_chars(text, text + sizeof text, value, std::chars_format::general, kDigits).ptr;
  double rounded = value;
  std::from_chars(text, end, rounded);
  return rounded;
}
/// Null as for infinity where it is more than is read again.
json microseconds(double seconds) {
  json us = number(seconds * 1e6);
  return us.is_number() && us > kLargest ? json(nullptr) : us;
}

/// Nothing for a time that nobody knows, or that is none: a clock may have been anywhere, and what
/// is written has to be readable. The last one is the end of the year 9999.
std::string time_text(std::int64_t made) {
  return made > 0 && made < 253'402'300'800'000 ? utc(made, true) : std::string();
}

json trial_object(const StoredTrial& entry) {
  const Trial& trial = entry.trial;
  json object{{"problem", entry.problem},   {"candidate", trial.candidate.text()},
              {"device", entry.env.device}, {"library", entry.env.library},
              {"policy", entry.env.policy}, {"outcome", to_string(trial.outcome)}};
  if (trial.timing) {
    object["median_us"] = microseconds(trial.timing->median);
    object["low_us"] = microseconds(trial.timing->low);
    object["high_us"] = microseconds(trial.timing->high);
    object["samples"] = trial.timing->samples;
  }
  object["error"] = number(trial.error);
  if (trial.estimate) {
    object["estimate_us"] = microseconds(trial.estimate->seconds);
    object["limiter"] = stored_name(trial.estimate->limiter);
  }
  if (trial.vendor) object["vendor"] = true;
  if (trial.fallback) object["fallback"] = true;
  if (!trial.reason.empty()) object["reason"] = trial.reason;
  if (!trial.log.empty()) object["log"] = trial.log;
  if (const auto made = time_text(entry.made); !made.empty()) object["made"] = made;
  return object;
}

json selection_object(const StoredSelection& entry) {
  json object{{"problem", entry.problem}, {"candidate", entry.candidate.text()},
              {"device", entry.device},   {"backends", entry.scope.backends},
              {"top", entry.scope.top},   {"space", fmt::format("{:016x}", entry.scope.space)},
              {"why", entry.why}};
  if (const auto made = time_text(entry.made); !made.empty()) object["made"] = made;
  return object;
}

/// Keys are made once an entry: making them in comparisons would take most of the time.
template <typename Entry, typename KeyOf>
std::vector<const Entry*> sorted(const std::vector<Entry>& entries, const KeyOf& key_of) {
  std::vector<std::pair<decltype(key_of(entries.front())), const Entry*>> keyed;
  for (const Entry& entry : entries) keyed.emplace_back(key_of(entry), &entry);
  std::sort(keyed.begin(), keyed.end(),
            [](const auto& x, const auto& y) { return x.first < y.first; });
  std::vector<const Entry*> order;
  for (const auto& item : keyed) order.push_back(item.second);
  return order;
}

// --- reading ---------------------------------------------------------------------------------

/// Thrown and caught in this file only: a wrong value, its place ("trials[3].median_us"), and what
/// would be right.
struct Wrong {
  std::string place, what;
};

/// An object whose values are asked for by name; what nobody asked for is a misspelled name.
class Reader {
 public:
  Reader(const json& object, std::string place) : object_(object), place_(std::move(place)) {
    if (!object.is_object()) throw Wrong{place_, "must be an object, {...}"};
  }
  std::string place(std::string_view name) const {
    return place_.empty() ? std::string(name) : fmt::format("{}.{}", place_, name);
  }
  [[noreturn]] void wrong(std::string_view name, const std::string& what) const {
    throw Wrong{place(name), what};
  }
  const json* find(std::string_view name) {
    known_.emplace_back(name);
    const auto at = object_.find(name);
    return at == object_.end() ? nullptr : &*at;
  }
  const json& get(std::string_view name) {
    const json* value = find(name);
    if (value == nullptr) throw Wrong{place_, fmt::format("'{}' is missing", name)};
    return *value;
  }
  std::string text(std::string_view name) {
    const json& value = get(name);
    if (!value.is_string()) wrong(name, "must be a text, \"...\"");
    return value.get<std::string>();
  }
  std::string text_or_nothing(std::string_view name) {
    return object_.contains(name) ? text(name) : (find(name), std::string());
  }
  bool flag(std::string_view name) {
    const json* value = find(name);
    if (value == nullptr) return false;
    if (!value->is_boolean()) wrong(name, "must be true or false");
    return value->get<bool>();
  }
  double real(std::string_view name, double least, std::string_view what, double most = kInfinity) {
    const json& value = get(name);
    const double number = value.is_number() ? value.get<double>() : std::nan("");
    if (!std::isfinite(number) || number < least) {
      wrong(name, fmt::format("must be {}, not {}", what, shown(value.dump())));
    }
    if (number > most) {
      wrong(name, fmt::format("must be at most {:g}, not {}", most, shown(value.dump())));
    }
    return number;
  }
  std::int64_t whole(std::string_view name, std::int64_t least, std::int64_t most) {
    const json& value = get(name);
    const auto number = whole_number(value, least, most);
    if (!number) {
      wrong(name, fmt::format("must be a whole number from {} to {}, not {}", least, most,
                              shown(value.dump())));
    }
    return *number;
  }
  /// To be called when all names were asked for.
  void end() const {
    for (const auto& [name, value] : object_.items()) {
      if (std::find(known_.begin(), known_.end(), name) != known_.end()) continue;
      std::string all;
      for (const std::string& known : known_) all += (all.empty() ? "" : ", ") + known;
      throw Wrong{place_, fmt::format("unknown name '{}'; known are {}", shown(name), all)};
    }
  }

 private:
  const json& object_;
  const std::string place_;
  std::vector<std::string> known_;
};

/// The form utc() writes; anything else would not be written as it was read.
std::int64_t time_of(Reader& reader) {
  const std::string text = reader.text_or_nothing("made");
  if (text.empty()) return 0;
  std::tm parts{};
  int milliseconds = -1, end = 0;
  const int got = std::sscanf(text.c_str(), "%4d-%2d-%2dT%2d:%2d:%2d.%3dZ%n", &parts.tm_year,
                              &parts.tm_mon, &parts.tm_mday, &parts.tm_hour, &parts.tm_min,
                              &parts.tm_sec, &milliseconds, &end);
  parts.tm_year -= 1900;
  parts.tm_mon -= 1;
  const std::int64_t made = got == 7 ? timegm(&parts) * std::int64_t{1000} + milliseconds : -1;
  if (made <= 0 || utc(made, true) != text) {
    reader.wrong("made",
                 fmt::format("must be a time as 2026-01-31T12:00:00.000Z, not '{}'", shown(text)));
  }
  return made;
}

/// Other spellings of a problem are fine; stored is the canonical one.
std::string problem_of(Reader& reader) {
  const auto problem = Problem::parse(reader.text("problem"));
  if (!problem) reader.wrong("problem", problem.error().message);
  return problem->text();
}

Candidate candidate_of(Reader& reader) {
  auto candidate = Candidate::parse(reader.text("candidate"));
  if (!candidate) reader.wrong("candidate", candidate.error().message);
  return std::move(*candidate);
}

std::optional<Timing> timing_of(Reader& reader, bool measured) {
  const bool there = reader.find("median_us") != nullptr;
  if (!there && !measured) {
    for (const char* name : {"low_us", "high_us", "samples"}) {
      if (reader.find(name) != nullptr) reader.wrong(name, "goes with a 'median_us'");
    }
    return std::nullopt;
  }
  constexpr std::string_view kPositive = "a positive number of microseconds";
  Timing timing;
  timing.median = reader.real("median_us", kSmallest, kPositive, kLargest) / 1e6;
  timing.low = reader.real("low_us", kSmallest, kPositive, kLargest) / 1e6;
  timing.high = reader.real("high_us", kSmallest, kPositive, kLargest) / 1e6;
  timing.samples = static_cast<int>(reader.whole("samples", 1, 1'000'000'000));
  if (timing.low > timing.median) reader.wrong("low_us", "must not be above median_us");
  if (timing.high < timing.median) reader.wrong("high_us", "must not be below median_us");
  return timing;
}

std::optional<Estimate> estimate_of(Reader& reader) {
  const json* seconds = reader.find("estimate_us");
  const json* limiter = reader.find("limiter");
  if (seconds == nullptr && limiter == nullptr) return std::nullopt;
  Estimate estimate;
  estimate.seconds =
      seconds != nullptr && seconds->is_null()
          ? kInfinity
          : reader.real("estimate_us", 0, "a number of microseconds", kLargest) / 1e6;
  const auto known = stored_limiter(reader.text("limiter"));
  if (!known) reader.wrong("limiter", "must be math, dram, l2, shared, latency or waves");
  estimate.limiter = *known;
  return estimate;
}

StoredTrial trial_of(Reader& reader) {
  StoredTrial entry;
  Trial& trial = entry.trial;
  entry.problem = problem_of(reader);
  trial.candidate = candidate_of(reader);
  entry.env = {reader.text("device"), reader.text("library"), reader.text("policy")};
  const auto outcome = parse_outcome(reader.text("outcome"));
  if (!outcome) reader.wrong("outcome", outcome.error().message);
  trial.outcome = *outcome;
  trial.timing = timing_of(reader, trial.outcome == Outcome::measured);
  trial.error =
      reader.get("error").is_null() ? kInfinity : reader.real("error", 0, "a number of 0 or more");
  if (trial.outcome == Outcome::measured && trial.error > 1) {
    reader.wrong("error", "must be at most 1 where the outcome is 'measured'");
  }
  trial.estimate = estimate_of(reader);
  trial.vendor = reader.flag("vendor");
  trial.fallback = reader.flag("fallback");
  trial.reason = reader.text_or_nothing("reason");
  trial.log = reader.text_or_nothing("log");
  entry.made = time_of(reader);
  return entry;
}

StoredSelection selection_of(Reader& reader) {
  StoredSelection entry;
  entry.problem = problem_of(reader);
  entry.candidate = candidate_of(reader);
  entry.device = reader.text("device");
  entry.scope.backends = reader.text("backends");
  entry.scope.top = reader.text("top");
  const std::string space = reader.text("space");
  const auto parsed =
      std::from_chars(space.data(), space.data() + space.size(), entry.scope.space, 16);
  if (parsed.ec != std::errc() || fmt::format("{:016x}", entry.scope.space) != space) {
    reader.wrong("space", "must be 16 hexadecimal digits, as it was exported");
  }
  entry.why = reader.text("why");
  entry.made = time_of(reader);
  return entry;
}

/// The key as one text, to find an entry that comes twice: which of the two should hold?
template <typename Entry, typename Read, typename KeyOf>
std::vector<Entry> list_of(Reader& root, const char* name, const Read& read, const KeyOf& key_of) {
  const json& array = root.get(name);
  if (!array.is_array()) root.wrong(name, "must be a list, [...]");
  std::vector<Entry> entries;
  std::map<decltype(key_of(entries.front())), std::size_t> seen;
  for (const json& item : array) {
    const std::string place = fmt::format("{}[{}]", name, entries.size());
    Reader reader(item, place);
    entries.push_back(read(reader));
    reader.end();
    const auto [first, fresh] = seen.emplace(key_of(entries.back()), entries.size() - 1);
    if (!fresh) {
      throw Wrong{place, fmt::format("is the same entry as {}[{}] again", name, first->second)};
    }
  }
  return entries;
}

auto key_of_trial(const StoredTrial& t) {
  return std::make_tuple(t.problem, t.env.device, t.env.library, t.env.policy,
                         t.trial.candidate.text());
}
auto key_of_selection(const StoredSelection& s) {
  return std::make_tuple(s.problem, s.device, s.scope.text());
}

StoreContents read(const json& value) {
  StoreContents contents;
  Reader root(value, "");
  const json* format = root.find("format");
  if (format == nullptr || *format != kFormat) {
    throw Wrong{"", fmt::format("is no exported store: it has no \"format\": \"{}\"", kFormat)};
  }
  if (root.get("schema") != kSchema) {
    root.wrong("schema", fmt::format("is {}, this culet knows {}", shown(root.get("schema").dump()),
                                     kSchema));
  }
  contents.trials = list_of<StoredTrial>(root, "trials", trial_of, key_of_trial);
  contents.selections =
      list_of<StoredSelection>(root, "selections", selection_of, key_of_selection);
  root.end();
  return contents;
}

}  // namespace

std::string exchange_text(const StoreContents& contents) {
  json root{{"format", kFormat}, {"schema", kSchema}};
  root["trials"] = json::array();
  for (const StoredTrial* entry : sorted(contents.trials, key_of_trial)) {
    root["trials"].push_back(trial_object(*entry));
  }
  root["selections"] = json::array();
  for (const StoredSelection* entry : sorted(contents.selections, key_of_selection)) {
    root["selections"].push_back(selection_object(*entry));
  }
  // Reasons may quote a compiler or a driver, which may write any bytes.
  return root.dump(1, ' ', false, json::error_handler_t::replace) + "\n";
}

Result<StoreContents> exchange_entries(std::string_view text, const std::string& file) {
  const auto wrong = [&](std::string_view place, std::string_view what) {
    return fail(ErrorCode::invalid_argument,
                fmt::format("{}: {}{}{}", file, place, place.empty() ? "" : ": ", what));
  };
  if (const std::string why = beyond_json_limits(text); !why.empty()) return wrong("", why);
  try {
    return read(json::parse(text));
  } catch (const Wrong& found) {
    return wrong(found.place, found.what);
  } catch (const json::parse_error& error) {
    return wrong(line_and_column(text, error.byte == 0 ? 0 : error.byte - 1), "this is not JSON");
  } catch (const json::exception& error) {  // a number that fits no double
    return wrong("", shown(error.what(), 200));
  }
}

std::string code_file_of(const std::string& exchange_file) {
  return exchange_file + ".code.sqlite";
}

}  // namespace culet

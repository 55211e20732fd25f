// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// Pins and denials, and the file they are kept in.
#include "culet/overrides.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <tuple>

#include "base/files.h"
#include "base/json_limits.h"
#include "base/text.h"
#include "cache/file_lock.h"
#include "cache/store_path.h"

namespace culet {
namespace {

using nlohmann::ordered_json;

constexpr std::string_view kFormat = "culet overrides";
constexpr int kSchema = 1;
constexpr std::size_t kMaxBytes = std::size_t{1} << 26;

bool is_candidate(std::string_view text) { return text.find('{') != std::string_view::npos; }

/// Candidates in the one form they are compared in; names as they are.
Result<std::string> canonical(std::string_view what) {
  if (is_candidate(what)) {
    auto candidate = Candidate::parse(what);
    if (!candidate) return tl::unexpected(candidate.error());
    return candidate->text();
  }
  const bool plain = !what.empty() && what.find_first_of(" \t\r\n=}") == std::string_view::npos;
  if (plain) return std::string(what);
  return fail(ErrorCode::invalid_argument,
              fmt::format("'{}' is neither a backend's name nor a candidate", shown(what)));
}

std::optional<DeviceKind> device_kind(const std::string& text) {
  for (const DeviceKind kind : {DeviceKind::cpu, DeviceKind::cuda}) {
    if (to_string(kind) == text) return kind;
  }
  return std::nullopt;
}

/// Thrown and caught in this file only.
struct Wrong {
  std::string text;
};

const ordered_json& list(const ordered_json& root, const char* name) {
  const auto at = root.find(name);
  if (at == root.end() || !at->is_array()) {
    throw Wrong{fmt::format("'{}' must be there, and a list, [...]", name)};
  }
  return *at;
}

std::string text_of(const ordered_json& value, const std::string& place) {
  if (!value.is_string()) throw Wrong{place + ": must be a text, \"...\""};
  return value.get<std::string>();
}

template <typename T>
T must(Result<T> result, const std::string& place) {
  if (!result) throw Wrong{place + ": " + result.error().message};
  return std::move(*result);
}

Pin read_pin(const ordered_json& item, const std::string& place) {
  const auto field = [&](const char* name) {
    if (!item.is_object() || !item.contains(name)) {
      throw Wrong{fmt::format("{}: must have 'problem', 'device' and 'candidate'", place)};
    }
    return text_of(item[name], fmt::format("{}.{}", place, name));
  };
  const Problem problem = must(Problem::parse(field("problem")), place + ".problem");
  const auto kind = device_kind(field("device"));
  if (!kind) throw Wrong{place + ".device: must be cpu or cuda"};
  return {problem.text(), *kind, must(Candidate::parse(field("candidate")), place + ".candidate")};
}

auto key(const Pin& pin) { return std::tie(pin.problem, pin.device); }
bool comes_before(const Pin& x, const Pin& y) { return key(x) < key(y); }

/// What a file lists, in its order.
struct Listed {
  std::vector<Pin> pins;
  std::vector<std::string> denied;
};

Listed read(const ordered_json& root) {
  if (!root.is_object() || root.value("format", std::string()) != kFormat) {
    throw Wrong{fmt::format("has no \"format\": \"{}\"", kFormat)};
  }
  if (!root.contains("schema") || root["schema"] != kSchema) {
    throw Wrong{fmt::format("schema: this culet knows {}", kSchema)};
  }
  Listed listed;
  for (const auto& item : list(root, "pins")) {
    listed.pins.push_back(read_pin(item, fmt::format("pins[{}]", listed.pins.size())));
  }
  for (const auto& item : list(root, "denied")) {
    const std::string place = fmt::format("denied[{}]", listed.denied.size());
    listed.denied.push_back(must(canonical(text_of(item, place)), place));
  }
  return listed;
}

Result<Overrides> load_file(const std::string& file) {
  std::error_code error;
  if (file.empty() || !std::filesystem::exists(file, error)) return Overrides{};
  const auto text = read_file(file, kMaxBytes);
  if (!text) return tl::unexpected(text.error());
  return Overrides::from_json(*text, file);
}

}  // namespace

const Candidate* Overrides::pinned(const Problem& problem, DeviceKind device) const {
  if (pins_.empty()) return nullptr;
  const std::string text = problem.text();
  const auto at = std::find_if(pins_.begin(), pins_.end(), [&](const Pin& pin) {
    return pin.device == device && pin.problem == text;
  });
  return at == pins_.end() ? nullptr : &at->candidate;
}

std::string_view Overrides::denied(const Candidate& candidate) const {
  const auto find = [&](const std::string& text) -> std::string_view {
    const auto at = std::lower_bound(denied_.begin(), denied_.end(), text);
    return at != denied_.end() && *at == text ? std::string_view(*at) : std::string_view();
  };
  if (denied_.empty()) return {};
  for (const Step& step : candidate.steps) {
    if (const auto found = find(step.backend); !found.empty()) return found;
  }
  return find(candidate.text());
}

void Overrides::pin(const Problem& problem, DeviceKind device, const Candidate& candidate) {
  Pin pin{problem.text(), device, candidate};
  const auto at = std::lower_bound(pins_.begin(), pins_.end(), pin, comes_before);
  if (at != pins_.end() && key(*at) == key(pin)) {
    at->candidate = candidate;
  } else {
    pins_.insert(at, std::move(pin));
  }
}

bool Overrides::unpin(const Problem& problem) {
  const std::string text = problem.text();
  return std::erase_if(pins_, [&](const Pin& pin) { return pin.problem == text; }) > 0;
}

Result<void> Overrides::deny(std::string_view what) {
  auto text = canonical(what);
  if (!text) return tl::unexpected(text.error());
  const auto at = std::lower_bound(denied_.begin(), denied_.end(), *text);
  if (at == denied_.end() || *at != *text) denied_.insert(at, std::move(*text));
  return {};
}

bool Overrides::allow(std::string_view what) {
  const auto text = canonical(what);
  return text && std::erase(denied_, *text) > 0;
}

std::string Overrides::json() const {
  ordered_json root{{"format", kFormat}, {"schema", kSchema}};
  root["pins"] = ordered_json::array();
  for (const Pin& pin : pins_) {
    root["pins"].push_back({{"problem", pin.problem},
                            {"device", to_string(pin.device)},
                            {"candidate", pin.candidate.text()}});
  }
  root["denied"] = denied_;
  return root.dump(1, ' ', false, ordered_json::error_handler_t::replace) + "\n";
}

Result<Overrides> Overrides::from_json(std::string_view text, const std::string& file) {
  const auto wrong = [&](const std::string& what) {
    return fail(ErrorCode::invalid_argument, fmt::format("{}: {}", file, what));
  };
  if (const std::string why = beyond_json_limits(text); !why.empty()) return wrong(why);
  try {
    auto [pins, denied] = read(ordered_json::parse(text));
    // Sorted once: pin() and deny() would move what comes after, each time.
    std::reverse(pins.begin(), pins.end());  // of two for the same, the later one holds
    std::stable_sort(pins.begin(), pins.end(), comes_before);
    const auto same = [](const Pin& x, const Pin& y) { return key(x) == key(y); };
    pins.erase(std::unique(pins.begin(), pins.end(), same), pins.end());
    std::sort(denied.begin(), denied.end());
    denied.erase(std::unique(denied.begin(), denied.end()), denied.end());
    Overrides overrides;
    overrides.pins_ = std::move(pins);
    overrides.denied_ = std::move(denied);
    return overrides;
  } catch (const Wrong& found) {
    return wrong(found.text);
  } catch (const ordered_json::parse_error& error) {
    return wrong(line_and_column(text, error.byte == 0 ? 0 : error.byte - 1) +
                 ": this is not JSON");
  } catch (const ordered_json::exception& error) {
    return wrong(shown(error.what(), 200));
  }
}

std::string overrides_file(const std::string& cache) {
  const std::string store = store_path(cache);
  if (store.empty()) return {};
  return (std::filesystem::path(store).parent_path() / "overrides.json").string();
}

Result<Overrides> load_overrides(const std::string& cache) {
  return load_file(overrides_file(cache));
}

Result<void> change_overrides(const std::string& cache,
                              const std::function<Result<void>(Overrides&)>& change) {
  const std::string file = overrides_file(cache);
  if (file.empty()) {
    return fail(ErrorCode::invalid_argument,
                "the store is in memory (none): there is no place to keep a decision");
  }
  const auto folder = std::filesystem::path(file).parent_path().string();
  if (auto made = make_folders(folder); !made) return made;
  auto lock = FileLock::acquire(file + ".lock");
  if (!lock) return tl::unexpected(lock.error());
  auto overrides = load_file(file);
  if (!overrides) return tl::unexpected(overrides.error());
  if (auto changed = change(*overrides); !changed) return changed;
  return write_file_atomically(file, overrides->json());
}

}  // namespace culet

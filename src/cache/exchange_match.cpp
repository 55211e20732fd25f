// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// Which entries of another machine hold on this one, and what is said of those that do not.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "base/text.h"
#include "culet/exchange.h"

namespace culet {
namespace {

constexpr std::array<std::pair<Relax, std::string_view>, 6> kRelax{{
    {Relax::driver, "driver"},
    {Relax::library, "library"},
    {Relax::policy, "policy"},
    {Relax::name, "name"},
    {Relax::units, "units"},
    {Relax::threads, "threads"},
}};

/// The fields of DeviceSpec::identity(), with what lets each differ; kernels are made for one
/// architecture, so that one never may.
struct DeviceField {
  std::string_view name;
  std::optional<Relax> relax;
};
constexpr std::array<DeviceField, 5> kDeviceFields{{
    {"name", Relax::name},
    {"architecture", std::nullopt},
    {"units", Relax::units},
    {"threads", Relax::threads},
    {"driver", Relax::driver},
}};

/// Why an entry does not hold here; empty where it does.
using Reason = std::string;

std::string differs(std::string_view what, std::string_view there, std::string_view here,
                    std::string_view option) {
  const std::string text =
      fmt::format("the {} is '{}' there and '{}' here", what, shown(there, 100), shown(here, 100));
  return option.empty() ? text : fmt::format("{} (--relax {} takes them)", text, option);
}

class Matcher {
 public:
  explicit Matcher(const ImportRules& rules) : rules_(rules) {}

  /// Each of these gives the part of the key here, or why there is none.
  Reason device(std::string* identity, bool* changed) const {
    const auto there = split(*identity, '|');
    Reason reason = fmt::format("device '{}' is not here", shown(*identity, 120));
    if (there.size() != kDeviceFields.size()) return reason;
    std::size_t fewest = kDeviceFields.size();
    for (const std::string& device : rules_.devices) {
      if (device == *identity) return {};
    }
    for (const std::string& device : rules_.devices) {
      const auto here = split(device, '|');
      if (here.size() != there.size()) continue;
      std::size_t wrong = 0;
      Reason first;
      for (std::size_t i = 0; i < there.size(); ++i) {
        const DeviceField& field = kDeviceFields[i];
        if (there[i] == here[i] || (field.relax && rules_.relax.count(*field.relax) == 1)) continue;
        if (wrong++ == 0) {
          first = differs(fmt::format("device's {}", field.name), there[i], here[i],
                          field.relax ? field.name : std::string_view());
        }
      }
      if (wrong == 0) {
        *identity = device;
        *changed = true;
        return {};
      }
      // Of a device that differs in one thing, that is the reason; of others, that it is another.
      if (wrong < fewest) {
        fewest = wrong;
        if (wrong == 1) reason = first;
      }
    }
    return reason;
  }

  /// "name version, name version".
  Reason backends(std::string* text, bool* changed) const {
    std::string here;
    for (const auto& [name, version] : named(*text)) {
      const auto known = rules_.versions.find(name);
      if (known == rules_.versions.end()) {
        return fmt::format("backend '{}' is not known here", shown(name));
      }
      if (known->second != version && rules_.relax.count(Relax::library) == 0) {
        return differs("version of " + name, version, known->second, "library");
      }
      here += fmt::format("{}{} {}", here.empty() ? "" : ", ", name, known->second);
    }
    *changed = *changed || here != *text;
    *text = std::move(here);
    return {};
  }

  Reason policy(std::string* text, bool* changed) const {
    if (*text == rules_.policy) return {};
    if (rules_.relax.count(Relax::policy) == 0) {
      return differs("measuring policy", *text, rules_.policy, "policy");
    }
    *text = rules_.policy;
    *changed = true;
    return {};
  }

 private:
  /// A version may hold ", " itself: as far as it goes on like the one here, it is one.
  std::vector<std::pair<std::string, std::string>> named(std::string_view text) const {
    std::vector<std::pair<std::string, std::string>> list;
    while (!text.empty()) {
      const std::size_t end = text.find(", ");
      const std::string_view item = text.substr(0, end);
      const auto here =
          list.empty() ? rules_.versions.end() : rules_.versions.find(list.back().first);
      const std::string longer =
          list.empty() ? std::string() : fmt::format("{}, {}", list.back().second, item);
      if (here != rules_.versions.end() && here->second.starts_with(longer)) {
        list.back().second = longer;
      } else {
        const std::size_t space = std::min(item.find(' '), item.size());
        list.emplace_back(item.substr(0, space), item.substr(std::min(space + 1, item.size())));
      }
      text = end == std::string_view::npos ? std::string_view() : text.substr(end + 2);
    }
    return list;
  }

  const ImportRules& rules_;
};

}  // namespace

Result<std::set<Relax>> parse_relax(std::string_view list) {
  std::set<Relax> relax;
  for (const std::string_view item : split(list, ',')) {
    std::string known;
    bool found = false;
    for (const auto& [value, name] : kRelax) {
      if (name == trim(item)) found = relax.insert(value).second || true;
      known += (known.empty() ? "" : ", ") + std::string(name);
    }
    if (!found) {
      return fail(ErrorCode::invalid_argument,
                  fmt::format("unknown field '{}'; known are {}", shown(item), known));
    }
  }
  return relax;
}

Matched match(const StoreContents& contents, const ImportRules& rules) {
  const Matcher matcher(rules);
  Matched matched;
  std::map<std::string, Skipped> skipped;
  for (StoredTrial entry : contents.trials) {
    bool changed = false;
    Reason reason = matcher.device(&entry.env.device, &changed);
    if (reason.empty()) reason = matcher.backends(&entry.env.library, &changed);
    if (reason.empty()) reason = matcher.policy(&entry.env.policy, &changed);
    if (!reason.empty()) {
      ++skipped[reason].trials;
      continue;
    }
    entry.yields = changed;
    matched.contents.trials.push_back(std::move(entry));
  }
  for (StoredSelection entry : contents.selections) {
    bool changed = false;
    Reason reason = matcher.device(&entry.device, &changed);
    if (reason.empty()) reason = matcher.backends(&entry.scope.backends, &changed);
    if (!reason.empty()) {
      ++skipped[reason].selections;
      continue;
    }
    entry.yields = changed;
    matched.contents.selections.push_back(std::move(entry));
  }
  // Entries that now have one key: the newest comes first, and the others yield to it.
  const auto newer = [](const auto& x, const auto& y) { return x.made > y.made; };
  std::stable_sort(matched.contents.trials.begin(), matched.contents.trials.end(), newer);
  std::stable_sort(matched.contents.selections.begin(), matched.contents.selections.end(), newer);
  for (auto& [reason, counts] : skipped) {
    matched.skipped.push_back({reason, counts.trials, counts.selections});
  }
  return matched;
}

}  // namespace culet

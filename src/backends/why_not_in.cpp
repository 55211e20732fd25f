// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// What is wrong with a candidate that somebody wrote by hand.
#include <fmt/format.h>

#include <algorithm>

#include "base/text.h"
#include "culet/registry.h"

namespace culet {
namespace {

/// Of more values than this the first are shown.
constexpr std::size_t kShownValues = 16;

using Space = std::vector<const Candidate*>;

/// "simt" or "simt:gemm + pointwise:epilogue".
std::string kind_of(const Candidate& candidate) {
  Candidate kind = candidate;
  for (Step& step : kind.steps) step.config = {};
  std::string text = kind.text();
  for (std::size_t at; (at = text.find("{}")) != std::string::npos;) text.erase(at, 2);
  return text;
}

std::string listed(std::vector<std::string> all) {
  std::string text;
  for (std::size_t i = 0; i < std::min(all.size(), kShownValues); ++i)
    text += fmt::format("{}{}", text.empty() ? "" : ", ", all[i]);
  return all.size() > kShownValues ? text + ", ..." : text.empty() ? "none" : text;
}

void add(std::vector<std::string>* all, std::string_view item) {
  if (std::find(all->begin(), all->end(), item) == all->end()) all->emplace_back(item);
}

/// A key that no step of the space has there, or a value that none has; empty: each is in some.
std::string unknown(const Space& space, const Step& step, std::size_t place) {
  for (const auto& [key, value] : step.config.values()) {
    std::vector<std::string> keys, values;
    for (const Candidate* other : space) {
      const Config& config = other->steps[place].config;
      for (const auto& [known, ignored] : config.values()) add(&keys, known);
      if (config.has(key)) add(&values, config.get(key));
    }
    if (keys.empty()) return step.backend + " has no keys here";
    if (values.empty())
      return fmt::format("{} has no key {} here, only {}", step.backend, shown(key), listed(keys));
    if (std::find(values.begin(), values.end(), value) == values.end()) {
      return fmt::format("{} has no {}={} here, only {}", step.backend, key, shown(value),
                         listed(values));
    }
  }
  return {};
}

/// Keys and values in which two candidates of one kind differ.
int differences(const Candidate& x, const Candidate& y) {
  int count = 0;
  for (std::size_t i = 0; i < x.steps.size(); ++i) {
    const Config &a = x.steps[i].config, &b = y.steps[i].config;
    for (const auto& [key, value] : a.values()) count += !b.has(key) || b.get(key) != value;
    for (const auto& [key, value] : b.values()) count += !a.has(key);
  }
  return count;
}

}  // namespace

std::string why_not_in(const std::vector<Candidate>& all, const Candidate& candidate) {
  const std::string kind = kind_of(candidate);
  Space space;
  std::vector<std::string> kinds;
  for (const Candidate& item : all) {
    const std::string other = kind_of(item);
    add(&kinds, other);
    if (other == kind) space.push_back(&item);
  }
  if (space.empty())
    return fmt::format("{} has no candidates here, only {}", shown(kind), listed(kinds));
  for (std::size_t i = 0; i < candidate.steps.size(); ++i) {
    if (auto text = unknown(space, candidate.steps[i], i); !text.empty()) return text;
  }
  const Candidate* const nearest =
      *std::min_element(space.begin(), space.end(), [&](const auto* x, const auto* y) {
        return differences(*x, candidate) < differences(*y, candidate);
      });
  return "the nearest there is " + nearest->text();
}

}  // namespace culet

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
#include "base/whole_number.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

namespace culet {
namespace {

template <typename Json>
std::optional<std::int64_t> whole(const Json& value, std::int64_t least, std::int64_t most) {
  if (!value.is_number_integer()) return std::nullopt;
  // Unsigned numbers above INT64_MAX would wrap.
  if (value.is_number_unsigned() &&
      value.template get<std::uint64_t>() > static_cast<std::uint64_t>(most)) {
    return std::nullopt;
  }
  const auto number = value.template get<std::int64_t>();
  if (number < least || number > most) return std::nullopt;
  return number;
}

}  // namespace

std::optional<std::int64_t> whole_number(const nlohmann::json& value, std::int64_t least,
                                         std::int64_t most) {
  return whole(value, least, most);
}
std::optional<std::int64_t> whole_number(const nlohmann::ordered_json& value, std::int64_t least,
                                         std::int64_t most) {
  return whole(value, least, most);
}

std::int64_t must_be_whole(const nlohmann::json& value, std::int64_t least, std::int64_t most) {
  if (const auto number = whole_number(value, least, most)) return *number;
  throw nlohmann::json::other_error::create(
      506, fmt::format("must be a whole number from {} to {}", least, most), &value);
}

}  // namespace culet

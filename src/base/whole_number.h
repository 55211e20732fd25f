// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// Whole numbers out of JSON that somebody else wrote: the JSON library's own conversions wrap what
// does not fit and cast any fraction, which is undefined for most of them.
#pragma once

#include <cstdint>
#include <limits>
#include <nlohmann/json_fwd.hpp>
#include <optional>

namespace culet {

/// The number, where it is written without a fraction and lies in [least, most]; 0 <= most.
std::optional<std::int64_t> whole_number(const nlohmann::json& value, std::int64_t least,
                                         std::int64_t most);
std::optional<std::int64_t> whole_number(const nlohmann::ordered_json& value, std::int64_t least,
                                         std::int64_t most);

/// The same, but what is no such number throws a nlohmann::json::exception that says so.
std::int64_t must_be_whole(const nlohmann::json& value, std::int64_t least, std::int64_t most);

/// A number that an Integer can hold; throws as must_be_whole() does.
template <typename Integer>
Integer whole_number(const nlohmann::json& value) {
  using Limits = std::numeric_limits<Integer>;
  static_assert(Limits::digits < 64);
  return static_cast<Integer>(must_be_whole(value, Limits::min(), Limits::max()));
}

}  // namespace culet

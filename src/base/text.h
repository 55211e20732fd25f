// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// Small text helpers: trimming, splitting, whole-number parsing, and showing untrusted text in one
// line.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace culet {

/// Without spaces, tabs, carriage returns and newlines at both ends.
std::string_view trim(std::string_view text);

/// Parts between separators; "a,,b" has an empty one, "" one empty part.
std::vector<std::string_view> split(std::string_view text, char separator);

enum class IntParse : std::uint8_t { ok, not_a_number, too_large };
/// A whole decimal number and nothing else.
IntParse parse_int(std::string_view text, std::int64_t* value);

/// "line 3, column 7" of the byte at a place in a text; counted from 1.
std::string line_and_column(std::string_view text, std::size_t at);

/// Untrusted text for an error message: one line, printable, at most `limit` characters.
std::string shown(std::string_view text, std::size_t limit = 40);

}  // namespace culet

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
#include "base/json_limits.h"

#include <fmt/format.h>

#include <array>

#include "base/text.h"

namespace culet {
namespace {

/// What culet writes is nested less than ten deep and has some thirty names an object.
constexpr std::size_t kMaxDepth = 100;
constexpr int kMaxNames = 256;

/// The quote that ends the string which begins at `at`, or the text's end.
std::size_t end_of_string(std::string_view text, std::size_t at) {
  for (++at; at < text.size() && text[at] != '"'; ++at) {
    if (text[at] == '\\') ++at;
  }
  return at;
}

}  // namespace

std::string beyond_json_limits(std::string_view text) {
  std::array<int, kMaxDepth + 1> names{};  // of the object at each depth that is open
  std::size_t depth = 0;
  const auto at_place = [&](std::size_t at, const std::string& what) {
    return line_and_column(text, at) + ": " + what;
  };
  for (std::size_t at = 0; at < text.size(); ++at) {
    switch (text[at]) {
      case '"':
        at = end_of_string(text, at);
        break;
      case '[':
      case '{':
        if (depth == kMaxDepth) {
          return at_place(at, fmt::format("nested more than {} deep", kMaxDepth));
        }
        names[++depth] = 0;
        break;
      case ']':
      case '}':
        if (depth > 0) --depth;
        break;
      case ':':  // follows a name; nothing else has one in JSON
        if (depth > 0 && ++names[depth] > kMaxNames) {
          return at_place(at, fmt::format("an object of more than {} names", kMaxNames));
        }
        break;
      default:
        break;
    }
  }
  return {};
}

}  // namespace culet

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
#include "base/json_limits.h"

#include <fmt/format.h>

#include <array>
#include <limits>
#include <nlohmann/json.hpp>

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

/// Keeps nothing of what the parser reads, but how many bytes that were when it met an error.
class FirstError : public nlohmann::json::json_sax_t {
 public:
  using json = nlohmann::json;

  std::size_t bytes() const { return bytes_; }

  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(json::number_integer_t) override { return true; }
  bool number_unsigned(json::number_unsigned_t) override { return true; }
  bool number_float(json::number_float_t, const std::string&) override { return true; }
  bool string(std::string&) override { return true; }
  bool binary(json::binary_t&) override { return true; }
  bool start_object(std::size_t) override { return true; }
  bool key(std::string&) override { return true; }
  bool end_object() override { return true; }
  bool start_array(std::size_t) override { return true; }
  bool end_array() override { return true; }
  bool parse_error(std::size_t bytes, const std::string&, const json::exception&) override {
    bytes_ = bytes;
    return false;
  }

 private:
  std::size_t bytes_ = std::numeric_limits<std::size_t>::max();
};

/// Whether the parser ends with an error no later than at the byte at `at`. It does not recurse.
bool is_wrong_up_to(std::string_view text, std::size_t at) {
  text = text.substr(0, at + 1);
  FirstError error;
  nlohmann::json::sax_parse(text.begin(), text.end(), &error);
  return error.bytes() <= text.size();  // the end, where the text was cut, is one more
}

}  // namespace

std::string beyond_json_limits(std::string_view text) {
  std::array<int, kMaxDepth + 1> names{};  // of the object at each depth that is open
  std::size_t depth = 0;
  const auto at_place = [&](std::size_t at, const std::string& what) -> std::string {
    // After an error (a lost quote) names and brackets are not what they seem.
    if (is_wrong_up_to(text, at)) return {};
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

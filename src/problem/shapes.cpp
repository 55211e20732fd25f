// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// Shape files: a problem a line.
#include <fmt/format.h>

#include "base/files.h"
#include "base/text.h"
#include "culet/problem.h"

namespace culet {
namespace {

/// 64 MiB: a million problems. Anything larger was not meant, and need not be held in memory.
constexpr std::size_t kMaxBytes = std::size_t{64} << 20;

// The part of a line before a '#' outside quotes.
std::string_view without_comment(std::string_view line) {
  bool quoted = false;
  for (std::size_t i = 0; i < line.size(); ++i) {
    if (line[i] == '"') quoted = !quoted;
    if (line[i] == '#' && !quoted) return line.substr(0, i);
  }
  return line;
}

}  // namespace

Result<std::vector<Problem>> read_shapes(const std::string& path) {
  const Result<std::string> text = read_file(path, kMaxBytes);
  if (!text) return tl::unexpected<Error>(text.error());
  std::vector<Problem> problems;
  int number = 0;
  for (const std::string_view line : split(*text, '\n')) {
    ++number;
    const std::string_view content = trim(without_comment(line));
    if (content.empty()) continue;
    Result<Problem> problem = Problem::parse(content);
    if (!problem) {
      return fail(problem.error().code,
                  fmt::format("{}:{}: {}", path, number, problem.error().message));
    }
    problems.push_back(std::move(*problem));
  }
  if (problems.empty()) {
    return fail(ErrorCode::invalid_argument, fmt::format("{}: holds no problem", path));
  }
  return problems;
}

}  // namespace culet

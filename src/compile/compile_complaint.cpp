// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// See compile_complaint.h.
#include "compile/compile_complaint.h"

#include "base/text.h"

namespace culet {

std::string compile_complaint(std::string_view log) {
  for (const std::string_view code : {"C7508", "C7509", "C7510", "C7511"}) {
    if (log.find(code) != std::string_view::npos) return std::string(code);
  }
  constexpr std::string_view kClean =
      "0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads";
  for (const std::string_view line : split(log, '\n')) {
    const std::size_t at = line.find("bytes stack frame");
    if (at == std::string_view::npos) continue;
    const std::size_t begin = line.find_first_of("0123456789");
    if (line.substr(begin) != kClean) return std::string(line.substr(begin));
  }
  return {};
}

}  // namespace culet

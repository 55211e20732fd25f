// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// Attributes of library calls.
#include "launch/library_steps.h"

#include <fmt/format.h>

namespace culet {

namespace {
constexpr std::string_view kVersionKey = "version=";
}

std::string library_attributes(std::string_view version) {
  return fmt::format("{}{}\n", kVersionKey, version);
}

Result<void> check_library_attributes(std::string_view attributes, std::string_view name,
                                      std::string_view version) {
  if (attributes == library_attributes(version)) return {};
  std::string_view made_for = attributes.substr(0, attributes.find('\n'));
  if (made_for.substr(0, kVersionKey.size()) == kVersionKey) {
    made_for.remove_prefix(kVersionKey.size());
  }
  return fail(ErrorCode::build_failed,
              fmt::format("made for {} {}, but {} is here", name, made_for, version));
}

}  // namespace culet

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// What culet finds on this machine, and what it does without: devices, libraries, compilers, the
// store. `culet doctor` prints it; a bug report should hold it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace culet {

struct Finding {
  enum class State : std::uint8_t {
    found,    ///< there, and usable
    missing,  ///< not there; culet works without it
    problem,  ///< there, but not as it should be
  };
  std::string_view group;  ///< "device", "library", "compiler", "store"
  std::string name;
  State state = State::found;
  std::string text;    ///< version and place, or why not
  std::string advice;  ///< how to get it or put it right; empty where there is nothing to do
};

std::string_view to_string(Finding::State state);

/// Looks at everything, and opens the store that `cache` names (see open_cache).
std::vector<Finding> diagnose(const std::string& cache = {});

}  // namespace culet

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// Every environment variable the program reads, in one table, from which the documentation and
// `culet doctor` are made.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "culet/error.h"

namespace culet {

struct EnvVariable {
  std::string_view name;
  std::string_view standard;  ///< what holds where it is not set, for people
  std::string_view meaning;
};

const std::vector<EnvVariable>& env_table();

/// The value of a variable of the table; nothing where it is not set or empty.
std::optional<std::string> env(std::string_view name);

/// CULET_MAX_PROFILING_CONFIGS: a count, or -1 for `all`; 5 where it is not set. Errors: anything
/// else.
Result<int> env_max_profiling_configs();
/// CULET_THREADS; 0 where it is not set. Errors: not a positive number.
Result<int> env_threads();
/// CULET_CACHE_MB; 1000 where it is not set. Errors: not a positive number.
Result<int> env_cache_mb();
/// CULET_CACHE_FOREIGN is 1.
bool env_cache_foreign();
/// CULET_DISABLE is 1: only vendor plans are used. Errors: neither 0 nor 1.
Result<bool> env_disabled();

/// The table as Markdown, for docs/environment.md.
std::string env_markdown();

}  // namespace culet

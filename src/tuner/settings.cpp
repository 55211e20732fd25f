// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// From environment variables to tuning options; the table itself is in base/env.cpp.
#include "culet/settings.h"

#include "base/env.h"
#include "base/subprocess.h"
#include "cache/store_path.h"

namespace culet {

std::vector<Setting> settings() {
  std::vector<Setting> all;
  for (const EnvVariable& variable : env_table()) {
    all.push_back({variable.name, variable.standard, variable.meaning, env(variable.name)});
  }
  return all;
}

std::string settings_markdown() { return env_markdown(); }

std::string log_from_environment() { return env("CULET_LOG").value_or(""); }

std::string store_file(const std::string& named) { return store_path(named); }

void kill_running_compilers() { kill_running_processes(); }

Result<TuneOptions> options_from_environment(const Registry& registry) {
  TuneOptions options;
  const auto top = env_max_profiling_configs();
  if (!top) return tl::unexpected(top.error());
  options.top = *top;
  if (const auto names = env("CULET_BACKENDS")) {
    auto filter = BackendFilter::parse(*names, registry);
    if (!filter) {
      return fail(ErrorCode::invalid_argument, "CULET_BACKENDS: " + filter.error().message);
    }
    options.backends = std::move(*filter);
  }
  if (const auto text = env("CULET_ISOLATION")) {
    const auto isolation = parse_isolation(*text);
    if (!isolation) {
      return fail(ErrorCode::invalid_argument, "CULET_ISOLATION: " + isolation.error().message);
    }
    options.isolation = *isolation;
  }
  const auto disabled = env_disabled();
  if (!disabled) return tl::unexpected(disabled.error());
  if (*disabled) options.backends = BackendFilter{{"vendor"}, {}};
  options.dump_dir = env("CULET_DUMP").value_or("");
  return options;
}

}  // namespace culet

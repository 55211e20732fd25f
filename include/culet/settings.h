// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// What the environment says: the variables culet reads, and the options they stand for. A program
// that wants to be steered by them starts from options_from_environment().
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "culet/device.h"
#include "culet/error.h"
#include "culet/registry.h"
#include "culet/tuner.h"

namespace culet {

/// An environment variable.
struct Setting {
  std::string_view name;
  std::string_view standard;         ///< what holds where it is not set
  std::string_view meaning;          ///< a sentence or two
  std::optional<std::string> value;  ///< as it is set now; nothing where it is unset or empty
};

/// Every variable culet reads, in the order of the documentation.
std::vector<Setting> settings();

/// The same as a Markdown table, without the current values.
std::string settings_markdown();

/// Options with what CULET_BACKENDS, CULET_MAX_PROFILING_CONFIGS, CULET_DISABLE, CULET_DUMP and
/// CULET_ISOLATION say.
/// Errors: invalid_argument, naming the variable.
Result<TuneOptions> options_from_environment(const Registry& registry);

/// CULET_LOG: where a program that tunes appends its log, see RunLog; empty where it is not set.
std::string log_from_environment();

/// The file that open_cache(named) would use, whether it is there or not; empty where it would keep
/// everything in memory. Creates nothing.
std::string store_file(const std::string& named = {});

/// Ends the compilers that this process runs just now. For signal handlers that end the process:
/// compilers run in groups of their own, so that Ctrl-C does not reach them.
void kill_running_compilers();

}  // namespace culet

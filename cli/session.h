// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// From arguments to what a verb works with. Cheap checks come first, so that a typing error is
// answered before a device is opened, and before anything is tuned for minutes.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "arguments.h"
#include "culet/run_log.h"
#include "culet/tuner.h"

namespace culet::cli {

struct Session {
  Registry registry;
  std::vector<Problem> problems;
  ReportFormat format = ReportFormat::table;
  TuneOptions options;
  double budget_seconds = 0;
  DeviceSpec device;
  std::shared_ptr<Cache> cache;
  std::unique_ptr<RunLog> log;        ///< null: none is wanted
  std::vector<std::string> warnings;  ///< the store's, shown before the log began
};

/// Errors name the option and what would be right.
Result<Session> open_session(const Arguments& arguments);

/// Begins the log, if there is one, with what the store warned of so far. Error: it cannot be
/// written.
Result<void> begin_log(Session& session, const Tuner& tuner, const Arguments& arguments);
/// Shows, and logs, what the store warned of since.
void warn_from(const Session& session);
/// Ends it, and passes the exit status on.
int end_log(const Session& session, int status);

/// The problems of the command line and the shapes file, at each m of --m, without repetition.
Result<std::vector<Problem>> read_problems(const Arguments& arguments);

/// --device; CULET_THREADS holds for the CPU where no count of threads is given.
Result<DeviceSpec> open_device(const std::string& text);

/// How a table should look on this output.
RenderOptions table_options(const Arguments& arguments, std::size_t problems);

}  // namespace culet::cli

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// What goes to the terminal beside results: errors and warnings in one line each, the progress
// line, and plain columns.
#pragma once

#include <chrono>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "culet/cache.h"
#include "culet/error.h"
#include "culet/tuner.h"

namespace culet::cli {

/// "culet: error: ..." on standard error, the detail indented below; returns the exit status.
int report_error(const Error& error);
void warn(std::string_view text);
/// Shows every warning that a store has; they are returned, for a log.
std::vector<std::string> warn_from(Cache& cache);

/// Rows with aligned columns, two spaces between; the first row is the header.
std::string columns(const std::vector<std::vector<std::string>>& rows);

/// What somebody wrote, for a message: clipped, in valid UTF-8, without control characters.
std::string shown(std::string_view text);

/// For a shell: in single quotes, unless it needs none.
std::string shell_quoted(std::string_view text);

/// Writes a result to standard output, or to a file where one is named.
Result<void> deliver(const std::string& text, const std::string& file);

/// A result to standard output; returns the exit status.
int print(const std::string& text);

/// One line on standard error that is written over, if that is a terminal; warnings always.
class ProgressLine : public Observer {
 public:
  explicit ProgressLine(int problems);
  ~ProgressLine() override;
  /// The problem that comes next, from 1 on.
  void start(int number, const Problem& problem);
  void finished(const TuneReport& report);
  void clear();

  void progress(const Progress& progress) override;
  void trial(const Problem& problem, const Trial& trial) override;
  void warning(std::string_view text) override;

 private:
  using Clock = std::chrono::steady_clock;
  std::string eta() const;

  const bool terminal_;
  const int problems_;
  int number_ = 0;
  std::string problem_;
  Clock::time_point begin_ = Clock::now(), shown_{};
  double measured_seconds_ = 0;  ///< of problems that were not answered from the store
  int measured_ = 0;
  bool visible_ = false;
};

}  // namespace culet::cli

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// What a tuning run found: every candidate with its outcome, the choice and why. Tables, JSON, CSV
// and Markdown are views of it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "culet/candidate.h"
#include "culet/device.h"
#include "culet/ranking.h"
#include "culet/registry.h"

namespace culet {

enum class Outcome : std::uint8_t {
  ranked,        ///< estimated only: below the cut, or nothing was to be measured
  build_failed,  ///< did not compile or load; reason and log say why
  wrong,         ///< its result differs from the reference beyond the tolerance
  crashed,       ///< took its process or its CUDA context down
  timed_out,     ///< ran longer than a trial may
  measured,      ///< verified and timed
};
std::string_view to_string(Outcome outcome);
Result<Outcome> parse_outcome(std::string_view text);

/// Time of one run, in seconds, with the interval the policy gives for it (95 %).
struct Timing {
  double median = 0;
  double low = 0;
  double high = 0;
  int samples = 0;
};

struct Trial {
  Candidate candidate;
  bool vendor = false;
  bool fallback = false;
  /// Place in Registry::discover's list, which has each vendor's plans in the vendor's own order:
  /// tells its default from the others. -1 where unknown.
  int order = -1;
  std::optional<Estimate> estimate;
  Outcome outcome = Outcome::ranked;
  std::string reason;  ///< of any outcome but `measured`
  std::string log;     ///< compiler's log of a build that failed
  std::optional<Timing> timing;
  double error = 0;  ///< largest |got - reference| / tolerance seen while verifying (<= 1 passes)
  bool from_cache = false;
};

/// A backend that said no, and why.
struct Refusal {
  std::string backend;
  std::string reason;
};

struct TuneReport {
  Problem problem;
  DeviceSpec device;
  std::vector<Trial> trials;  ///< measured ones first, fastest first; then the others
  std::vector<Refusal> refusals;
  int chosen = -1;          ///< index into trials; -1 where nothing was measured
  std::string why;          ///< one sentence
  bool from_cache = false;  ///< nothing was compiled or timed for it
  /// What it waited for: kernels that were compiled while another problem was measured
  /// (TuneOptions::compile_ahead) take no compile_seconds.
  double rank_seconds = 0, compile_seconds = 0, benchmark_seconds = 0, total_seconds = 0;
  double verify_seconds = 0;  ///< of benchmark_seconds, until the first was timed

  /// The vendor's first heuristic of its best-placed backend, and its fastest measured plan; null
  /// where there is none.
  const Trial* vendor_default() const;
  const Trial* vendor_best() const;
  const Trial* choice() const {
    return chosen < 0 ? nullptr : &trials[static_cast<std::size_t>(chosen)];
  }
  /// time(vendor) / time(chosen); nothing where there is no vendor plan.
  std::optional<double> vs_default() const;
  std::optional<double> vs_best() const;
};

/// How many kernels a run compiled and how many candidates it timed, over all problems.
struct Counts {
  std::int64_t compiled = 0;
  std::int64_t timed = 0;
};

enum class ReportFormat : std::uint8_t { table, json, csv, md };
Result<ReportFormat> parse_report_format(std::string_view text);

struct RenderOptions {
  bool color = false;    ///< ANSI colours in tables
  int rows = 8;          ///< trials shown per problem in a table; 0 for all
  bool details = false;  ///< with all reasons and refusals, and what was tried in full
  bool summary_only = false;
  bool tried_only = false;  ///< JSON and CSV: without the trials that were only ranked
};

/// Renders reports of one device.
std::string render(const std::vector<TuneReport>& reports, const Counts& counts,
                   ReportFormat format, const RenderOptions& options = {});

/// Writes text to a file in one step: readers see the old contents or the new. What is not a
/// regular file (a pipe, /dev/null) is written to as it is. Errors: io.
Result<void> save(const std::string& path, std::string_view text);

/// A whole file of text, of at most a gigabyte. Errors: io.
Result<std::string> load(const std::string& path);

}  // namespace culet

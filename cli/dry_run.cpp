// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// `tune --dry-run`: counts candidates as the tuner would shortlist them, and estimates the time.
#include "dry_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <thread>

#include "console.h"

namespace culet::cli {
namespace {

/// One kernel on one core: NVRTC 13 takes 0.57 s for a 128x256 TMA + WGMMA kernel; the C++ compiler
/// about as long for a rendered CPU kernel.
constexpr double kCompileSeconds = 0.6;
/// Verifying one candidate: its run, and the comparison of the sampled tiles.
constexpr double kVerifySeconds = 0.1;

struct Work {
  std::map<std::string, std::pair<int, int>> backends;  ///< name -> candidates, of them tried
  int candidates = 0, compiled = 0, timed = 0;
  int denied = 0;      ///< left out by the user
  std::string pinned;  ///< what the user pinned to the problem, where the space has it
  double timing_seconds = 0;
};

Work work_for(const Session& session, Tuner& tuner, const Problem& problem) {
  Work work;
  const TuneOptions& options = session.options;
  const Candidate* const pin = options.overrides.pinned(problem, session.device.kind);
  const auto report = tuner.rank(problem);
  if (!report) {  // no candidate: none there is, or the user denied them
    for (const RankedCandidate& item :
         session.registry.discover(problem, session.device, options.backends))
      work.denied += options.overrides.denied(item.candidate).empty() ? 0 : 1;
    return work;
  }
  for (const Trial& trial : report->trials) {
    if (!options.overrides.denied(trial.candidate).empty()) {
      ++work.denied;
      continue;
    }
    if (pin != nullptr && trial.candidate == *pin) work.pinned = pin->text();
    auto& [count, tried] = work.backends[trial.candidate.steps.front().backend];
    ++count;
    ++work.candidates;
    if (!trial.reason.empty()) continue;  // why it is not on the shortlist
    ++tried;
    ++work.timed;
    if (!trial.vendor && !trial.fallback) ++work.compiled;
    const double run = trial.estimate ? trial.estimate->seconds : 0;
    work.timing_seconds += kVerifySeconds + (options.policy.min_rounds + 1) *
                                                std::max(options.policy.target_seconds, run);
  }
  return work;
}

std::string by_backend(const Work& work) {
  std::string text;
  for (const auto& [name, counts] : work.backends) {
    text +=
        fmt::format("{}{} {} of {}", text.empty() ? "" : ", ", name, counts.second, counts.first);
  }
  if (text.empty() && work.denied > 0) return "all candidates are denied by the user";
  if (text.empty()) return "no backend can compute it";
  return work.pinned.empty() ? text : text + "; pinned " + work.pinned;
}

}  // namespace

std::string dry_run_text(const Session& session) {
  std::vector<std::vector<std::string>> rows{
      {"problem", "candidates", "compile", "time", "tried of each backend"}};
  Work total;
  Tuner tuner(session.registry, session.device, session.options);
  for (const Problem& problem : session.problems) {
    const Work work = problem.is_empty() ? Work{} : work_for(session, tuner, problem);
    rows.push_back({problem.text(), std::to_string(work.candidates), std::to_string(work.compiled),
                    std::to_string(work.timed),
                    problem.is_empty() ? "nothing to launch" : by_backend(work)});
    total.candidates += work.candidates;
    total.compiled += work.compiled;
    total.timed += work.timed;
    total.timing_seconds += work.timing_seconds;
    total.denied += work.denied;
  }
  const int asked = session.options.compile_threads;
  const int threads =
      asked > 0 ? asked : static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  const double compile = total.compiled * kCompileSeconds / threads;
  const std::string denied =
      total.denied == 0 ? std::string()
                        : fmt::format("{} more are denied by the user (culet deny) and left out.\n",
                                      total.denied);
  return columns(rows) +
         fmt::format(
             "\n{} problems on {}: {} candidates, up to {} compiled and {} timed.\n{}"
             "About {:.0f} s ({:.0f} s compiling on {} threads, {:.0f} s verifying and timing), "
             "less what the store already holds.\n",
             session.problems.size(), session.device.name, total.candidates, total.compiled,
             total.timed, denied, compile + total.timing_seconds, compile, threads,
             total.timing_seconds);
}

}  // namespace culet::cli

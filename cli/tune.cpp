// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// The verbs that end in a report: tune, rank and bench. A problem that fails costs that problem
// only; a device that fails ends the run; whatever was found is delivered in any case.
#include <fmt/format.h>

#include <algorithm>
#include <ctime>
#include <functional>

#include "console.h"
#include "dry_run.h"
#include "observers.h"
#include "session.h"
#include "stop.h"
#include "verbs.h"

namespace culet::cli {
namespace {

/// Errors of one problem, after which others may still succeed.
bool concerns_one_problem(ErrorCode code) {
  return code == ErrorCode::no_candidate || code == ErrorCode::unsupported ||
         code == ErrorCode::build_failed || code == ErrorCode::wrong_result ||
         code == ErrorCode::invalid_argument;
}

/// Why a report without a choice has none, as an error; nothing where that is as it should be.
std::optional<Error> failure_of(const TuneReport& report) {
  if (report.choice() != nullptr || report.problem.is_empty()) return std::nullopt;
  const bool wrong = std::any_of(report.trials.begin(), report.trials.end(),
                                 [](const Trial& t) { return t.outcome == Outcome::wrong; });
  return Error{wrong ? ErrorCode::wrong_result : ErrorCode::no_candidate,
               fmt::format("{}: {}", report.problem.text(), report.why),
               {}};
}

/// What is done with a problem; `next`, if not null, is the one that comes after it.
using Work =
    std::function<Result<TuneReport>(Tuner&, const Problem&, Observer*, const Problem* next)>;

struct Outcomes {
  std::vector<TuneReport> reports;
  int status = 0;  ///< of the first failure
  bool complete = true;
};

Outcomes work_through(const Session& session, Tuner& tuner, const Stop& stop, const Work& work) {
  Outcomes outcomes;
  ProgressLine line(static_cast<int>(session.problems.size()));
  Both observers(line, session.log.get());
  const auto fail_with = [&](Error error, const Problem& problem) {
    line.clear();
    if (error.message.find(problem.text()) == std::string::npos) {
      error.message = problem.text() + ": " + error.message;
    }
    const int status = report_error(error);
    if (outcomes.status == 0) outcomes.status = status;
  };
  const std::vector<Problem>& problems = session.problems;
  for (std::size_t i = 0; i < problems.size(); ++i) {
    if (stop.requested()) break;
    const Problem& problem = problems[i];
    line.start(static_cast<int>(i) + 1, problem);
    auto report =
        work(tuner, problem, &observers, i + 1 < problems.size() ? &problems[i + 1] : nullptr);
    if (!report) {
      if (session.log != nullptr) session.log->failed(problem, report.error());
      if (stop.requested()) break;
      fail_with(report.error(), problem);
      if (concerns_one_problem(report.error().code)) continue;
      outcomes.complete = false;
      break;
    }
    line.finished(*report);
    if (const auto failure = failure_of(*report); failure && !stop.requested())
      fail_with(*failure, problem);
    outcomes.reports.push_back(std::move(*report));
  }
  outcomes.complete = outcomes.complete && !stop.requested();
  return outcomes;
}

int run_with(const Arguments& arguments, Session& session, const Work& work) {
  const Stop stop(session.budget_seconds);
  session.options.stop = stop.flag();
  Tuner tuner(session.registry, session.device, session.options, session.cache);
  if (const auto begun = begin_log(session, tuner, arguments); !begun)
    return report_error(begun.error());
  Outcomes outcomes = work_through(session, tuner, stop, work);
  warn_from(session);
  if (!outcomes.reports.empty()) {
    const auto options = table_options(arguments, outcomes.reports.size());
    const auto delivered = deliver(
        render(outcomes.reports, tuner.counts(), session.format, options), arguments.output);
    if (!delivered) return report_error(delivered.error());
  }
  if (!outcomes.complete && stop.interrupted()) {
    return report_error(
        {ErrorCode::interrupted,
         fmt::format("interrupted after {} of {} problems; finished trials are kept",
                     outcomes.reports.size(), session.problems.size()),
         {}});
  }
  if (!outcomes.complete && stop.out_of_budget()) {
    return report_error(
        {ErrorCode::out_of_budget,
         fmt::format("--budget {}: used up after {} of {} problems", arguments.budget,
                     outcomes.reports.size(), session.problems.size()),
         {}});
  }
  return outcomes.status;
}

/// Nothing on the shortlist failed to compile or compiled with spills.
bool compiles_cleanly(const TuneReport& report) {
  return std::none_of(report.trials.begin(), report.trials.end(), [](const Trial& trial) {
    return trial.outcome == Outcome::build_failed || trial.reason.rfind("compiles with", 0) == 0;
  });
}

/// Where none is named: what is stored as the choice, else the best-ranked of our own.
Result<std::vector<Candidate>> candidates_to_bench(const Arguments& arguments,
                                                   const Session& session) {
  std::vector<Candidate> candidates;
  for (const std::string& text : arguments.candidates) {
    auto candidate = Candidate::parse(text);
    if (!candidate) {
      return fail(candidate.error().code, "--candidate: " + candidate.error().message);
    }
    candidates.push_back(std::move(*candidate));
  }
  if (!candidates.empty()) return candidates;
  const Problem& problem = session.problems.front();
  if (const auto stored = session.cache->find_any_selection(problem, session.device.identity())) {
    candidates.push_back(*stored);
    return candidates;
  }
  for (const RankedCandidate& ranked : session.registry.discover(problem, session.device)) {
    if (ranked.vendor || ranked.fallback) continue;
    candidates.push_back(ranked.candidate);
    break;
  }
  return candidates;
}

}  // namespace

int run_tune(const Arguments& arguments) {
  auto session = open_session(arguments);
  if (!session) return report_error(session.error());
  if (arguments.dry_run) {
    const auto delivered = deliver(dry_run_text(*session), arguments.output);
    return delivered ? 0 : report_error(delivered.error());
  }
  const auto tune = [](Tuner& tuner, const Problem& problem, Observer* observer,
                       const Problem* next) { return tuner.tune(problem, observer, next); };
  const int status = run_with(arguments, *session, tune);
  return end_log(*session, status);
}

int run_rank(const Arguments& arguments) {
  auto session = open_session(arguments);
  if (!session) return report_error(session.error());
  session->options.measure = false;
  bool clean = true;
  const std::clock_t begin = std::clock();
  std::int64_t compiled = 0;
  const auto rank = [&](Tuner& tuner, const Problem& problem, Observer* line, const Problem*) {
    auto report = tuner.rank(problem, arguments.compile, arguments.compile ? line : nullptr);
    compiled = tuner.counts().compiled;
    if (report && arguments.compile) clean = clean && compiles_cleanly(*report);
    return report;
  };
  const int status = run_with(arguments, *session, rank);
  if (compiled > 0) {
    const double seconds = static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC;
    fmt::print(stderr, "culet: compiled {} kernels, {:.2f} s of CPU time each\n", compiled,
               seconds / static_cast<double>(compiled));
  }
  return status == 0 && !clean ? exit_status(ErrorCode::build_failed) : status;
}

int run_bench(const Arguments& arguments) {
  auto session = open_session(arguments);
  if (!session) return report_error(session.error());
  const auto candidates = candidates_to_bench(arguments, *session);
  if (!candidates) return report_error(candidates.error());
  bool wrong = false;
  const auto bench = [&](Tuner& tuner, const Problem& problem, Observer* line, const Problem*) {
    auto report = tuner.bench(problem, *candidates, line);
    if (report) {
      for (const Trial& trial : report->trials) wrong |= trial.outcome == Outcome::wrong;
    }
    return report;
  };
  const int status = run_with(arguments, *session, bench);
  // Here a wrong result is the answer to what was asked, not one rejected candidate of many.
  return end_log(*session, status == 0 && wrong ? exit_status(ErrorCode::wrong_result) : status);
}

}  // namespace culet::cli

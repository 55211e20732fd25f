// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// Plans for a range of m. The range is cut where the best kernel usually changes: at powers of two
// and one and a half of them, because tiles are as high as these. Each piece is tuned at its
// largest m. What was chosen anywhere, and what the vendor and the model propose nearby, then races
// at both ends of each half of a piece, since a plan that wins at one m can lose by half at another
// of the same piece. Each half gets what is least behind.
#include "tuner/plan_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "culet/tuner.h"

namespace culet {
namespace {

/// 1, 2, 3, 4, 6, 8, 12, 16, 24 ...
std::int64_t next_cut(std::int64_t cut) {
  if (cut == 1) return 2;
  return cut % 3 == 0 ? cut / 3 * 4 : cut / 2 * 3;
}

/// [low, high] cut after each of these.
std::vector<MRange> pieces(MRange range) {
  std::vector<MRange> result;
  std::int64_t low = std::max<std::int64_t>(range.low, 1);
  for (std::int64_t top = 1; low <= range.high; top = next_cut(top)) {
    if (top < low) continue;
    result.push_back({low, std::min(top, range.high)});
    low = top + 1;
  }
  return result;
}

void add(const Candidate& candidate, std::vector<Candidate>* to) {
  if (std::find(to->begin(), to->end(), candidate) == to->end()) to->push_back(candidate);
}

/// `m` is one of the piece's.
Problem at(const Problem& piece, std::int64_t m) { return piece.with_m(m).value(); }

/// The first two of the vendor's and of the model's for this m.
void add_proposals(const Problem& p, const Tuner& tuner, std::vector<Candidate>* to) {
  int vendors = 0, own = 0;
  for (const RankedCandidate& each :
       tuner.registry().discover(p, tuner.device(), tuner.options().backends)) {
    if (each.fallback || !tuner.options().overrides.denied(each.candidate).empty()) continue;
    if ((each.vendor ? vendors : own)++ < 2) add(each.candidate, to);
  }
}

/// Whether every step's backend takes all m of the piece; an epilogue's step follows the product's.
bool supported(const Candidate& candidate, const Problem& piece, const Tuner& tuner) {
  return std::all_of(candidate.steps.begin(), candidate.steps.end(), [&](const Step& step) {
    if (step.part == Part::epilogue) return true;
    const Backend* backend = tuner.registry().find(step.backend);
    return backend != nullptr &&
           backend->supports(problem_of(piece, step.part), tuner.device()).yes;
  });
}

/// Seconds of `candidate`; infinite where it was not measured.
double seconds_of(const Candidate& candidate, const std::vector<Trial>& trials) {
  for (const Trial& trial : trials) {
    if (trial.candidate == candidate && trial.outcome == Outcome::measured && trial.timing)
      return trial.timing->median;
  }
  return std::numeric_limits<double>::infinity();
}

}  // namespace

std::vector<MRange> halves(MRange range) {
  const std::int64_t middle = range.low + (range.high - range.low) / 2;
  if (middle == range.high) return {range};
  return {{range.low, middle}, {middle + 1, range.high}};
}

int least_behind(const std::vector<std::vector<double>>& seconds, int preferred, double slack) {
  std::vector<double> behind(seconds.size(), 1);
  for (std::size_t probe = 0; probe < seconds.front().size(); ++probe) {
    double best = std::numeric_limits<double>::infinity();
    for (const auto& times : seconds) best = std::min(best, times[probe]);
    if (std::isinf(best)) continue;
    for (std::size_t i = 0; i < seconds.size(); ++i)
      behind[i] = std::max(behind[i], seconds[i][probe] / best);
  }
  const auto least = std::min_element(behind.begin(), behind.end());
  if (behind[static_cast<std::size_t>(preferred)] <= *least * (1 + slack)) return preferred;
  return static_cast<int>(least - behind.begin());
}

Result<PlanTable> Tuner::plan_table(const Problem& unchecked, Observer* observer) {
  const auto problem = unchecked.validated();
  if (!problem) return tl::unexpected(problem.error());
  std::vector<Problem> parts;
  for (const MRange& range : pieces(problem->m_range)) {
    parts.push_back(at(*problem, range.high));
    parts.back().m_range = range;
  }
  std::vector<Candidate> chosen;  // of each part
  for (std::size_t i = 0; i < parts.size(); ++i) {
    auto report = tune(parts[i], observer, i + 1 < parts.size() ? &parts[i + 1] : nullptr);
    if (!report) return tl::unexpected(report.error());
    if (report->choice() == nullptr) {
      return fail(ErrorCode::no_candidate,
                  fmt::format("{}: {}", report->problem.text(), report->why));
    }
    chosen.push_back(report->choice()->candidate);
  }
  // On a shared CPU so few rounds tell no less apart.
  const double slack = options().policy.noise_floor * (device().is_cuda() ? 1 : 3);
  std::vector<PlanTable::Interval> intervals;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const Problem& part = parts[i];
    const bool pinned = options().overrides.pinned(part, device().kind) != nullptr;
    std::vector<std::pair<MRange, Candidate>> served;  // halves, or the whole piece
    for (const MRange& range : halves(part.m_range)) {
      std::vector<Candidate> contenders = {chosen[i]};
      std::vector<std::int64_t> ends = {range.low};
      if (range.high > range.low) ends.push_back(range.high);
      if (options().measure && !pinned) {
        for (const Candidate& candidate : chosen)
          if (supported(candidate, part, *this)) add(candidate, &contenders);
        for (const std::int64_t m : ends) add_proposals(at(part, m), *this, &contenders);
      }
      std::vector<std::vector<double>> seconds(contenders.size());
      for (const std::int64_t m : ends) {
        if (contenders.size() == 1) break;
        const auto trials = contest(at(part, m), contenders, observer);
        if (!trials) return tl::unexpected(trials.error());
        if (options().stop != nullptr && options().stop->load())
          return fail(ErrorCode::interrupted, "stopped before the table was complete");
        for (std::size_t c = 0; c < contenders.size(); ++c)
          seconds[c].push_back(seconds_of(contenders[c], *trials));
      }
      const auto& best = contenders[static_cast<std::size_t>(least_behind(seconds, 0, slack))];
      if (!served.empty() && served.back().second == best) {
        served.back().first.high = range.high;
      } else {
        served.emplace_back(range, best);
      }
    }
    // A plan is made for the m of its piece, as it was raced, so pieces are not joined.
    for (const auto& [range, candidate] : served) {
      auto loaded = plan(at(part, range.high), candidate);
      if (!loaded) return tl::unexpected(loaded.error());
      intervals.push_back({range, std::move(*loaded)});
    }
  }
  return PlanTable::make(std::move(intervals));
}

}  // namespace culet

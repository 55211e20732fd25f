// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// Plans for a range of m. The range is cut where the best kernel usually changes: at powers of two
// and one and a half of them, because tiles are as high as these. Each piece is tuned at its
// largest m. What was chosen anywhere, and what the vendor and the model propose nearby, then races
// at both ends of each half of a piece, since a plan that wins at one m can lose by half at another
// of the same piece. Each half gets what is least behind; where that is far, it is halved again.
#include "tuner/plan_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <utility>

#include "culet/tuner.h"

namespace culet {
namespace {

constexpr int kMostCuts = 2;  ///< of a piece's half: down to an eighth

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

/// At one m of a range of the problem's, for that range.
Problem at(const Problem& problem, const MRange& range, std::int64_t m) {
  Problem p = problem.with_m(m).value();
  p.m_range = range;
  return p;
}

/// What is known of one m before anything runs.
class Outlook {
 public:
  Outlook(const Problem& p, const Tuner& tuner)
      : tuner_(tuner),
        ranked_(tuner.registry().discover(p, tuner.device(), tuner.options().backends)) {
    for (const RankedCandidate& each : ranked_)
      if (each.estimate) best_ = std::min(best_, each.estimate->seconds);
  }

  /// Adds the first two of the vendor's and of the model's.
  void propose(std::vector<Candidate>* to) const {
    int vendors = 0, own = 0;
    for (const RankedCandidate& each : ranked_) {
      if (each.fallback || !tuner_.options().overrides.denied(each.candidate).empty()) continue;
      if ((each.vendor ? vendors : own)++ < 2) add(each.candidate, to);
    }
  }

  /// Whether the model puts it so far behind that it need not run; never the vendor's.
  bool is_hopeless(const Candidate& candidate) const {
    constexpr double kHopeless = 1.5;
    const auto found = std::find_if(ranked_.begin(), ranked_.end(),
                                    [&](const auto& each) { return each.candidate == candidate; });
    return found != ranked_.end() && found->estimate &&
           found->estimate->seconds > kHopeless * best_;
  }

 private:
  const Tuner& tuner_;
  std::vector<RankedCandidate> ranked_;
  double best_ = std::numeric_limits<double>::infinity();
};

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

Served least_behind(const std::vector<std::vector<double>>& seconds, int preferred, double slack) {
  std::vector<double> all(seconds.size(), 1), most(seconds.size(), 1);
  int probes = 0;
  for (std::size_t probe = 0; probe < seconds.front().size(); ++probe) {
    double best = std::numeric_limits<double>::infinity();
    for (const auto& times : seconds) best = std::min(best, times[probe]);
    if (std::isinf(best)) continue;
    ++probes;
    for (std::size_t i = 0; i < seconds.size(); ++i) {
      all[i] *= seconds[i][probe] / best;
      most[i] = std::max(most[i], seconds[i][probe] / best);
    }
  }
  auto chosen = static_cast<std::size_t>(std::min_element(all.begin(), all.end()) - all.begin());
  const auto kept = static_cast<std::size_t>(preferred);
  if (all[kept] <= all[chosen] * std::pow(1 + slack, probes)) chosen = kept;
  return {static_cast<int>(chosen), most[chosen]};
}

namespace {

/// Cuts a piece until each part has a plan that is nowhere far behind.
class Cutter {
 public:
  using Contest =
      std::function<Result<std::vector<Trial>>(const Problem&, const std::vector<Candidate>&)>;
  struct Part {
    MRange range;
    Candidate candidate;
  };

  Cutter(const Tuner& tuner, const Problem& piece, Contest contest)
      : tuner_(tuner), piece_(piece), contest_(std::move(contest)) {}

  /// Adds the parts of `range`, raced among the contenders, of which the first is preferred, and
  /// what is proposed at the range's ends. It is halved `cuts` times at most.
  Result<void> serve(const MRange& range, std::vector<Candidate> contenders, int cuts) {
    std::vector<std::int64_t> ends = {range.low};
    if (range.high > range.low) ends.push_back(range.high);
    add_proposals_and_drop_hopeless(range, ends, &contenders);
    if (contenders.size() == 1) {
      parts_.push_back({range, contenders.front()});
      return {};
    }
    std::vector<std::vector<double>> seconds(contenders.size());
    for (const std::int64_t m : ends) {
      const auto trials = contest_(at(piece_, range, m), contenders);
      if (!trials) return tl::unexpected(trials.error());
      for (std::size_t c = 0; c < contenders.size(); ++c)
        seconds[c].push_back(seconds_of(contenders[c], *trials));
    }
    // So few rounds tell no less apart; and among many one always looks faster than it is.
    const double slack = tuner_.device().is_cuda() ? 0.01 : 0.03;
    const Served served = least_behind(seconds, 0, slack);
    if (served.behind <= 1 + 4 * slack || cuts == 0 || ends.size() == 1) {
      parts_.push_back({range, contenders[static_cast<std::size_t>(served.index)]});
      return {};
    }
    const std::vector<Candidate> near = near_at_an_end(contenders, seconds);
    for (const MRange& half : halves(range)) {
      if (auto ok = serve(half, near, cuts - 1); !ok) return ok;
    }
    return {};
  }

  const std::vector<Part>& parts() const { return parts_; }

 private:
  /// The preferred, who is the first, stays.
  void add_proposals_and_drop_hopeless(const MRange& range, const std::vector<std::int64_t>& ends,
                                       std::vector<Candidate>* contenders) const {
    std::vector<Outlook> outlooks;
    for (const std::int64_t m : ends) {
      outlooks.emplace_back(at(piece_, range, m), tuner_);
      outlooks.back().propose(contenders);
    }
    const Candidate preferred = contenders->front();
    std::erase_if(*contenders, [&](const Candidate& candidate) {
      const auto is_hopeless = [&](const Outlook& at) { return at.is_hopeless(candidate); };
      return !(candidate == preferred) &&
             std::all_of(outlooks.begin(), outlooks.end(), is_hopeless);
    });
  }

  /// The preferred, and those that are not far behind at one end or the other.
  static std::vector<Candidate> near_at_an_end(const std::vector<Candidate>& contenders,
                                               const std::vector<std::vector<double>>& seconds) {
    constexpr double kFar = 1.25;
    std::vector<Candidate> near = {contenders.front()};
    for (std::size_t end = 0; end < seconds.front().size(); ++end) {
      double best = std::numeric_limits<double>::infinity();
      for (const auto& times : seconds) best = std::min(best, times[end]);
      for (std::size_t c = 0; c < contenders.size(); ++c)
        if (seconds[c][end] <= kFar * best) add(contenders[c], &near);
    }
    return near;
  }

  const Tuner& tuner_;
  const Problem& piece_;
  Contest contest_;
  std::vector<Part> parts_;
};

}  // namespace

Result<PlanTable> Tuner::plan_table(const Problem& unchecked, Observer* observer) {
  const auto problem = unchecked.validated();
  if (!problem) return tl::unexpected(problem.error());
  std::vector<Problem> parts;
  for (const MRange& range : pieces(problem->m_range)) {
    parts.push_back(at(*problem, range, range.high));
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
  const auto race = [&](const Problem& p,
                        const std::vector<Candidate>& contenders) -> Result<std::vector<Trial>> {
    auto trials = contest(p, contenders, observer);
    if (trials && options().stop != nullptr && options().stop->load())
      return fail(ErrorCode::interrupted, "stopped before the table was complete");
    return trials;
  };
  std::vector<PlanTable::Interval> intervals;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const Problem& part = parts[i];
    Cutter cutter(*this, part, race);
    std::vector<Cutter::Part> served = {{part.m_range, chosen[i]}};
    const Candidate* pin = options().overrides.pinned(part, device().kind);
    if (options().measure && !(pin != nullptr && *pin == chosen[i])) {
      std::vector<Candidate> contenders = {chosen[i]};
      for (const Candidate& candidate : chosen)
        if (supported(candidate, part, *this)) add(candidate, &contenders);
      for (const MRange& half : halves(part.m_range)) {
        if (auto ok = cutter.serve(half, contenders, kMostCuts); !ok)
          return tl::unexpected(ok.error());
      }
      served = cutter.parts();
    }
    // A plan is made for the m that it serves, as it was raced: a tile's width may depend on them.
    for (const auto& [range, candidate] : served) {
      auto loaded = plan(at(part, range, range.high), candidate);
      if (!loaded) return tl::unexpected(loaded.error());
      intervals.push_back({range, std::move(*loaded)});
    }
  }
  return PlanTable::make(std::move(intervals));
}

}  // namespace culet

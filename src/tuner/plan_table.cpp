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
#include <map>
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
        ranked_(tuner.registry().discover(p, tuner.device(), tuner.options().backends)) {}

  /// Adds the first two of the vendor's and of the model's.
  void propose(std::vector<Candidate>* to) const {
    int vendors = 0, own = 0;
    for (const RankedCandidate& each : ranked_) {
      if (each.fallback || !tuner_.options().overrides.denied(each.candidate).empty()) continue;
      if ((each.vendor ? vendors : own)++ < 2) add(each.candidate, to);
    }
  }

  /// Those that the model puts far behind the best of their backend among them: how two of one
  /// backend compare it knows better than how two backends do. Never the vendor's.
  std::vector<bool> hopeless(const std::vector<Candidate>& contenders) const {
    constexpr double kHopeless = 1.5;
    std::vector<double> seconds(contenders.size(), 0);
    std::map<std::string, double> best;
    for (std::size_t i = 0; i < contenders.size(); ++i) {
      const auto found = std::find_if(ranked_.begin(), ranked_.end(), [&](const auto& each) {
        return each.candidate == contenders[i];
      });
      if (found == ranked_.end() || found->vendor || !found->estimate) continue;
      seconds[i] = found->estimate->seconds;
      double& of_backend = best.try_emplace(backend_of(contenders[i]), seconds[i]).first->second;
      of_backend = std::min(of_backend, seconds[i]);
    }
    std::vector<bool> result;
    for (std::size_t i = 0; i < contenders.size(); ++i)
      result.push_back(seconds[i] > kHopeless * best[backend_of(contenders[i])]);
    return result;
  }

 private:
  static const std::string& backend_of(const Candidate& candidate) {
    return candidate.steps.front().backend;
  }

  const Tuner& tuner_;
  std::vector<RankedCandidate> ranked_;
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

/// The least of all candidates' seconds at a probe.
double fastest_at(std::size_t probe, const std::vector<std::vector<double>>& seconds) {
  double fastest = std::numeric_limits<double>::infinity();
  for (const auto& times : seconds) fastest = std::min(fastest, times[probe]);
  return fastest;
}

/// What came of `candidate`.
const Trial* trial_of(const Candidate& candidate, const std::vector<Trial>& trials) {
  const auto found = std::find_if(trials.begin(), trials.end(),
                                  [&](const Trial& trial) { return trial.candidate == candidate; });
  return found == trials.end() ? nullptr : &*found;
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
    const double best = fastest_at(probe, seconds);
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
  /// what is proposed at the range's ends. It is halved `cuts` times at most, or until something is
  /// right at both ends. Errors (no_candidate): at some m nothing is.
  Result<void> serve(const MRange& range, std::vector<Candidate> contenders, int cuts) {
    std::vector<std::int64_t> ends = {range.low};
    if (range.high > range.low) ends.push_back(range.high);
    add_proposals_and_drop_hopeless(range, ends, &contenders);
    std::vector<std::vector<double>> seconds(contenders.size());
    std::vector<std::string> failures(contenders.size());
    for (const std::int64_t m : ends) {
      const auto trials = contest_(at(piece_, range, m), contenders);
      if (!trials) return tl::unexpected(trials.error());
      for (std::size_t c = 0; c < contenders.size(); ++c) {
        const Trial* trial = trial_of(contenders[c], *trials);
        const bool timed = trial != nullptr && trial->outcome == Outcome::measured && trial->timing;
        seconds[c].push_back(timed ? trial->timing->median
                                   : std::numeric_limits<double>::infinity());
        // What the time was not enough for is only ranked.
        if (!timed && trial != nullptr && trial->outcome != Outcome::ranked)
          failures[c] = fmt::format("m={}: {} is {}: {}", m, contenders[c].text(),
                                    to_string(trial->outcome), trial->reason);
      }
    }
    // So few rounds tell no less apart; and among many one always looks faster than it is.
    const double slack = tuner_.device().is_cuda() ? 0.01 : 0.03;
    const Served served = least_behind(seconds, 0, slack);
    const auto index = static_cast<std::size_t>(served.index);
    const bool right = failures[index].empty();
    const double limit = tuner_.device().is_cuda() ? 1.02 : 1.12;
    const bool far = served.behind > limit && !std::isinf(served.behind);
    if (right && (!far || cuts <= 0 || ends.size() == 1)) {
      parts_.push_back({range, contenders[index]});
      return {};
    }
    if (ends.size() == 1) return fail(ErrorCode::no_candidate, failures[index]);
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
    std::vector<bool> everywhere(contenders->size(), true);
    for (const Outlook& outlook : outlooks) {
      const std::vector<bool> here = outlook.hopeless(*contenders);
      for (std::size_t i = 0; i < here.size(); ++i) everywhere[i] = everywhere[i] && here[i];
    }
    std::vector<Candidate> kept = {contenders->front()};
    for (std::size_t i = 1; i < contenders->size(); ++i)
      if (!everywhere[i]) kept.push_back((*contenders)[i]);
    *contenders = std::move(kept);
  }

  /// The preferred, and those that are not far behind at one end or the other.
  static std::vector<Candidate> near_at_an_end(const std::vector<Candidate>& contenders,
                                               const std::vector<std::vector<double>>& seconds) {
    constexpr double kFar = 1.25;
    std::vector<Candidate> near = {contenders.front()};
    for (std::size_t end = 0; end < seconds.front().size(); ++end) {
      const double best = fastest_at(end, seconds);
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
    for (auto [range, candidate] : served) {
      if (intervals.empty()) range.low = problem->m_range.low;  // whatever serves 1 serves 0
      auto loaded = plan(at(part, range, range.high), candidate);
      if (!loaded) return tl::unexpected(loaded.error());
      intervals.push_back({range, std::move(*loaded)});
    }
  }
  return PlanTable::make(std::move(intervals));
}

}  // namespace culet

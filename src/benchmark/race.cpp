// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// The rounds of a race.
#include "benchmark/race.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <numeric>
#include <random>

namespace culet::benchmark {
namespace {

class Race {
 public:
  Race(int count, const std::vector<bool>& droppable, const RaceRules& rules)
      : rules_(rules), entries_(static_cast<std::size_t>(count)) {
    for (std::size_t i = 0; i < entries_.size(); ++i) {
      entries_[i].droppable = i < droppable.size() && droppable[i];
      running_.push_back(static_cast<int>(i));
    }
  }

  std::vector<RaceResult> run() {
    const int rounds = run_rounds(rules_.policy.max_rounds, rules_.policy.drop_ratio);
    const bool held_back = rules_.held_back && rules_.held_back();
    if (held_back && rules_.policy.settle_seconds > 0) run_final(rounds);
    std::vector<RaceResult> results;
    for (Entry& entry : entries_) results.push_back(finish(entry));
    return results;
  }

 private:
  struct Entry {
    bool droppable = false;
    std::vector<double> rounds;
    std::optional<Timing> before;  ///< the final
    RaceResult result;             ///< outcome other than measured: out of the race with this
  };

  bool stopped() const { return rules_.stop != nullptr && rules_.stop->load(); }

  /// Returns how many there were.
  int run_rounds(int most, double drop_ratio) {
    const int fewest = rules_.policy.min_rounds;
    int round = 0;
    for (; round < most && !running_.empty() && !stopped(); ++round) {
      run_round(round);
      update_drift();
      const bool enough = round + 1 >= fewest;
      if (round >= 1) drop_hopeless(drop_ratio);
      if (enough) keep_deciding();
      if (rules_.on_round) {
        const bool more = !running_.empty() && round + 1 < most;
        const int total = !more ? round + 1 : !enough ? fewest : most;
        rules_.on_round(rounds_before_ + round + 1, rounds_before_ + total);
      }
    }
    return round;
  }

  /// In a round everybody runs at the clock that the power of all together leaves, and who needs
  /// the fewest cycles is the fastest. Whoever runs on has the clock that its own power leaves, and
  /// energy counts as well: that is what a user sees. So those who may be the fastest, and who may
  /// not be dropped, then run alone until their clock has settled, and that is their time. What the
  /// others took is moved by as much as that of any of these, so that nobody is flattered by not
  /// having been there. A final that is stopped has not been.
  void run_final(int rounds_before) {
    double fastest = std::numeric_limits<double>::infinity();
    for (Entry& entry : entries_) {
      if (!timed(entry)) continue;
      entry.before = timing(entry);
      fastest = std::min(fastest, entry.before->median);
    }
    running_.clear();
    for (std::size_t i = 0; i < entries_.size(); ++i) {
      const Entry& entry = entries_[i];
      if (entry.before &&
          (!entry.droppable || entry.before->median <= rules_.policy.final_ratio * fastest))
        running_.push_back(static_cast<int>(i));
    }
    if (running_.size() < 2 || !(fastest > 0)) return;
    for (Entry& entry : entries_) entry.rounds.clear();
    drift_.clear();
    settle_seconds_ = rules_.policy.settle_seconds;
    rounds_before_ = rounds_before;
    run_rounds(rules_.policy.max_rounds, (1 + rules_.policy.final_ratio) / 2);
    if (stopped()) {
      for (Entry& entry : entries_) {
        entry.rounds.clear();
        entry.result.to_be_timed_again = true;
      }
      return;
    }
    double most = 0;
    for (const Entry& entry : entries_) {
      if (timed(entry)) most = std::max(most, timing(entry).median / entry.before->median);
    }
    if (most > 0) moved_ = most;
  }

  // Rounds come in pairs, the second in the first's order backwards, so that a drift of clocks or
  // temperature falls on all alike. The order is by chance (the same in every race of as many), so
  // that nobody always runs in the wake of the same neighbours.
  std::vector<int> order_of(int round) const {
    std::vector<int> order(entries_.size());
    std::iota(order.begin(), order.end(), 0);
    std::mt19937 chance(static_cast<unsigned>(round / 2));
    std::shuffle(order.begin(), order.end(), chance);
    if (round % 2 == 1) std::reverse(order.begin(), order.end());
    std::erase_if(order, [this](int index) { return !runs(index); });
    return order;
  }

  void run_round(int round) {
    for (const int index : order_of(round)) {
      if (stopped()) return;
      Entry& entry = entries_[static_cast<std::size_t>(index)];
      const Result<double> seconds = rules_.sample(index, rounds_before_ + round, settle_seconds_);
      if (!seconds) {
        retire(index, outcome_of(seconds.error()), seconds.error().message);
      } else if (*seconds > rules_.policy.trial_seconds) {
        retire(index, Outcome::timed_out,
               fmt::format("one run takes {:.3g} s, more than the {:.3g} s a trial may", *seconds,
                           rules_.policy.trial_seconds));
      } else {
        entry.rounds.push_back(*seconds);
      }
    }
    std::erase_if(running_, [&](int index) {
      return entries_[static_cast<std::size_t>(index)].result.outcome != Outcome::measured;
    });
  }

  void retire(int index, Outcome outcome, std::string reason) {
    RaceResult& result = entries_[static_cast<std::size_t>(index)].result;
    result.outcome = outcome;
    result.reason = std::move(reason);
    if (rules_.left) rules_.left(index);
  }

  void update_drift() {
    if (rules_.statistic != Statistic::median) return;
    std::vector<std::vector<double>> times;
    for (const Entry& entry : entries_) {
      if (timed(entry)) times.push_back(entry.rounds);
    }
    drift_ = shared_drift(times);
  }

  static bool timed(const Entry& entry) {
    return entry.result.outcome == Outcome::measured && !entry.rounds.empty();
  }

  /// What is left of an entry's rounds without what they share with everybody's.
  Timing timing(const Entry& entry) const {
    std::vector<double> rounds = entry.rounds;
    for (std::size_t i = 0; i < std::min(rounds.size(), drift_.size()); ++i) rounds[i] /= drift_[i];
    return summarise(std::move(rounds), rules_.statistic);
  }
  Timing timing(int index) const { return timing(entries_[static_cast<std::size_t>(index)]); }

  int leader() const {
    int best = -1;
    double best_seconds = 0;
    for (const int index : running_) {
      if (entries_[static_cast<std::size_t>(index)].rounds.empty()) continue;
      const double seconds = timing(index).median;
      if (best < 0 || seconds < best_seconds) {
        best = index;
        best_seconds = seconds;
      }
    }
    return best;
  }

  template <typename Keep>
  void keep_if(const Keep& keep) {
    std::vector<int> kept;
    for (const int index : running_) {
      if (keep(index)) {
        kept.push_back(index);
      } else if (rules_.left) {
        rules_.left(index);
      }
    }
    running_ = std::move(kept);
  }

  bool runs(int index) const {
    return std::find(running_.begin(), running_.end(), index) != running_.end();
  }

  void drop_hopeless(double ratio) {
    const int best = leader();
    if (best < 0) return;
    const double limit = timing(best).median * ratio;
    keep_if([&](int index) {
      const Entry& entry = entries_[static_cast<std::size_t>(index)];
      return !entry.droppable || entry.rounds.empty() || timing(index).median <= limit;
    });
  }

  /// Everybody's time, with an interval in which more rounds could still move it; nothing for those
  /// that failed.
  std::vector<std::optional<Timing>> movable_times() const {
    std::vector<std::optional<Timing>> times(entries_.size());
    for (std::size_t i = 0; i < entries_.size(); ++i) {
      const Entry& entry = entries_[i];
      if (!timed(entry)) continue;
      Timing& time = times[i].emplace(timing(entry));
      if (!runs(static_cast<int>(i))) {
        time.low = time.high = time.median;
      } else if (rules_.statistic == Statistic::minimum) {
        // A smallest round can still become smaller. With twice what supports it choices repeat
        // best in a model of a busy host (repeat_test.cpp).
        time.low = time.median - 2 * (time.high - time.median);
      }
    }
    return times;
  }

  void keep_deciding() {
    std::vector<bool> decides(entries_.size(), false);
    if (rules_.deciding) decides = rules_.deciding(movable_times());
    keep_if([&](int index) { return decides[static_cast<std::size_t>(index)]; });
    // What one alone takes cannot be told from what the device does.
    if (running_.size() == 1) keep_if([](int) { return false; });
  }

  RaceResult finish(Entry& entry) const {
    RaceResult result = std::move(entry.result);
    if (result.outcome != Outcome::measured) return result;
    if (entry.rounds.empty() && entry.before) {
      result.timing = *entry.before;
      for (double* time : {&result.timing.median, &result.timing.low, &result.timing.high})
        *time *= moved_;
      return result;
    }
    if (entry.rounds.empty()) {
      result.outcome = Outcome::ranked;
      result.reason = "stopped before it was timed";
      return result;
    }
    result.timing = timing(entry);
    return result;
  }

  const RaceRules& rules_;
  std::vector<Entry> entries_;
  std::vector<int> running_;
  std::vector<double> drift_;  ///< of each round, by update_drift()
  // Of the final:
  int rounds_before_ = 0;
  double settle_seconds_ = 0, moved_ = 1;
};

}  // namespace

Outcome outcome_of(const Error& error) {
  switch (error.code) {
    case ErrorCode::out_of_budget:
      return Outcome::timed_out;
    case ErrorCode::build_failed:
    case ErrorCode::unsupported:
    case ErrorCode::invalid_argument:
      return Outcome::build_failed;
    default:
      return Outcome::crashed;
  }
}

std::vector<RaceResult> run_race(int count, const std::vector<bool>& droppable,
                                 const RaceRules& rules) {
  return Race(count, droppable, rules).run();
}

}  // namespace culet::benchmark

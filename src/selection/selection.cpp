// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// The rules that decide, in the order in which they apply, each with the words that explain it.
#include "selection/selection.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <set>

#include "base/units.h"

namespace culet {
namespace {

bool is_timed(const Trial& trial) {
  return trial.outcome == Outcome::measured && trial.timing.has_value() && trial.timing->median > 0;
}

double median(const Trial& trial) { return trial.timing->median; }

double estimated(const Trial& trial) {
  return trial.estimate ? trial.estimate->seconds : std::numeric_limits<double>::infinity();
}

// Faster by more than the noise floor, and by more than both intervals allow for.
bool clearly_beats(const Trial& challenger, const Trial& vendor, double noise_floor) {
  return median(challenger) * (1 + noise_floor) < median(vendor) &&
         challenger.timing->high < vendor.timing->low;
}

// The names of a candidate's backends: enough to tell it apart in a sentence about two.
std::string short_name(const Trial& trial) {
  std::string name;
  for (const Step& step : trial.candidate.steps) {
    if (!name.empty()) name += " + ";
    name += step.backend;
  }
  return name;
}

class Chooser {
 public:
  Chooser(const std::vector<Trial>& trials, double noise_floor)
      : trials_(trials), noise_floor_(noise_floor) {
    for (int i = 0; i < static_cast<int>(trials.size()); ++i) {
      const Trial& trial = at(i);
      if (!is_timed(trial)) continue;
      if (trial.vendor) {
        vendors_.push_back(i);
        vendor_ = faster(vendor_, i);
      } else if (trial.fallback) {
        fallback_ = faster(fallback_, i);
      } else {
        own_.push_back(i);
        fastest_own_ = faster(fastest_own_, i);
      }
    }
  }

  Selection run() const {
    if (vendor_ >= 0) return against_vendor();
    if (!own_.empty()) return among_own();
    if (fallback_ < 0) return {-1, "no candidate was measured"};
    return {fallback_,
            fmt::format("nothing but the fallback {} was measured", short_name(at(fallback_)))};
  }

 private:
  const Trial& at(int index) const { return trials_[static_cast<std::size_t>(index)]; }

  // Whether x stands before y in its vendor's own order, then by text. -1: it is not known.
  bool before(int x, int y) const {
    const int a = at(x).order, b = at(y).order;
    if (a != b) return a >= 0 && (b < 0 || a < b);
    return at(x).candidate.text() < at(y).candidate.text();
  }

  // The smaller median; equal ones by text, so that the order of the trials never decides.
  int faster(int x, int y) const {
    if (x < 0) return y;
    if (median(at(x)) != median(at(y))) return median(at(x)) < median(at(y)) ? x : y;
    return at(x).candidate.text() <= at(y).candidate.text() ? x : y;
  }

  // Of candidates as fast as the fastest within the noise, the better-ranked, then by text.
  int break_tie(const std::vector<int>& candidates, bool* tied) const {
    int fastest = -1;
    for (const int i : candidates) fastest = faster(fastest, i);
    int best = fastest;
    for (const int i : candidates) {
      if (i == fastest || median(at(i)) > median(at(fastest)) * (1 + noise_floor_)) continue;
      *tied = true;
      const double here = estimated(at(i)), there = estimated(at(best));
      if (here < there || (here == there && at(i).candidate.text() < at(best).candidate.text()))
        best = i;
    }
    return best;
  }

  // Of vendor plans as fast as the fastest within the noise, the vendor's first: which of them
  // measures best is chance, and the first is what a caller had before.
  int vendor_choice() const {
    int best = vendor_;
    for (const int i : vendors_) {
      const bool tied = median(at(i)) <= median(at(vendor_)) * (1 + noise_floor_);
      if (tied && before(i, best)) best = i;
    }
    return best;
  }

  std::string tie_note(bool tied) const {
    return tied ? fmt::format(" (the better-ranked of those within {:.3g} %)", noise_floor_ * 100)
                : std::string();
  }

  Selection against_vendor() const {
    const Trial& vendor = at(vendor_);
    std::vector<int> challengers;
    for (const int i : own_) {
      if (clearly_beats(at(i), vendor, noise_floor_)) challengers.push_back(i);
    }
    if (challengers.empty()) {
      const int kept = vendor_choice();
      return {kept, why_vendor(at(kept))};
    }
    bool tied = false;
    const int winner = break_tie(challengers, &tied);
    return {winner,
            fmt::format("{} at {} is {} as fast as the best vendor plan, {} at {}{}",
                        short_name(at(winner)), format_seconds(median(at(winner))),
                        format_ratio(median(vendor) / median(at(winner))), short_name(vendor),
                        format_seconds(median(vendor)), tie_note(tied))};
  }

  std::string why_vendor(const Trial& vendor) const {
    const char* tied = &vendor == &at(vendor_) ? "" : ", the vendor's first of equals";
    const std::string kept = fmt::format("vendor plan {} at {}{}", short_name(vendor),
                                         format_seconds(median(vendor)), tied);
    if (own_.empty()) return kept + ": no own candidate was measured";
    const Trial& own = at(fastest_own_);
    if (median(own) >= median(vendor)) {
      return fmt::format("{}: the fastest own candidate, {}, takes {}", kept, short_name(own),
                         format_seconds(median(own)));
    }
    return fmt::format(
        "{} is kept: the fastest own candidate, {} at {}, is not faster beyond the "
        "noise",
        kept, short_name(own), format_seconds(median(own)));
  }

  Selection among_own() const {
    bool tied = false;
    const int winner = break_tie(own_, &tied);
    return {winner, fmt::format("no vendor plan was measured; {} at {} is the fastest of {} own "
                                "candidate{}{}",
                                short_name(at(winner)), format_seconds(median(at(winner))),
                                own_.size(), own_.size() == 1 ? "" : "s", tie_note(tied))};
  }

  const std::vector<Trial>& trials_;
  double noise_floor_;
  std::vector<int> own_, vendors_;
  int vendor_ = -1, fallback_ = -1, fastest_own_ = -1;
};

}  // namespace

Selection select(const std::vector<Trial>& trials, double noise_floor) {
  return Chooser(trials, noise_floor).run();
}

std::vector<bool> deciding(std::vector<Trial> trials, double noise_floor) {
  std::vector<bool> decides(trials.size(), false);
  const auto selected = [&] { return select(trials, noise_floor).index; };
  const auto at = [&](int i) -> Trial& { return trials[static_cast<std::size_t>(i)]; };
  const int chosen = selected();
  if (chosen < 0) return decides;
  std::vector<int> timed;
  int fastest[] = {-1, -1};  // own, the vendor's
  for (int i = 0; i < static_cast<int>(trials.size()); ++i) {
    if (!is_timed(at(i))) continue;
    timed.push_back(i);
    int& of_kind = fastest[at(i).vendor ? 1 : 0];
    if (of_kind < 0 || median(at(i)) < median(at(of_kind))) of_kind = i;
  }
  // Moves a time to an end of its interval, and back.
  const auto move = [&](int i, double seconds) {
    const Timing before = *at(i).timing;
    at(i).timing = Timing{seconds, seconds, seconds, before.samples};
    return before;
  };
  // Marks one whose time makes another be selected than `otherwise`, and that other.
  const auto probe = [&](int i, double seconds, int otherwise) {
    const Timing before = move(i, seconds);
    const int index = selected();
    at(i).timing = before;
    if (index == otherwise) return;
    decides[static_cast<std::size_t>(i)] = true;
    if (index >= 0) decides[static_cast<std::size_t>(index)] = true;
  };
  for (const int i : timed) {
    const Timing timing = *at(i).timing;
    probe(i, timing.low, chosen);
    probe(i, timing.high, chosen);
  }
  const std::set<int> measures = {chosen, fastest[0], fastest[1]};
  for (const int measure : measures) {
    if (measure < 0) continue;
    const Timing before = move(measure, at(measure).timing->high);
    const int otherwise = selected();
    for (const int i : timed) {
      if (i != measure) probe(i, at(i).timing->low, otherwise);
    }
    at(measure).timing = before;
  }
  if (std::find(decides.begin(), decides.end(), true) == decides.end()) return decides;
  for (const int i : measures)
    if (i >= 0) decides[static_cast<std::size_t>(i)] = true;
  return decides;
}

Selection select_by_model(const std::vector<Trial>& trials) {
  int own = -1, vendor = -1, fallback = -1;
  const auto at = [&](int i) -> const Trial& { return trials[static_cast<std::size_t>(i)]; };
  const auto better = [&](int i, int than) {
    if (than < 0 || estimated(at(i)) != estimated(at(than))) {
      return than < 0 || estimated(at(i)) < estimated(at(than));
    }
    // As discovery lists them, so that the choice is the first row of a ranking.
    if (at(i).order != at(than).order) return at(i).order < at(than).order;
    return at(i).candidate.text() < at(than).candidate.text();
  };
  for (int i = 0; i < static_cast<int>(trials.size()); ++i) {
    const Trial& trial = at(i);
    const bool usable = trial.outcome == Outcome::ranked || trial.outcome == Outcome::measured;
    if (!usable) continue;
    if (trial.vendor) {
      if (vendor < 0) vendor = i;  // a vendor's candidates come in its own order of preference
    } else if (trial.fallback) {
      if (fallback < 0) fallback = i;
    } else if (trial.estimate && better(i, own)) {
      own = i;
    }
  }
  if (own >= 0) {
    return {own, fmt::format("nothing was measured; the model ranks {} first, at {} limited by {}",
                             short_name(at(own)), format_seconds(estimated(at(own))),
                             to_string(at(own).estimate->limiter))};
  }
  if (vendor >= 0) {
    return {vendor, fmt::format("nothing was measured and no own candidate is ranked; {} is the "
                                "vendor's first plan",
                                short_name(at(vendor)))};
  }
  if (fallback < 0) return {-1, "no candidate answered"};
  return {fallback, fmt::format("nothing but the fallback {} answered", short_name(at(fallback)))};
}

}  // namespace culet

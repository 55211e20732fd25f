// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// One tuning run of one problem: the stages of the pipeline as functions over a report that fills
// up. tuner.cpp calls them in order.
#pragma once

#include <atomic>
#include <chrono>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "benchmark/isolation.h"
#include "compile/compiler.h"
#include "culet/tuner.h"

namespace culet {

/// What all runs of a Tuner share.
struct TunerState {
  Registry registry;
  DeviceSpec device;
  TuneOptions options;
  std::shared_ptr<Cache> cache;
  std::unique_ptr<Compiler> compiler;
  std::atomic<std::int64_t> timed{0};
  std::mutex measuring;         ///< held by the run that uses what follows
  std::set<std::string> noted;  ///< TrialRunner::notes() the user was told
  WorkerHost workers;
};

class TuneRun {
 public:
  /// `ahead`: compile() only fills the compiler's cache, beside another run that measures.
  TuneRun(TunerState& state, const Problem& problem, Observer* observer, bool ahead = false);

  /// Asks every backend and ranks every candidate: fills the report's refusals and trials.
  Result<void> rank();
  /// Marks what is to be compiled and timed: all vendor candidates and the best `top` of each
  /// ranked backend, of one that the model gives no chance its best; a fallback only if there is
  /// nothing else. The others keep the outcome `ranked` and get the reason.
  void shortlist();
  /// The same for an explicit list; vendor candidates are kept beside it.
  Result<void> shortlist(const std::vector<Candidate>& wanted);
  /// Exactly these, which need not be in the space of this m, for fewer rounds than a choice needs.
  void enter(const std::vector<Candidate>& candidates);
  /// Takes over stored trials. True if nothing is left to measure: the same question (backends,
  /// top, candidate space) was answered before, or every shortlisted candidate's trial is stored.
  bool load_stored_trials();
  /// What is on the shortlist; a fallback also where nothing of that can be built.
  void compile();
  /// Compiles the shortlist for its own sake: a trial that does not compile, or whose kernel
  /// spills, says so, and the observer is warned.
  void try_compiling();
  Result<void> benchmark();
  void select();
  void store();

  TuneReport take_report();
  /// The steps built by compile(), for a candidate of the report.
  const BuiltCandidate* built(int trial) const;
  /// Every backend's reason, one a line: the detail of `no_candidate`.
  std::string refusals() const;
  bool nothing_to_try() const { return active_.empty(); }
  /// What a candidate's time depends on beside problem and candidate.
  Environment environment(const Candidate& candidate) const;
  /// Whether it is to end: it was told so, somebody asked for it, or its time is used up.
  bool halted() const;
  void halt() { halt_ = true; }

 private:
  /// How many candidates of each backend, and of each tile shape, are on the shortlist.
  struct Taken {
    std::map<std::string, int> of_backend, of_shape;
    std::set<std::string> hopeless;  ///< backends of which one is enough
  };
  /// The backends that the model gives no chance.
  std::set<std::string> hopeless() const;
  bool takes(Trial& trial, bool any_shape, Taken* taken) const;
  /// Takes what the user denied out of the report; take_report() puts it back, with the reason.
  void set_denied_aside();
  /// Why a backend that can compute the problem has no candidate left.
  std::string why_nothing(std::string_view backend) const;
  /// Puts the candidate that the user pinned on the shortlist.
  void add_pinned();
  /// Whether all that a pin asks for is in the store.
  bool pin_is_answered() const;
  /// Makes the pinned candidate the choice, or says why not.
  void apply_pin();
  void build(const std::vector<int>& trials);
  /// Puts the fallbacks on the shortlist that are not there yet: their trials.
  std::vector<int> add_fallbacks();
  bool answered_before();
  bool answered_meanwhile();
  void read_stored_trials();
  bool load_stored_trial(int index);
  SelectionScope scope() const;
  void store_trial(const Trial& trial);
  void say(std::string_view phase, int done, int total);
  void tell(const Candidate& candidate, const std::vector<Compilation>& kernels);
  void note(const std::string& text);
  std::vector<int> verify(TrialRunner& runner);
  void race(TrialRunner& runner, const std::vector<int>& entrants);

  TunerState& state_;
  MeasurePolicy policy_;
  Observer* observer_;
  const bool ahead_;
  TuneReport report_;
  std::vector<int> active_;  ///< indices of trials to compile and time
  std::map<int, BuiltCandidate> built_;
  std::atomic<bool> halt_{false};
  std::chrono::steady_clock::time_point start_;
  double best_seconds_ = 0;
  std::string best_name_;
  std::map<Candidate, Trial> stored_;  ///< of this problem, in this environment
  bool reuse_ = false;                 ///< stored trials may stand for measuring
  bool stored_only_ = false;
  bool race_stopped_ = false;
  bool measuring_ = false;  ///< compile() was reached: only a measured trial may be chosen
  int stored_choice_ = -1;  ///< the trial that a stored selection names
  std::vector<Trial> denied_;
  const Candidate* pin_ = nullptr;  ///< what the user pinned to the problem
  int pinned_ = -1;                 ///< its trial; -1 where the space has it not
  int unpinned_ = -1;               ///< what is chosen, and why, by measuring alone: what is stored
  std::string unpinned_why_;
};

/// Builds every step of a candidate. Errors are the first failing step's.
Result<BuiltCandidate> build_candidate(const TunerState& state, const Problem& problem,
                                       const Candidate& candidate, BuildContext& context);

/// Text of the cut, for SelectionScope: "5" or "all".
std::string top_text(int top);

}  // namespace culet

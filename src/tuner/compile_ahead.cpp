// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// One thread, which starts those that compile.
#include "tuner/compile_ahead.h"

#include <system_error>

namespace culet {
namespace {

/// A GPU's times do not depend on what the host's other cores do; a CPU's do. With candidates in
/// this process (for debuggers and profilers), what they call would share its locks with us.
bool disturbs_no_timing(const TunerState& state) {
  return state.device.is_cuda() && state.options.isolation == Isolation::process;
}

void compile(TuneRun& run) {
  try {
    if (!run.rank()) return;
    run.shortlist();
    if (!run.load_stored_trials()) run.compile();
  } catch (...) {  // a user's backend threw
  }
}

}  // namespace

CompileAhead::~CompileAhead() { end(); }

void CompileAhead::begin(const Problem& unchecked) {
  if (!state_.options.compile_ahead.value_or(disturbs_no_timing(state_))) return;
  const auto problem = unchecked.validated();
  if (!problem || problem->is_empty()) return;
  const std::lock_guard lock(mutex_);
  end();
  run_ = std::make_unique<TuneRun>(state_, *problem, nullptr, /*ahead=*/true);
  if (run_->halted()) return;
  try {
    thread_ = std::thread([run = run_.get()] { compile(*run); });
  } catch (const std::system_error&) {  // no thread to be had: the problem compiles for itself
  }
}

void CompileAhead::halt() {
  const std::lock_guard lock(mutex_);
  if (run_ != nullptr) run_->halt();
}

void CompileAhead::end() {
  if (run_ != nullptr) run_->halt();
  if (thread_.joinable()) thread_.join();
  run_.reset();
}

}  // namespace culet

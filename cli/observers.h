// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// Two observers of one run: what is shown, and what is logged.
#pragma once

#include <string_view>

#include "culet/tuner.h"

namespace culet::cli {

class Both : public Observer {
 public:
  /// `second` may be null.
  Both(Observer& first, Observer* second) : first_(first), second_(second) {}

  void progress(const Progress& progress) override {
    tell([&](Observer& o) { o.progress(progress); });
  }
  void trial(const Problem& problem, const Trial& trial) override {
    tell([&](Observer& o) { o.trial(problem, trial); });
  }
  void report(const TuneReport& report) override {
    tell([&](Observer& o) { o.report(report); });
  }
  void warning(std::string_view text) override {
    tell([&](Observer& o) { o.warning(text); });
  }
  void started(const Problem& problem) override {
    tell([&](Observer& o) { o.started(problem); });
  }
  void compilation(const Problem& problem, const Candidate& candidate,
                   const Compilation& kernel) override {
    tell([&](Observer& o) { o.compilation(problem, candidate, kernel); });
  }
  void worker_replaced(const Problem& problem, std::string_view why) override {
    tell([&](Observer& o) { o.worker_replaced(problem, why); });
  }

 private:
  template <typename Call>
  void tell(const Call& call) {
    call(first_);
    if (second_ != nullptr) call(*second_);
  }

  Observer& first_;
  Observer* second_;
};

}  // namespace culet::cli

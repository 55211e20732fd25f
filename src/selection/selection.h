// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// Which of the measured candidates is chosen, and the sentence that says why. Pure: trials in,
// index out.
#pragma once

#include <string>
#include <vector>

#include "culet/report.h"

namespace culet {

struct Selection {
  int index = -1;  ///< into the trials; -1 where none was measured
  std::string why;
};

/// A challenger must beat the best vendor plan by more than `noise_floor` and with its interval
/// clear of the vendor's; own candidates within `noise_floor` of each other are a tie, which goes
/// to the better-ranked (smaller estimate), then by candidate text. Where the vendor is kept,
/// vendor plans within `noise_floor` of their fastest are a tie, which goes to the vendor's own
/// order. A fallback wins only if nothing else was measured.
Selection select(const std::vector<Trial>& trials, double noise_floor);

/// The trials that are still worth timing: those that change the selection where their time moves
/// to an end of its interval, alone or while the selected one, the fastest own or the fastest of
/// the vendor is at its slow end, and what is selected then; with them these three, as their
/// measure. None where nothing changes it. One for each of the trials.
std::vector<bool> deciding(std::vector<Trial> trials, double noise_floor);

/// The choice by the model alone, for runs that measure nothing: the vendor's first plan only where
/// no own candidate is ranked.
Selection select_by_model(const std::vector<Trial>& trials);

}  // namespace culet

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// What a user decided beside what was measured: candidates pinned to problems, candidates and
// backends denied. Kept in a file of their own beside the store, so that measuring anew, clearing
// or exchanging measurements leaves them alone, and taking them back leaves no trace.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "culet/candidate.h"
#include "culet/device.h"
#include "culet/error.h"
#include "culet/problem.h"

namespace culet {

struct Pin {
  std::string problem;  ///< canonical text
  DeviceKind device = DeviceKind::cpu;
  Candidate candidate;
};

/// A value: give it to a Tuner as TuneOptions::overrides.
class Overrides {
 public:
  /// The candidate pinned to a problem on a kind of device, or null. It is still verified, and
  /// used only if it is correct.
  const Candidate* pinned(const Problem& problem, DeviceKind device) const;
  /// What denies a candidate: the text given to deny(), of it or of a backend of it; else empty.
  std::string_view denied(const Candidate& candidate) const;

  /// Replaces an earlier pin of the problem on that kind of device.
  void pin(const Problem& problem, DeviceKind device, const Candidate& candidate);
  /// Takes pins of the problem back, on every kind of device; false where there was none.
  bool unpin(const Problem& problem);
  /// `what` is the name of a backend, or a candidate as reports print it. Errors
  /// (invalid_argument): neither.
  Result<void> deny(std::string_view what);
  /// False where it was not denied.
  bool allow(std::string_view what);

  const std::vector<Pin>& pins() const { return pins_; }
  const std::vector<std::string>& denials() const { return denied_; }
  bool empty() const { return pins_.empty() && denied_.empty(); }

  /// JSON, sorted (docs/cache.md).
  std::string json() const;
  /// `file` is what messages call the text. Errors (invalid_argument) name the place.
  static Result<Overrides> from_json(std::string_view text, const std::string& file);

 private:
  std::vector<Pin> pins_;            ///< by problem, then device
  std::vector<std::string> denied_;  ///< sorted; a candidate has a '{', a backend's name has none
};

/// The file beside the store of open_cache(cache); empty where that keeps everything in memory.
std::string overrides_file(const std::string& cache = {});

/// Empty where there is no file. Errors: io; invalid_argument for a file that is not as it should
/// be: what a user decided is not to be forgotten silently.
Result<Overrides> load_overrides(const std::string& cache = {});

/// Reads, changes and writes the file, while no other process does. What `change` returns as an
/// error is returned, and nothing is written.
Result<void> change_overrides(const std::string& cache,
                              const std::function<Result<void>(Overrides&)>& change);

}  // namespace culet

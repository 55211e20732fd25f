// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// The set of backends, and the query interface to all the kernels they offer.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "culet/backend.h"
#include "culet/ranking.h"

namespace culet {

/// Names of backends allowed and denied; an empty `allow` allows all. "vendor" stands for every
/// vendor backend.
struct BackendFilter {
  std::vector<std::string> allow;
  std::vector<std::string> deny;
  /// "cublaslt,simt" or "-onednn" (deny) or a mix. Unknown names are an error that lists the known
  /// ones.
  static Result<BackendFilter> parse(std::string_view text, const class Registry& registry);
  bool allows(const Backend& backend) const;
};

/// A backend's answer for a problem, as `culet list --why` prints it.
struct Answer {
  const Backend* backend = nullptr;
  Support support;
};

/// A candidate with its estimate, as discovery returns it.
struct RankedCandidate {
  Candidate candidate;
  std::optional<Estimate> estimate;  ///< nothing for vendor candidates
  bool vendor = false;
  bool fallback = false;
};

/// Why a candidate is none of `space`, all that there are for a problem: what it has that none of
/// its kind there has, else the one that differs least. One clause, for messages.
std::string why_not_in(const std::vector<Candidate>& space, const Candidate& candidate);

class Registry {
 public:
  /// All built-in backends.
  static Registry standard();
  Registry() = default;

  /// Adds a backend; its name must be new.
  Result<void> add(std::shared_ptr<const Backend> backend);
  const std::vector<std::shared_ptr<const Backend>>& backends() const { return backends_; }
  const Backend* find(std::string_view name) const;

  /// Every backend for the device's kind with its answer.
  std::vector<Answer> ask(const Problem& problem, const DeviceSpec& device,
                          const BackendFilter& filter = {}) const;

  /// All candidates for a problem: vendor ones first, in their own order, then the ranked ones from
  /// the fastest estimate on, the fallback last. Any of them can be built and run by hand
  /// (Tuner::plan with a candidate).
  std::vector<RankedCandidate> discover(const Problem& problem, const DeviceSpec& device,
                                        const BackendFilter& filter = {}) const;

 private:
  std::vector<std::shared_ptr<const Backend>> backends_;
};

}  // namespace culet

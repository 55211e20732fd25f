// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// The two trial runners, and what they share.
#pragma once

#include <memory>

#include "benchmark/operands.h"
#include "benchmark/trial_runner.h"
#include "culet/plan.h"

namespace culet::benchmark {

Result<std::unique_ptr<TrialRunner>> make_cpu_runner(const Problem& problem,
                                                     const DeviceSpec& device,
                                                     const RunnerOptions& options);
Result<std::unique_ptr<TrialRunner>> make_cuda_runner(const Problem& problem,
                                                      const DeviceSpec& device,
                                                      const RunnerOptions& options);

/// Pointers into a set's block, with the storage their array needs.
struct SetPointers {
  SetPointers() = default;
  SetPointers(SetPointers&&) = default;  // moving a vector leaves its elements in place
  SetPointers& operator=(SetPointers&&) = default;

  std::vector<const void*> extra;
  Arguments arguments;
};
SetPointers pointers_into(const SetLayout& layout, void* block);

inline constexpr std::int64_t kWorkspaceGuard = 256;

/// Seconds a candidate's code may take before it is taken to hang. Loading may open a library of
/// some hundred MB from a cold disk, or compile (oneDNN does).
inline constexpr double kLoadSeconds = 60;
inline double run_limit(const MeasurePolicy& policy) { return policy.trial_seconds + 0.5; }
/// Loading for a race, with the runs that tell how long one takes.
inline double entry_limit(const MeasurePolicy& policy) {
  return kLoadSeconds + 2 * policy.trial_seconds;
}
/// A round that should take `expected` seconds.
inline double round_limit(const MeasurePolicy& policy, double expected) {
  return policy.trial_seconds + 10 * expected;
}

/// Budgets of the reference on the host, in multiply-adds: three seconds of one core, spread over
/// all, paid once per problem, and a twentieth of one.
inline constexpr double kFullBudget = 1e10;
inline constexpr double kSampleBudget = 2e8;

}  // namespace culet::benchmark

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

/// Budgets of the reference on the host, in multiply-adds: three seconds of one core, spread over
/// all, paid once per problem, and a twentieth of one.
inline constexpr double kFullBudget = 1e10;
inline constexpr double kSampleBudget = 2e8;

}  // namespace culet::benchmark

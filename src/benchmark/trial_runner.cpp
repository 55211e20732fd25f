// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// Chooses the runner for a device, and what both share.
#include "benchmark/trial_runner.h"

#include <fmt/format.h>

#include "benchmark/runners.h"

namespace culet {

Result<std::unique_ptr<TrialRunner>> make_trial_runner(const Problem& problem,
                                                       const DeviceSpec& device,
                                                       const RunnerOptions& options) {
  if (!device.present) {
    return fail(ErrorCode::device,
                fmt::format("{} is a description of a device, not one that is here", device.name));
  }
  return device.is_cuda() ? benchmark::make_cuda_runner(problem, device, options)
                          : benchmark::make_cpu_runner(problem, device, options);
}

namespace benchmark {

SetPointers pointers_into(const SetLayout& layout, void* block) {
  char* base = static_cast<char*>(block);
  SetPointers pointers;
  for (const OperandPlace& place : layout.places)
    if (place.id >= kExtra) pointers.extra.push_back(base + place.begin);
  pointers.arguments.a = base + layout.place(kA).begin;
  pointers.arguments.b = base + layout.place(kB).begin;
  pointers.arguments.d = base + layout.place(kD).begin;
  pointers.arguments.m = layout.problem.m;
  pointers.arguments.extra = pointers.extra.data();
  return pointers;
}

}  // namespace benchmark
}  // namespace culet

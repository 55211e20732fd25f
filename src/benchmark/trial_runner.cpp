// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// Chooses the runner for a device, and what all share: the race over single samples.
#include "benchmark/trial_runner.h"

#include <fmt/format.h>

#include "benchmark/race.h"
#include "benchmark/runners.h"
#include "device/nvml.h"

namespace culet {

std::vector<RaceResult> TrialRunner::race(const std::vector<const BuiltCandidate*>& candidates,
                                          const std::vector<bool>& droppable,
                                          const std::function<void(int, int)>& on_round,
                                          const Deciding& deciding) {
  benchmark::RaceRules rules;
  rules.policy = options_.policy;
  rules.statistic = benchmark::statistic_for(device_.kind);
  rules.stop = options_.stop;
  rules.on_round = on_round;
  rules.deciding = deciding;
  rules.left = [&](int index) { leave(*candidates[static_cast<std::size_t>(index)]); };
  rules.sample = [&](int index, int round, double settle_seconds) -> Result<double> {
    const BuiltCandidate& candidate = *candidates[static_cast<std::size_t>(index)];
    if (problem_.is_empty()) return 0.0;  // nothing is launched
    const auto& clock = options_.simulated_clock;
    const double simulated = clock ? clock(candidate.candidate, round) : 0;
    auto seconds = simulated > 0 ? Result<double>(simulated) : sample(candidate, settle_seconds);
    if (options_.on_sample) options_.on_sample();
    return seconds;
  };
  notes_.clear();
  rules.held_back = [&] {
    if (!device_.is_cuda()) return false;
    if (auto state = gpu_state(device_.ordinal)) notes_ = state->throttling();
    return !notes_.empty();
  };
  auto results = benchmark::run_race(static_cast<int>(candidates.size()), droppable, rules);
  for (const BuiltCandidate* candidate : candidates) leave(*candidate);
  return results;
}

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

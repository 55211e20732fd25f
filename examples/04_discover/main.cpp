// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// Queries the library instead of tuning with it: who can compute a problem here and who cannot and
// why, all candidates in the order of their estimates, and one of them built and run by hand.
//
//   example_04_discover [DEVICE [PROBLEM]]           (an f32 problem; the default device is "auto")
#include <cstdio>

#include "common/example.h"

int main(int argc, char** argv) {
  const culet::DeviceSpec device = example::device_or_skip(argc > 1 ? argv[1] : "auto");
  const culet::Problem problem =
      example::must(culet::Problem::parse(argc > 2 ? argv[2] : "17x520x264:f32"));
  const culet::Registry registry = culet::Registry::standard();

  std::printf("%s on %s\n", problem.text().c_str(), device.name.c_str());
  for (const culet::Answer& answer : registry.ask(problem, device)) {
    std::printf("  %-12s %s\n", std::string(answer.backend->name()).c_str(),
                answer.support.yes ? "yes" : answer.support.reason.c_str());
  }

  const std::vector<culet::RankedCandidate> candidates = registry.discover(problem, device);
  std::printf("%zu candidates\n", candidates.size());
  const culet::RankedCandidate* best = nullptr;  // of those the model ranks
  int shown = 0;
  for (const culet::RankedCandidate& ranked : candidates) {
    if (!ranked.estimate || ranked.fallback) continue;
    if (best == nullptr) best = &ranked;
    if (++shown > 5) break;
    std::printf("  %9.2f us, limited by %s: %s\n", ranked.estimate->seconds * 1e6,
                std::string(culet::to_string(ranked.estimate->limiter)).c_str(),
                ranked.candidate.text().c_str());
  }
  if (best == nullptr) {
    std::printf("no own kernel for this problem here\n");
    return 1;
  }

  // A candidate is a value with a text form: one could as well come from a file or a command line.
  const culet::Candidate chosen = example::must(culet::Candidate::parse(best->candidate.text()));
  culet::Tuner tuner(registry, device, {}, example::must(culet::open_cache("none")));
  const culet::Plan plan = example::must(tuner.plan(problem, chosen));
  return example::run_and_check(plan, device) ? 0 : 1;
}

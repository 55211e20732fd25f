// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// What the tests of sm90_dense share: lists of problems with configurations that are compiled in
// parallel before they run one after the other.
#pragma once

#include <string>
#include <vector>

#include "kernels_case.h"

namespace culet::test {

struct DenseCase {
  std::string problem;
  Config config;
};

/// Compiles all of them; errors show up when they are used.
inline void build_all(const std::vector<DenseCase>& cases) {
  parallel_for(static_cast<int>(cases.size()), 0, [&](int i) {
    const DenseCase& one = cases[static_cast<std::size_t>(i)];
    const Problem problem = take(Problem::parse(one.problem));
    (void)family("sm90_dense")
        .build(problem, {"sm90_dense", one.config, Part::all}, *gpu(), compiler());
  });
}

inline void check_all(const std::vector<DenseCase>& cases) {
  build_all(cases);
  for (const DenseCase& one : cases) {
    check(one.problem, "sm90_dense", one.config);
    if (::testing::Test::HasFatalFailure()) return;
  }
}

/// Configurations as text, each for the problem.
inline void add_cases(const std::string& problem, const std::vector<std::string>& configs,
                      std::vector<DenseCase>* cases) {
  for (const std::string& config : configs) {
    cases->push_back({problem, take(Config::parse(config))});
  }
}

}  // namespace culet::test

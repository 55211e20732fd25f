// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// The independent reference on the host: exact sums of chosen elements in double precision,
// computed from the generator of the operands' contents, and the comparison of D with them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "benchmark/operands.h"
#include "benchmark/tolerance.h"

namespace culet::benchmark {

/// Elements rows x columns of one batch entry.
struct SampleBlock {
  std::int64_t batch = 0;
  std::vector<std::int64_t> rows, columns;
};

/// Which elements are checked.
struct SamplePlan {
  std::vector<SampleBlock> blocks;
  bool complete = false;  ///< every element
  std::int64_t elements() const;
};

/// All elements if the work (multiply-adds and values generated) is within `budget`; otherwise
/// the first and last row and column of the first and last batch entry in full, one element of
/// each tile of at most 64 x 64, and a grid of random rows and columns, each thinned out
/// as far as `budget` demands.
SamplePlan plan_samples(const Problem& problem, double budget, std::uint64_t seed);

struct Comparison {
  double error = 0;  ///< largest ratio of deviation and tolerance
  std::int64_t checked = 0;
  std::int64_t wrong = 0;
  std::string first;  ///< "D[12,40] of batch 0 is 3.5, should be 7 (tolerance 0.03)"
  std::string complaint() const;
};

/// "D[12,40] of batch 0 is 3.5, should be 7 (tolerance 0.03)"
std::string describe_wrong(std::int64_t batch, std::int64_t row, std::int64_t column, double got,
                           verify::Bounded wanted);

/// Sums of the planned elements of one set, computed once and compared with many results.
class HostReference {
 public:
  HostReference(const SetLayout& layout, const SetSeed& seed, SamplePlan plan, DeviceKind device);

  /// `block` is the set's block, or a copy of it, after a run.
  Comparison compare(const void* block) const;
  const SamplePlan& plan() const { return plan_; }

  /// Value and tolerance of one element of D.
  verify::Bounded wanted(std::int64_t batch, std::int64_t row, std::int64_t column) const;

 private:
  verify::Bounded finish(std::int64_t batch, std::int64_t row, std::int64_t column, double sum,
                         double magnitude) const;

  SetLayout layout_;
  SetSeed seed_;
  SamplePlan plan_;
  Tolerance tolerance_;
  std::vector<verify::u64> keys_;                       ///< by operand
  std::vector<std::vector<double>> sums_, magnitudes_;  ///< per block, row by row
};

}  // namespace culet::benchmark

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// How far a result may lie from the exact one: the numerics contract (docs/numerics.md) as numbers.
#pragma once

#include "culet/device.h"
#include "culet/epilogue.h"
#include "culet/problem.h"
#include "kernels/verify/running_error.h"

namespace culet::benchmark {

struct Tolerance {
  /// |accumulator - exact| <= accumulation * sum |a*b|; 0 where sums are exact.
  double accumulation = 0;
  /// Relative error of turning the accumulator into the epilogue's type (s32 sums to f32).
  double conversion = 0;
  verify::EpilogueAccuracy epilogue{};
  /// Half-ulps of D's format allowed for storing the result.
  double half_ulps = 2;
  bool exact_store = false;  ///< integers in, identity epilogue, integer D

  static Tolerance of(const Problem& problem, DeviceKind device);

  verify::Bounded accumulator(double sum, double magnitude_sum) const {
    return {sum, accumulation * magnitude_sum + conversion * verify::magnitude(sum)};
  }
};

/// Value and bound of a result before it is stored: the epilogue applied to a bounded accumulator.
/// `operands` are exact.
verify::Bounded evaluate(const Epilogue& epilogue, verify::Bounded acc, const double* operands,
                         const verify::EpilogueAccuracy& accuracy);

/// The same computation as the body of a CUDA function
/// `Bounded f(Bounded acc, const double* operands, const EpilogueAccuracy& a)`.
std::string evaluate_source(const Epilogue& epilogue);

}  // namespace culet::benchmark

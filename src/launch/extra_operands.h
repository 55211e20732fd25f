// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// Epilogue operands of one batch entry: matrices advance with D, everything else is shared.
#pragma once

#include <array>
#include <cstddef>

#include "culet/problem.h"
#include "launch/split.h"

namespace culet {

class ExtraOperands {
 public:
  static constexpr std::size_t kMax = 32;

  static bool fits(const Problem& problem) { return problem.epilogue.operands().size() <= kMax; }

  /// The operands' pointers for a batch entry; valid until the next call.
  const void* const* entry(const Problem& problem, const void* const* extra, std::int64_t batch) {
    const auto& operands = problem.epilogue.operands();
    if (operands.empty() || batch == 0) return extra;
    for (std::size_t i = 0; i < operands.size(); ++i) {
      const bool full = operands[i].index == EpilogueIndex::full;
      pointers_[i] =
          full ? at_element(extra[i], bits(operands[i].dtype), batch * problem.stride_d) : extra[i];
    }
    return pointers_.data();
  }

 private:
  std::array<const void*, kMax> pointers_;
};

}  // namespace culet

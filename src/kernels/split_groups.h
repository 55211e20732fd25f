// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// How many parts of k are summed at once: what the kernel, the size of its workspace and the
// ranking have to agree about.
#pragma once
#include "base.cuh"

namespace culet::kernels {

/// Many parts of a tile are summed in two steps, so that nobody reads all of them: those of a group
/// of splits, then the groups' sums. The size of a group, about the square root of their number.
CULET_HD constexpr i32 split_group(i32 splits) {
  if (splits < 8) return splits;
  i32 group = 3;
  while (group * group < splits) ++group;
  return group;
}
/// Counters that this takes: one for the groups, and one for each group.
CULET_HD constexpr i32 split_counters(i32 splits) {
  return 1 + ceil_div(splits, split_group(splits));
}

}  // namespace culet::kernels

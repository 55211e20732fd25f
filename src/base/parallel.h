// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// A parallel loop for work outside the measured part: compiling, filling operands, the reference.
#pragma once

#include <functional>

namespace culet {

/// Runs jobs 0..count-1 on up to `threads` threads (0: one per core). `job` must be thread-safe;
/// the first exception it throws is thrown here once all jobs have ended.
void parallel_for(int count, int threads, const std::function<void(int)>& job);

}  // namespace culet

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// A Plan is a problem bound to loaded kernels, ready to run: microseconds of host time, no
// allocation, thread-safe, and, on a GPU, safe to capture in a CUDA graph.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "culet/candidate.h"
#include "culet/device.h"
#include "culet/error.h"
#include "culet/problem.h"

namespace culet {

/// A CUDA stream (a CUstream / cudaStream_t); null is the default stream. Ignored on the CPU.
using Stream = void*;

/// Memory a plan needs beside its operands. The caller owns it; runs that may overlap need one
/// each.
struct Workspace {
  std::int64_t bytes = 0;
  std::int64_t align = 256;
  /// Bytes from its start that must be zero before the first run; every run leaves them zero.
  std::int64_t zeroed_prefix = 0;
};

/// B repacked for one plan, in memory the caller owns.
struct PackedOperand {
  const void* data = nullptr;
  std::int64_t bytes = 0;
};

struct Arguments {
  const void* a = nullptr;
  const void* b = nullptr;
  void* d = nullptr;
  /// Epilogue operands in the order of Epilogue::operands(). On a GPU those with D's shape are
  /// aligned as D is (up to 16 bytes), the others to 16 bytes. None may overlap D, some elements of
  /// which are stored before others are computed.
  const void* const* extra = nullptr;
  void* workspace = nullptr;  ///< of at least Plan::workspace(m).bytes
  const PackedOperand* packed_b = nullptr;
  std::int64_t m = -1;  ///< rows of this call, within the problem's range; -1 for Problem::m
};

struct RunOptions {
  Stream stream = nullptr;
  /// The caller chains kernels with programmatic dependent launch: with `const=b` weights may be
  /// prefetched early.
  bool pdl = false;
};

class Plan {
 public:
  /// Loads what a build gave. The device is that of the caller's current CUDA context.
  static Result<Plan> load(const Problem& problem, const BuiltCandidate& built,
                           const DeviceSpec& device);

  const Problem& problem() const;
  const Candidate& candidate() const;

  Workspace workspace(std::int64_t m = -1) const;
  /// Size of the buffer prepare() fills; 0 where this plan reads B as it is.
  std::int64_t packed_bytes() const;
  /// Repacks B into `memory` (packed_bytes(), 64-byte aligned). One per weight.
  Result<PackedOperand> prepare(const void* b, void* memory, Stream stream = nullptr) const;

  /// Computes D. Pointers are not checked on a GPU beyond being non-null; on an error nothing was
  /// launched.
  Result<void> run(const Arguments& arguments, const RunOptions& options = {}) const;

 private:
  struct Impl;
  std::shared_ptr<const Impl> impl_;
};

/// Plans for intervals of m: crossing an interval is a look-up, all code is loaded before.
class PlanTable {
 public:
  struct Interval {
    MRange range;
    Plan plan;
  };
  /// Intervals must follow each other without a gap.
  static Result<PlanTable> make(std::vector<Interval> intervals);
  const std::vector<Interval>& intervals() const { return intervals_; }
  /// The plan for m; null outside all intervals.
  const Plan* find(std::int64_t m) const;
  Result<void> run(const Arguments& arguments, const RunOptions& options = {}) const;

 private:
  std::vector<Interval> intervals_;
};

}  // namespace culet

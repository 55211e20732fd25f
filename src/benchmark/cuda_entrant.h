// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// A candidate on a CUDA device: its scratch memory, and, in a race, its graph of launches.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "benchmark/runners.h"
#include "culet/plan.h"
#include "culet/tuner.h"
#include "device/cuda.h"

namespace culet::benchmark {

/// A candidate's scratch on the device: zeroed prefix, poison behind it, a guard at its end.
class DeviceScratch {
 public:
  static Result<DeviceScratch> make(const Workspace& workspace, cuda::CUstream stream);
  void* data() const { return static_cast<char*>(buffer_.data()) + offset_; }
  std::int64_t bytes() const { return buffer_.bytes(); }
  /// What is wrong with it after a run; empty if nothing. The run must be over.
  Result<std::string> complaint() const;

 private:
  Workspace spec_;
  cuda::DeviceBuffer buffer_;
  std::int64_t offset_ = 0;
};

/// Waits for `stream` without blocking in the driver. False: not done after `seconds`.
Result<bool> wait_for(cuda::CUstream stream, double seconds);

class CudaEntrant {
 public:
  /// Loads the plan, prepares packed copies of B, and captures a graph that walks through `sets`.
  /// `memory_left` is what may be allocated.
  static Result<std::unique_ptr<CudaEntrant>> make(Plan plan, const std::vector<SetPointers>& sets,
                                                   double rotate_bytes, double memory_left,
                                                   const MeasurePolicy& policy,
                                                   cuda::CUstream stream);
  /// Seconds of one run: the median over the replays of one round, after others for as long as it
  /// takes to settle (seconds).
  Result<double> sample(const MeasurePolicy& policy, double settle_seconds, cuda::CUstream stream);
  /// What sample() should take.
  double round_seconds(const MeasurePolicy& policy) const;
  double bytes() const { return bytes_; }
  int launches() const { return launches_; }

 private:
  explicit CudaEntrant(Plan plan) : plan_(std::move(plan)) {}
  Result<void> pack(const std::vector<SetPointers>& sets, double rotate_bytes, double memory_left,
                    cuda::CUstream stream);
  Result<void> calibrate(const std::vector<SetPointers>& sets, const MeasurePolicy& policy,
                         cuda::CUstream stream);
  Result<void> enqueue(const std::vector<SetPointers>& sets, int first, int count,
                       cuda::CUstream stream) const;

  Plan plan_;
  DeviceScratch scratch_;
  std::vector<cuda::DeviceBuffer> packed_memory_;
  std::vector<PackedOperand> packed_;
  cuda::Graph graph_;
  std::vector<cuda::Event> events_;
  int replays(const MeasurePolicy& policy) const;
  double replay_seconds() const;

  int launches_ = 1;     ///< in the graph
  double estimate_ = 0;  ///< seconds of one run
  double bytes_ = 0;     ///< device memory held
};

}  // namespace culet::benchmark

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// One step of a candidate, loaded and ready to run. There are three implementations, one file each:
// CUDA kernels (cuda_step.cpp), kernels on the CPU (host_step.cpp), and calls into a vendor library
// (library_step_*.cpp). Plans and the benchmark run steps through this interface only, and make
// them from Artifact + LaunchSpec only.
#pragma once

#include <cstdint>
#include <memory>

#include "culet/candidate.h"
#include "culet/device.h"
#include "culet/error.h"
#include "culet/plan.h"
#include "culet/problem.h"

namespace culet {

/// Pointers of one run of a step. All on the device the step was loaded for.
struct StepPointers {
  const void* a = nullptr;
  const void* b = nullptr;
  void* d = nullptr;                   ///< D, or the temporary in a gemm step
  const void* const* extra = nullptr;  ///< epilogue operands
  const void* temporary = nullptr;     ///< the accumulator, in an epilogue step
  void* scratch = nullptr;             ///< LaunchSpec::workspace_bytes.at(m)
  const void* packed_b = nullptr;
  std::int64_t m = 0;
  Stream stream = nullptr;
  bool pdl = false;
};

class LoadedStep {
 public:
  virtual ~LoadedStep() = default;
  /// Starts the step. No allocation, thread-safe, capturable in a CUDA graph.
  virtual Result<void> run(const StepPointers& pointers) const = 0;
  /// Repacks B (LaunchSpec::packed_b_bytes > 0 only).
  virtual Result<void> pack(const void* b, void* packed, Stream stream) const;
};

/// Loads code or resolves a library call. `problem` is the step's own (problem_of(whole, part)) for
/// Part::gemm, the whole problem otherwise. Errors: build_failed or device, in one line.
Result<std::unique_ptr<LoadedStep>> load_step(const Problem& problem, const BuiltStep& step,
                                              const DeviceSpec& device);

// The three implementations, each of which refuses what is not its own.
Result<std::unique_ptr<LoadedStep>> load_cuda_step(const Problem&, const BuiltStep&,
                                                   const DeviceSpec&);
Result<std::unique_ptr<LoadedStep>> load_host_step(const Problem&, const BuiltStep&,
                                                   const DeviceSpec&);
Result<std::unique_ptr<LoadedStep>> load_cublaslt_step(const Problem&, const BuiltStep&,
                                                       const DeviceSpec&);
Result<std::unique_ptr<LoadedStep>> load_openblas_step(const Problem&, const BuiltStep&,
                                                       const DeviceSpec&);
Result<std::unique_ptr<LoadedStep>> load_onednn_step(const Problem&, const BuiltStep&,
                                                     const DeviceSpec&);

}  // namespace culet

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// The checking kernels of src/kernels/verify, compiled for one problem's formats and epilogue, and
// which tiles of D they check.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "benchmark/operands.h"
#include "benchmark/tolerance.h"
#include "culet/device.h"
#include "device/cuda.h"
#include "kernels/verify/interface.h"

namespace culet::benchmark {

/// All tiles of D if they are at most `most`; otherwise corners, then the tiles on the edges of the
/// first and last batch entry, then random ones.
std::vector<verify::Tile> plan_tiles(const Problem& problem, std::int64_t most, std::uint64_t seed);

/// Source of the checking kernels for a problem's formats and epilogue.
std::string check_source(const Problem& problem);

verify::Shape shape_of(const SetLayout& layout, const SetSeed& seed);

/// Exact sums of chosen tiles of one set, on the device.
struct DeviceReference {
  std::vector<verify::Tile> tiles;
  bool complete = false;
  cuda::DeviceBuffer tile_list, sums, magnitudes;
};

class CheckKernels {
 public:
  /// Compiles (or finds what this process compiled before) and loads. Errors: no NVRTC, or no
  /// device.
  static Result<std::unique_ptr<CheckKernels>> load(const Problem& problem,
                                                    const DeviceSpec& device);
  ~CheckKernels();

  /// Fills a set's block: padding, then the inputs.
  Result<void> fill(const SetLayout& layout, const SetSeed& seed, void* block,
                    cuda::CUstream stream) const;
  Result<std::unique_ptr<DeviceReference>> reference(const SetLayout& layout, const SetSeed& seed,
                                                     std::int64_t most_tiles,
                                                     cuda::CUstream stream) const;
  /// Both wait for the stream.
  Result<verify::CompareResult> compare(const SetLayout& layout, const SetSeed& seed,
                                        const DeviceReference& reference, const void* block,
                                        const Tolerance& tolerance, cuda::CUstream stream) const;
  /// `saved`: a copy of D's span (SetLayout::place(kD)) from an earlier run, or null.
  Result<verify::SurfaceResult> surface(const SetLayout& layout, std::uint32_t poison,
                                        const void* block, const void* saved,
                                        cuda::CUstream stream) const;

 private:
  CheckKernels() = default;
  Result<void> launch(cuda::CUfunction function, std::int64_t blocks, void** arguments,
                      cuda::CUstream stream) const;

  const cuda::Driver* driver_ = nullptr;
  cuda::CUcontext context_ = nullptr;
  cuda::CUmodule module_ = nullptr;
  cuda::CUfunction fill_ = nullptr, reference_ = nullptr, compare_ = nullptr, surface_ = nullptr;
  cuda::DeviceBuffer result_;
};

}  // namespace culet::benchmark

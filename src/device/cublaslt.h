// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// cuBLASLt, loaded when first asked for: our own declarations of the entry points used. Descriptors
// live in buffers of ours (the library initialises memory it is given), so copying one is a memcpy
// and a run allocates nothing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "culet/error.h"

namespace culet::cublaslt {

using Handle = struct CublasLtContext*;
using Status = int;
inline constexpr Status kStatusSuccess = 0;
inline constexpr Status kStatusNotSupported = 15;

/// The library's descriptors are 64 bytes (layouts, preferences) and up to 256 bytes (matmul) in
/// the versions known; the sizes here, which the library is told, leave room for it to grow.
struct alignas(16) Descriptor {
  std::uint64_t data[64] = {};
};

/// cublasLtMatmulAlgo_t: opaque, but plain data that can be stored.
struct Algorithm {
  std::uint64_t data[8] = {};
};

/// cublasLtMatmulHeuristicResult_t.
struct HeuristicResult {
  Algorithm algorithm;
  std::size_t workspace_bytes = 0;
  Status state = 0;
  float waves = 0;
  int reserved[4] = {};
};
static_assert(sizeof(HeuristicResult) == 96);

/// cudaDataType_t values.
struct DataType {
  static constexpr int kF32 = 0, kF64 = 1, kF16 = 2, kS8 = 3, kU8 = 8, kS32 = 10, kBf16 = 14,
                       kE4m3 = 28, kE5m2 = 29;
};

/// cublasComputeType_t values.
struct ComputeType {
  static constexpr int kF16 = 64, kF32 = 68, kF64 = 70, kS32 = 72, kF32FastTf32 = 77;
};

struct DescAttribute {
  static constexpr int kTransA = 3, kTransB = 4, kEpilogue = 7, kBiasPointer = 8, kFastAccum = 25,
                       kBiasDataType = 26;
};

struct EpilogueValue {
  static constexpr std::uint32_t kDefault = 1, kRelu = 2, kBias = 4, kGelu = 32;
};

struct LayoutAttribute {
  static constexpr int kRows = 2, kCols = 3, kLd = 4, kBatchCount = 5, kBatchStride = 6;
};

struct PreferenceAttribute {
  static constexpr int kMaxWorkspace = 1, kReductionMask = 3, kAlignA = 5, kAlignB = 6, kAlignC = 7,
                       kAlignD = 8;
};

struct ConfigAttribute {
  static constexpr int kId = 0, kTile = 1, kSplitK = 2, kReduction = 3, kSwizzle = 4, kCustom = 5,
                       kStages = 6, kInnerShape = 7, kClusterShape = 8;
};

struct Library {
  std::string version;  ///< "13.1.0"
  std::string path;

  std::size_t (*get_version)();
  const char* (*status_string)(Status);  // may be null (before 11.4)
  Status (*create)(Handle*);
  Status (*destroy)(Handle);
  Status (*desc_init)(Descriptor*, std::size_t, int compute_type, int scale_type);
  Status (*desc_set)(Descriptor*, int, const void*, std::size_t);
  Status (*layout_init)(Descriptor*, std::size_t, int type, std::uint64_t rows, std::uint64_t cols,
                        std::int64_t ld);
  Status (*layout_set)(Descriptor*, int, const void*, std::size_t);
  Status (*preference_init)(Descriptor*, std::size_t);
  Status (*preference_set)(Descriptor*, int, const void*, std::size_t);
  Status (*heuristic)(Handle, const Descriptor*, const Descriptor*, const Descriptor*,
                      const Descriptor*, const Descriptor*, const Descriptor*, int,
                      HeuristicResult*, int*);
  Status (*algorithm_check)(Handle, const Descriptor*, const Descriptor*, const Descriptor*,
                            const Descriptor*, const Descriptor*, const Algorithm*,
                            HeuristicResult*);
  Status (*config_get)(const Algorithm*, int, void*, std::size_t, std::size_t*);
  Status (*matmul)(Handle, const Descriptor* desc, const void* alpha, const void* a,
                   const Descriptor* a_layout, const void* b, const Descriptor* b_layout,
                   const void* beta, const void* c, const Descriptor* c_layout, void* d,
                   const Descriptor* d_layout, const Algorithm*, void* workspace, std::size_t,
                   void* stream);
};

/// The library, valid for the life of the process. Error (ErrorCode::device): not found.
Result<const Library*> library();

/// One line for a status: "cublasLtMatmul: the operation is not supported".
std::string describe(Status status, std::string_view what);
Result<void> check(Status status, std::string_view what);

/// The handle for the current CUDA context, made at first use and kept for the life of the process.
Result<Handle> handle();

}  // namespace culet::cublaslt

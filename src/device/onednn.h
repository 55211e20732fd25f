// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// oneDNN 2.x, loaded at run time: the entry points of its C interface that culet calls, declared
// here so that no header of it is needed to build. Other major versions have another interface and
// are refused.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "culet/error.h"

namespace culet {

/// Names and values of oneDNN's C interface, version 2.
namespace dnn {

// Descriptors are plain structs that the library fills in; culet never looks inside. The sizes are
// upper bounds: 2.6 needs 696 and 2800 bytes.
struct alignas(16) MemoryDesc {
  unsigned char bytes[2048];
};
struct alignas(16) MatmulDesc {
  unsigned char bytes[8192];
};

using Engine = struct EngineTag*;
using Stream = struct StreamTag*;
using Memory = struct MemoryTag*;
using Primitive = struct PrimitiveTag*;
using PrimitiveDesc = struct PrimitiveDescTag*;
using Attr = struct AttrTag*;
using PostOps = struct PostOpsTag*;

struct ExecArg {
  int arg;
  Memory memory;
};

struct Version {
  int major, minor, patch;
  const char* hash;
  unsigned cpu_runtime, gpu_runtime;
};

using Dim = std::int64_t;

inline constexpr int kSuccess = 0;
inline constexpr int kBf16 = 2;
inline constexpr int kF32 = 3;
inline constexpr int kTagAny = 1;
inline constexpr int kEngineCpu = 1;
inline constexpr int kScratchpadUser = 1;
inline constexpr int kEltwiseRelu = 31;
inline constexpr int kEltwiseGeluTanh = 207;
inline constexpr int kQueryImplInfo = 8;
inline constexpr int kQueryWeightsMd = 131;
inline constexpr int kQueryScratchpadMd = 136;
inline constexpr int kArgSrc = 1;
inline constexpr int kArgFrom = 1;
inline constexpr int kArgDst = 17;
inline constexpr int kArgTo = 17;
inline constexpr int kArgWeights = 33;
inline constexpr int kArgBias = 41;
inline constexpr int kArgScratchpad = 80;
inline constexpr unsigned kStreamDefault = 1;

}  // namespace dnn

/// Entry points; each is dnnl_<name>. Status 0 is success.
struct OneDnn {
  const dnn::Version* (*version_info)() = nullptr;
  int (*memory_desc_init_by_strides)(dnn::MemoryDesc*, int ndims, const dnn::Dim* dims, int dtype,
                                     const dnn::Dim* strides) = nullptr;
  int (*memory_desc_init_by_tag)(dnn::MemoryDesc*, int ndims, const dnn::Dim* dims, int dtype,
                                 int tag) = nullptr;
  std::size_t (*memory_desc_get_size)(const dnn::MemoryDesc*) = nullptr;
  int (*matmul_desc_init)(dnn::MatmulDesc*, const dnn::MemoryDesc* src,
                          const dnn::MemoryDesc* weights, const dnn::MemoryDesc* bias,
                          const dnn::MemoryDesc* dst) = nullptr;
  int (*primitive_desc_create)(dnn::PrimitiveDesc*, const void* op, dnn::Attr, dnn::Engine,
                               dnn::PrimitiveDesc hint) = nullptr;
  int (*primitive_desc_destroy)(dnn::PrimitiveDesc) = nullptr;
  int (*primitive_desc_query)(dnn::PrimitiveDesc, int what, int index, void* result) = nullptr;
  /// Points into the primitive descriptor, at a struct of the library's own size: used there, never
  /// copied.
  const dnn::MemoryDesc* (*primitive_desc_query_md)(dnn::PrimitiveDesc, int what,
                                                    int index) = nullptr;
  int (*primitive_create)(dnn::Primitive*, dnn::PrimitiveDesc) = nullptr;
  int (*primitive_destroy)(dnn::Primitive) = nullptr;
  int (*primitive_execute)(dnn::Primitive, dnn::Stream, int count, const dnn::ExecArg*) = nullptr;
  int (*attr_create)(dnn::Attr*) = nullptr;
  int (*attr_destroy)(dnn::Attr) = nullptr;
  int (*attr_set_scratchpad_mode)(dnn::Attr, int mode) = nullptr;
  int (*attr_set_post_ops)(dnn::Attr, dnn::PostOps) = nullptr;
  int (*post_ops_create)(dnn::PostOps*) = nullptr;
  int (*post_ops_destroy)(dnn::PostOps) = nullptr;
  int (*post_ops_append_eltwise)(dnn::PostOps, float scale, int algorithm, float alpha,
                                 float beta) = nullptr;
  int (*memory_create)(dnn::Memory*, const dnn::MemoryDesc* md, dnn::Engine,
                       void* handle) = nullptr;
  int (*memory_destroy)(dnn::Memory) = nullptr;
  int (*memory_set_data_handle)(dnn::Memory, void* handle) = nullptr;
  int (*reorder_primitive_desc_create)(dnn::PrimitiveDesc*, const dnn::MemoryDesc* src, dnn::Engine,
                                       const dnn::MemoryDesc* dst, dnn::Engine,
                                       dnn::Attr) = nullptr;
  int (*stream_create)(dnn::Stream*, dnn::Engine, unsigned flags) = nullptr;
  int (*stream_destroy)(dnn::Stream) = nullptr;
  int (*engine_create)(dnn::Engine*, int kind, std::size_t index) = nullptr;
  // OpenMP's, of the runtime the library is linked with; null in a build without OpenMP.
  void (*omp_set_num_threads)(int) = nullptr;
  int (*omp_get_max_threads)() = nullptr;

  dnn::Engine engine = nullptr;  ///< the CPU's
  std::string version;           ///< "2.6.3 omp"
  std::string path;
};

/// Opened once per process. The error says what was looked for, or which version was refused.
const Result<OneDnn>& onednn();

/// Opens the first of these that is found, each time anew: what onednn() does with the usual names.
Result<OneDnn> load_onednn(const std::vector<std::string>& sonames,
                           const std::vector<std::string>& folders);

/// Sets the calling thread's number of OpenMP threads while it lives: primitives are planned for,
/// and run with, the number in force then. The caller's own setting comes back after.
class OmpThreads {
 public:
  OmpThreads(const OneDnn& library, int threads) : library_(library) {
    if (library_.omp_get_max_threads == nullptr) return;
    before_ = library_.omp_get_max_threads();
    if (before_ != threads) library_.omp_set_num_threads(threads);
    changed_ = before_ != threads;
  }
  ~OmpThreads() {
    if (changed_) library_.omp_set_num_threads(before_);
  }
  OmpThreads(const OmpThreads&) = delete;
  OmpThreads& operator=(const OmpThreads&) = delete;

 private:
  const OneDnn& library_;
  int before_ = 0;
  bool changed_ = false;
};

}  // namespace culet

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// The CUDA driver, loaded when first asked for, and the few owners the rest of culet needs (memory,
// streams, events, graphs). The declarations are our own, so culet builds without a CUDA toolkit;
// "no CUDA driver" is an ordinary error.
//
// Contexts: work happens in the caller's current context where that is one of the wanted device,
// else in the device's primary context, as with the CUDA runtime. Nothing is initialised before the
// first call of cuda_driver().
//
// fork: CUDA itself cannot be used in a process forked after its parent initialised it. There,
// cuda_driver() returns an error that says so; in a child forked earlier it starts afresh.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>

#include "culet/error.h"

namespace culet::cuda {

// --- The driver API's types, as its ABI has them -------------------------------------------------
using CUresult = int;
using CUdevice = int;
using CUdeviceptr = unsigned long long;
using CUcontext = struct CUctx_st*;
using CUmodule = struct CUmod_st*;
using CUfunction = struct CUfunc_st*;
using CUstream = struct CUstream_st*;
using CUevent = struct CUevent_st*;
using CUgraph = struct CUgraph_st*;
using CUgraphExec = struct CUgraphExec_st*;

inline constexpr CUresult kSuccess = 0;
inline constexpr CUresult kErrorOutOfMemory = 2;
inline constexpr CUresult kErrorNotInitialized = 3;
inline constexpr CUresult kErrorNoDevice = 100;
inline constexpr CUresult kErrorNotReady = 600;

struct DeviceAttribute {
  static constexpr int kMaxSharedPerBlock = 8, kClockKhz = 13, kUnits = 16, kPciBus = 33,
                       kPciDevice = 34, kMemoryClockKhz = 36, kMemoryBusBits = 37, kL2Bytes = 38,
                       kMaxThreadsPerUnit = 39, kPciDomain = 50, kMajor = 75, kMinor = 76,
                       kSharedPerUnit = 81, kRegistersPerUnit = 82, kSharedPerBlockOptin = 97;
};

struct FunctionAttribute {
  static constexpr int kLocalBytes = 3, kRegisters = 4, kMaxDynamicShared = 8,
                       kNonPortableCluster = 14;
};

/// CUlaunchAttribute: 8 bytes of id and padding, then a 64-byte union.
struct LaunchAttribute {
  static constexpr int kCooperative = 2, kClusterDimension = 4, kProgrammaticStream = 6;
  int id = 0;
  int padding = 0;
  union {
    char pad[64];
    int flag;
    struct {
      unsigned x, y, z;
    } cluster;
  } value = {};
};
static_assert(sizeof(LaunchAttribute) == 72);

/// CUlaunchConfig.
struct LaunchConfig {
  unsigned grid[3] = {1, 1, 1};
  unsigned block[3] = {1, 1, 1};
  unsigned shared_bytes = 0;
  CUstream stream = nullptr;
  LaunchAttribute* attributes = nullptr;
  unsigned attribute_count = 0;
};
static_assert(sizeof(LaunchConfig) == 56);

/// CUtensorMap: opaque, passed to kernels by value. Not cleared: the driver writes all of it.
struct alignas(64) TensorMap {
  std::uint64_t opaque[16];
};
static_assert(sizeof(TensorMap) == 128);

/// The entry points used. Those that a driver may lack (tensor maps came with CUDA 12.0) are null
/// there.
struct Driver {
  int version = 0;  ///< of the API the driver supports: 13000 for 13.0

  CUresult (*init)(unsigned);
  CUresult (*driver_get_version)(int*);
  CUresult (*get_error_name)(CUresult, const char**);
  CUresult (*get_error_string)(CUresult, const char**);

  CUresult (*device_get_count)(int*);
  CUresult (*device_get)(CUdevice*, int);
  CUresult (*device_get_name)(char*, int, CUdevice);
  CUresult (*device_get_uuid)(unsigned char (*)[16], CUdevice);
  CUresult (*device_get_attribute)(int*, int, CUdevice);
  CUresult (*device_total_mem)(std::size_t*, CUdevice);
  CUresult (*device_primary_retain)(CUcontext*, CUdevice);

  CUresult (*ctx_get_current)(CUcontext*);
  CUresult (*ctx_set_current)(CUcontext);
  CUresult (*ctx_push)(CUcontext);
  CUresult (*ctx_pop)(CUcontext*);
  CUresult (*ctx_get_device)(CUdevice*);
  CUresult (*ctx_synchronize)();

  CUresult (*module_load_data)(CUmodule*, const void*);
  CUresult (*module_unload)(CUmodule);
  CUresult (*module_get_function)(CUfunction*, CUmodule, const char*);
  CUresult (*func_set_attribute)(CUfunction, int, int);
  CUresult (*func_get_attribute)(int*, int, CUfunction);
  CUresult (*launch_kernel_ex)(const LaunchConfig*, CUfunction, void**, void**);
  CUresult (*occupancy_blocks_per_unit)(int*, CUfunction, int, std::size_t);
  CUresult (*occupancy_max_clusters)(int*, CUfunction, const LaunchConfig*);  // may be null
  CUresult (*tensor_map_encode_tiled)(TensorMap*, int, std::uint32_t, void*, const std::uint64_t*,
                                      const std::uint64_t*, const std::uint32_t*,
                                      const std::uint32_t*, int, int, int, int);  // may be null

  CUresult (*mem_alloc)(CUdeviceptr*, std::size_t);
  CUresult (*mem_free)(CUdeviceptr);
  CUresult (*mem_get_info)(std::size_t*, std::size_t*);
  CUresult (*memcpy_htod)(CUdeviceptr, const void*, std::size_t);
  CUresult (*memcpy_dtoh)(void*, CUdeviceptr, std::size_t);
  CUresult (*memcpy_htod_async)(CUdeviceptr, const void*, std::size_t, CUstream);
  CUresult (*memcpy_dtoh_async)(void*, CUdeviceptr, std::size_t, CUstream);
  CUresult (*memcpy_dtod_async)(CUdeviceptr, CUdeviceptr, std::size_t, CUstream);
  CUresult (*memset_d8_async)(CUdeviceptr, unsigned char, std::size_t, CUstream);
  CUresult (*memset_d32_async)(CUdeviceptr, unsigned, std::size_t, CUstream);

  CUresult (*stream_create)(CUstream*, unsigned);
  CUresult (*stream_destroy)(CUstream);
  CUresult (*stream_synchronize)(CUstream);
  CUresult (*stream_query)(CUstream);
  CUresult (*stream_wait_event)(CUstream, CUevent, unsigned);
  CUresult (*stream_begin_capture)(CUstream, int);
  CUresult (*stream_end_capture)(CUstream, CUgraph*);
  CUresult (*stream_is_capturing)(CUstream, int*);

  CUresult (*event_create)(CUevent*, unsigned);
  CUresult (*event_destroy)(CUevent);
  CUresult (*event_record)(CUevent, CUstream);
  CUresult (*event_query)(CUevent);
  CUresult (*event_synchronize)(CUevent);
  CUresult (*event_elapsed)(float*, CUevent, CUevent);

  CUresult (*graph_instantiate)(CUgraphExec*, CUgraph, unsigned long long);
  CUresult (*graph_launch)(CUgraphExec, CUstream);
  CUresult (*graph_exec_destroy)(CUgraphExec);
  CUresult (*graph_destroy)(CUgraph);
};

/// One line for a driver error: "cuMemAlloc: out of memory (CUDA_ERROR_OUT_OF_MEMORY)".
std::string describe(CUresult code, std::string_view what);

/// Nothing for kSuccess, else an Error (ErrorCode::device) with describe()'s text.
Result<void> check(CUresult code, std::string_view what);

}  // namespace culet::cuda

namespace culet {

using CudaDriver = cuda::Driver;

/// The loaded and initialised driver; the pointer stays valid for the life of the process. Errors
/// (ErrorCode::device): no driver library, a driver older than CUDA 11.8, no device, or a process
/// forked after its parent initialised CUDA. Thread-safe; after the first call it costs one getpid.
Result<const CudaDriver*> cuda_driver();

}  // namespace culet

namespace culet::cuda {

/// Number of CUDA devices; 0 where there is no driver.
int device_count();

/// While it lives, a context of the device is current in this thread: the caller's own where that
/// belongs to the device, else the device's primary one, retained for the life of the process. A
/// context made current where there was none stays so afterwards, as with the CUDA runtime; a
/// context of another device comes back when the guard goes.
class Context {
 public:
  static Result<Context> enter(int ordinal);
  Context(Context&& other) noexcept
      : context_(other.context_),
        ordinal_(other.ordinal_),
        pushed_(std::exchange(other.pushed_, false)) {}
  Context& operator=(Context&&) = delete;
  ~Context();

  CUcontext get() const { return context_; }
  int ordinal() const { return ordinal_; }

 private:
  Context(CUcontext context, int ordinal, bool pushed)
      : context_(context), ordinal_(ordinal), pushed_(pushed) {}
  CUcontext context_ = nullptr;
  int ordinal_ = 0;
  bool pushed_ = false;
};

/// Makes a given context current while it lives, at the cost of one query where it already is.
class Scope {
 public:
  Scope(const Driver& driver, CUcontext context) : driver_(driver) {
    CUcontext current = nullptr;
    driver_.ctx_get_current(&current);
    pushed_ = current != context && driver_.ctx_push(context) == kSuccess;
  }
  ~Scope() {
    CUcontext ignored = nullptr;
    if (pushed_) driver_.ctx_pop(&ignored);
  }
  Scope(const Scope&) = delete;
  Scope& operator=(const Scope&) = delete;

 private:
  const Driver& driver_;
  bool pushed_ = false;
};

/// The current context's device number. Error: there is none.
Result<int> current_device();
Result<void> synchronize();

struct MemoryInfo {
  std::int64_t free_bytes = 0, total_bytes = 0;
};
Result<MemoryInfo> memory_info();

/// Device memory of the context that was current when it was allocated.
class DeviceBuffer {
 public:
  DeviceBuffer() = default;
  static Result<DeviceBuffer> allocate(std::int64_t bytes);
  DeviceBuffer(DeviceBuffer&& other) noexcept { swap(other); }
  DeviceBuffer& operator=(DeviceBuffer&& other) noexcept {
    swap(other);
    return *this;
  }
  ~DeviceBuffer();

  void* data() const { return reinterpret_cast<void*>(address_); }
  CUdeviceptr address() const { return address_; }
  std::int64_t bytes() const { return bytes_; }
  /// Synchronous copies of the first (or `offset`..) bytes.
  Result<void> upload(const void* from, std::int64_t bytes, std::int64_t offset = 0);
  Result<void> download(void* to, std::int64_t bytes, std::int64_t offset = 0) const;
  /// Sets every byte, in the order of `stream`.
  Result<void> fill(unsigned char value, CUstream stream = nullptr);

 private:
  void swap(DeviceBuffer& other) noexcept {
    std::swap(address_, other.address_);
    std::swap(bytes_, other.bytes_);
    std::swap(context_, other.context_);
  }
  CUdeviceptr address_ = 0;
  std::int64_t bytes_ = 0;
  CUcontext context_ = nullptr;
};

class Stream {
 public:
  Stream() = default;
  /// A stream that does not synchronise with the null stream.
  static Result<Stream> create();
  Stream(Stream&& other) noexcept { std::swap(stream_, other.stream_); }
  Stream& operator=(Stream&& other) noexcept {
    std::swap(stream_, other.stream_);
    return *this;
  }
  ~Stream();
  CUstream get() const { return stream_; }
  Result<void> synchronize() const;

 private:
  CUstream stream_ = nullptr;
};

class Event {
 public:
  Event() = default;
  static Result<Event> create();
  Event(Event&& other) noexcept { std::swap(event_, other.event_); }
  Event& operator=(Event&& other) noexcept {
    std::swap(event_, other.event_);
    return *this;
  }
  ~Event();
  CUevent get() const { return event_; }
  Result<void> record(CUstream stream) const;
  Result<void> synchronize() const;
  /// True once everything before it is done; an error if that failed.
  Result<bool> done() const;
  /// Seconds from `start` to this event; both must be done.
  Result<double> seconds_since(const Event& start) const;

 private:
  CUevent event_ = nullptr;
};

/// An instantiated CUDA graph.
class Graph {
 public:
  Graph() = default;
  /// Captures what `record` puts on `stream` (thread-local capture mode). `record`'s error, or the
  /// capture's, comes back; the stream is out of capture mode either way.
  static Result<Graph> capture(CUstream stream, const std::function<Result<void>()>& record);
  Graph(Graph&& other) noexcept { std::swap(exec_, other.exec_); }
  Graph& operator=(Graph&& other) noexcept {
    std::swap(exec_, other.exec_);
    return *this;
  }
  ~Graph();
  Result<void> launch(CUstream stream) const;

 private:
  CUgraphExec exec_ = nullptr;
};

}  // namespace culet::cuda

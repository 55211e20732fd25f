// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// Owners of CUDA objects: contexts, memory, streams, events, graphs.
#include <fmt/format.h>

#include <mutex>
#include <utility>
#include <vector>

#include "device/cuda.h"

namespace culet::cuda {

namespace {

/// Primary contexts retained so far, by device. They are kept for the life of the process, as the
/// CUDA runtime does: releasing the last reference would destroy what other code allocated there.
Result<CUcontext> primary_context(const Driver& driver, int ordinal) {
  static std::mutex mutex;
  static std::vector<CUcontext> retained;
  const std::lock_guard lock(mutex);
  if (ordinal < static_cast<int>(retained.size()) && retained[ordinal] != nullptr) {
    return retained[ordinal];
  }
  int count = 0;
  if (auto ok = check(driver.device_get_count(&count), "cuDeviceGetCount"); !ok) {
    return tl::unexpected<Error>(ok.error());
  }
  if (ordinal < 0 || ordinal >= count) {
    return fail(ErrorCode::device, fmt::format("no CUDA device {}: there {} {}", ordinal,
                                               count == 1 ? "is" : "are", count));
  }
  CUdevice device = 0;
  if (auto ok = check(driver.device_get(&device, ordinal), "cuDeviceGet"); !ok) {
    return tl::unexpected<Error>(ok.error());
  }
  CUcontext context = nullptr;
  if (auto ok = check(driver.device_primary_retain(&context, device), "cuDevicePrimaryCtxRetain");
      !ok) {
    return tl::unexpected<Error>(ok.error());
  }
  retained.resize(static_cast<std::size_t>(count), nullptr);
  retained[ordinal] = context;
  return context;
}

/// The driver where it is already loaded in this process; for destructors.
const Driver* driver_for_cleanup() {
  auto driver = cuda_driver();
  return driver ? *driver : nullptr;
}

}  // namespace

Result<Context> Context::enter(int ordinal) {
  auto driver = cuda_driver();
  if (!driver) return tl::unexpected<Error>(driver.error());
  const Driver& d = **driver;
  CUcontext current = nullptr;
  if (auto ok = check(d.ctx_get_current(&current), "cuCtxGetCurrent"); !ok) {
    return tl::unexpected<Error>(ok.error());
  }
  CUdevice device = -1;
  if (current != nullptr && d.ctx_get_device(&device) == kSuccess && device == ordinal) {
    return Context(current, ordinal, false);
  }
  auto primary = primary_context(d, ordinal);
  if (!primary) return tl::unexpected<Error>(primary.error());
  if (current == nullptr) {
    if (auto ok = check(d.ctx_set_current(*primary), "cuCtxSetCurrent"); !ok) {
      return tl::unexpected<Error>(ok.error());
    }
    return Context(*primary, ordinal, false);
  }
  if (auto ok = check(d.ctx_push(*primary), "cuCtxPushCurrent"); !ok) {
    return tl::unexpected<Error>(ok.error());
  }
  return Context(*primary, ordinal, true);
}

Context::~Context() {
  if (!pushed_) return;
  CUcontext ignored = nullptr;
  if (const Driver* driver = driver_for_cleanup()) driver->ctx_pop(&ignored);
}

Result<int> current_device() {
  auto driver = cuda_driver();
  if (!driver) return tl::unexpected<Error>(driver.error());
  CUcontext current = nullptr;
  CUdevice device = -1;
  (*driver)->ctx_get_current(&current);
  if (current == nullptr) return fail(ErrorCode::device, "no CUDA context is current");
  if (auto ok = check((*driver)->ctx_get_device(&device), "cuCtxGetDevice"); !ok) {
    return tl::unexpected<Error>(ok.error());
  }
  return device;
}

Result<void> synchronize() {
  auto driver = cuda_driver();
  if (!driver) return tl::unexpected<Error>(driver.error());
  return check((*driver)->ctx_synchronize(), "cuCtxSynchronize");
}

Result<MemoryInfo> memory_info() {
  auto driver = cuda_driver();
  if (!driver) return tl::unexpected<Error>(driver.error());
  std::size_t free_bytes = 0, total_bytes = 0;
  if (auto ok = check((*driver)->mem_get_info(&free_bytes, &total_bytes), "cuMemGetInfo"); !ok) {
    return tl::unexpected<Error>(ok.error());
  }
  return MemoryInfo{static_cast<std::int64_t>(free_bytes), static_cast<std::int64_t>(total_bytes)};
}

// --- DeviceBuffer --------------------------------------------------------------------------------

Result<DeviceBuffer> DeviceBuffer::allocate(std::int64_t bytes) {
  auto driver = cuda_driver();
  if (!driver) return tl::unexpected<Error>(driver.error());
  DeviceBuffer buffer;
  // An empty buffer still has an address, so that "non-null" holds for every operand.
  const std::size_t size = bytes > 0 ? static_cast<std::size_t>(bytes) : 1;
  if (auto ok = check((*driver)->mem_alloc(&buffer.address_, size),
                      fmt::format("allocating {} bytes on the device", size));
      !ok) {
    return tl::unexpected<Error>(ok.error());
  }
  buffer.bytes_ = bytes;
  (*driver)->ctx_get_current(&buffer.context_);
  return buffer;
}

DeviceBuffer::~DeviceBuffer() {
  if (address_ == 0) return;
  if (const Driver* driver = driver_for_cleanup()) {
    const Scope scope(*driver, context_);
    driver->mem_free(address_);
  }
}

Result<void> DeviceBuffer::upload(const void* from, std::int64_t bytes, std::int64_t offset) {
  auto driver = cuda_driver();
  if (!driver) return tl::unexpected<Error>(driver.error());
  if (offset < 0 || bytes < 0 || offset + bytes > bytes_) {
    return fail(ErrorCode::invalid_argument, "upload beyond the end of a device buffer");
  }
  const auto size = static_cast<std::size_t>(bytes);
  if (auto ok =
          check((*driver)->memcpy_htod(address_ + static_cast<CUdeviceptr>(offset), from, size),
                "copying to the device");
      !ok)
    return ok;
  // What was copied from pageable memory may still be on its way from the driver's own buffer, and
  // the streams here do not wait for the default one.
  return check((*driver)->stream_synchronize(nullptr), "copying to the device");
}

Result<void> DeviceBuffer::download(void* to, std::int64_t bytes, std::int64_t offset) const {
  auto driver = cuda_driver();
  if (!driver) return tl::unexpected<Error>(driver.error());
  if (offset < 0 || bytes < 0 || offset + bytes > bytes_) {
    return fail(ErrorCode::invalid_argument, "download beyond the end of a device buffer");
  }
  const auto size = static_cast<std::size_t>(bytes);
  return check((*driver)->memcpy_dtoh(to, address_ + static_cast<CUdeviceptr>(offset), size),
               "copying from the device");
}

Result<void> DeviceBuffer::fill(unsigned char value, CUstream stream) {
  auto driver = cuda_driver();
  if (!driver) return tl::unexpected<Error>(driver.error());
  if (bytes_ == 0) return {};
  return check(
      (*driver)->memset_d8_async(address_, value, static_cast<std::size_t>(bytes_), stream),
      "cuMemsetD8Async");
}

// --- Stream --------------------------------------------------------------------------------------

Result<Stream> Stream::create() {
  auto driver = cuda_driver();
  if (!driver) return tl::unexpected<Error>(driver.error());
  constexpr unsigned kNonBlocking = 1;
  Stream stream;
  if (auto ok = check((*driver)->stream_create(&stream.stream_, kNonBlocking), "cuStreamCreate");
      !ok) {
    return tl::unexpected<Error>(ok.error());
  }
  return stream;
}

Stream::~Stream() {
  if (stream_ == nullptr) return;
  if (const Driver* driver = driver_for_cleanup()) driver->stream_destroy(stream_);
}

Result<void> Stream::synchronize() const {
  auto driver = cuda_driver();
  if (!driver) return tl::unexpected<Error>(driver.error());
  return check((*driver)->stream_synchronize(stream_), "cuStreamSynchronize");
}

// --- Event ---------------------------------------------------------------------------------------

Result<Event> Event::create() {
  auto driver = cuda_driver();
  if (!driver) return tl::unexpected<Error>(driver.error());
  Event event;
  if (auto ok = check((*driver)->event_create(&event.event_, 0), "cuEventCreate"); !ok) {
    return tl::unexpected<Error>(ok.error());
  }
  return event;
}

Event::~Event() {
  if (event_ == nullptr) return;
  if (const Driver* driver = driver_for_cleanup()) driver->event_destroy(event_);
}

Result<void> Event::record(CUstream stream) const {
  auto driver = cuda_driver();
  if (!driver) return tl::unexpected<Error>(driver.error());
  return check((*driver)->event_record(event_, stream), "cuEventRecord");
}

Result<void> Event::synchronize() const {
  auto driver = cuda_driver();
  if (!driver) return tl::unexpected<Error>(driver.error());
  return check((*driver)->event_synchronize(event_), "cuEventSynchronize");
}

Result<bool> Event::done() const {
  auto driver = cuda_driver();
  if (!driver) return tl::unexpected<Error>(driver.error());
  const CUresult code = (*driver)->event_query(event_);
  if (code == kErrorNotReady) return false;
  if (auto ok = check(code, "cuEventQuery"); !ok) return tl::unexpected<Error>(ok.error());
  return true;
}

Result<double> Event::seconds_since(const Event& start) const {
  auto driver = cuda_driver();
  if (!driver) return tl::unexpected<Error>(driver.error());
  float milliseconds = 0;
  if (auto ok = check((*driver)->event_elapsed(&milliseconds, start.event_, event_),
                      "cuEventElapsedTime");
      !ok) {
    return tl::unexpected<Error>(ok.error());
  }
  return milliseconds * 1e-3;
}

// --- Graph ---------------------------------------------------------------------------------------

Result<Graph> Graph::capture(CUstream stream, const std::function<Result<void>()>& record) {
  auto driver = cuda_driver();
  if (!driver) return tl::unexpected<Error>(driver.error());
  const Driver& d = **driver;
  constexpr int kThreadLocal = 1;
  if (auto ok = check(d.stream_begin_capture(stream, kThreadLocal), "cuStreamBeginCapture"); !ok) {
    return tl::unexpected<Error>(ok.error());
  }
  auto recorded = record();
  CUgraph graph = nullptr;
  auto ended = check(d.stream_end_capture(stream, &graph), "cuStreamEndCapture");
  Graph result;
  Result<void> made;
  if (recorded && ended) {
    made = check(d.graph_instantiate(&result.exec_, graph, 0), "cuGraphInstantiate");
  }
  if (graph != nullptr) d.graph_destroy(graph);
  if (!recorded) return tl::unexpected<Error>(recorded.error());
  if (!ended) return tl::unexpected<Error>(ended.error());
  if (!made) return tl::unexpected<Error>(made.error());
  return result;
}

Graph::~Graph() {
  if (exec_ == nullptr) return;
  if (const Driver* driver = driver_for_cleanup()) driver->graph_exec_destroy(exec_);
}

Result<void> Graph::launch(CUstream stream) const {
  auto driver = cuda_driver();
  if (!driver) return tl::unexpected<Error>(driver.error());
  return check((*driver)->graph_launch(exec_, stream), "cuGraphLaunch");
}

}  // namespace culet::cuda

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// Loading the CUDA driver. The owners of CUDA objects are in cuda_objects.cpp.
#include "device/cuda.h"

#include <fmt/format.h>
#include <unistd.h>

#include <atomic>
#include <memory>
#include <mutex>

#include "device/library.h"

namespace culet {

namespace {

using cuda::Driver;

/// What became of loading the driver, in which process. Published once a process and never freed.
struct Loaded {
  pid_t pid = 0;
  Driver driver{};
  bool initialised = false;  ///< cuInit succeeded: CUDA is unusable in children forked from now on
  Error error;
};

std::atomic<const Loaded*> loaded_state{nullptr};

/// Where the driver is beside the loader's search: WSL, and container run times that mount it.
std::vector<std::string> driver_folders() {
  return {"/usr/lib/wsl/lib", "/usr/local/nvidia/lib64", "/usr/lib/x86_64-linux-gnu", "/usr/lib64"};
}

/// Binds every entry point; returns the name of a required one that is missing, or null.
const char* bind_driver(const Library& library, Driver& d) {
  const char* missing = nullptr;
  const auto need = [&](auto& function, const char* name) {
    if (!library.bind(function, name) && missing == nullptr) missing = name;
  };
  // The versioned names are those that cuda.h's macros select: dlsym of the plain name would give
  // the 32-bit entry points of CUDA 3.
  need(d.init, "cuInit");
  need(d.driver_get_version, "cuDriverGetVersion");
  need(d.get_error_name, "cuGetErrorName");
  need(d.get_error_string, "cuGetErrorString");
  need(d.device_get_count, "cuDeviceGetCount");
  need(d.device_get, "cuDeviceGet");
  need(d.device_get_name, "cuDeviceGetName");
  library.bind(d.device_get_uuid, "cuDeviceGetUuid_v2");
  need(d.device_get_attribute, "cuDeviceGetAttribute");
  need(d.device_total_mem, "cuDeviceTotalMem_v2");
  need(d.device_primary_retain, "cuDevicePrimaryCtxRetain");
  need(d.ctx_get_current, "cuCtxGetCurrent");
  need(d.ctx_set_current, "cuCtxSetCurrent");
  need(d.ctx_push, "cuCtxPushCurrent_v2");
  need(d.ctx_pop, "cuCtxPopCurrent_v2");
  need(d.ctx_get_device, "cuCtxGetDevice");
  need(d.ctx_synchronize, "cuCtxSynchronize");
  need(d.module_load_data, "cuModuleLoadData");
  need(d.module_unload, "cuModuleUnload");
  need(d.module_get_function, "cuModuleGetFunction");
  need(d.func_set_attribute, "cuFuncSetAttribute");
  need(d.func_get_attribute, "cuFuncGetAttribute");
  need(d.launch_kernel_ex, "cuLaunchKernelEx");
  need(d.occupancy_blocks_per_unit, "cuOccupancyMaxActiveBlocksPerMultiprocessor");
  library.bind(d.occupancy_max_clusters, "cuOccupancyMaxActiveClusters");
  library.bind(d.tensor_map_encode_tiled, "cuTensorMapEncodeTiled");
  need(d.mem_alloc, "cuMemAlloc_v2");
  need(d.mem_free, "cuMemFree_v2");
  need(d.mem_get_info, "cuMemGetInfo_v2");
  need(d.memcpy_htod, "cuMemcpyHtoD_v2");
  need(d.memcpy_dtoh, "cuMemcpyDtoH_v2");
  need(d.memcpy_htod_async, "cuMemcpyHtoDAsync_v2");
  need(d.memcpy_dtoh_async, "cuMemcpyDtoHAsync_v2");
  need(d.memcpy_dtod_async, "cuMemcpyDtoDAsync_v2");
  need(d.memset_d8_async, "cuMemsetD8Async");
  need(d.memset_d32_async, "cuMemsetD32Async");
  need(d.stream_create, "cuStreamCreate");
  need(d.stream_destroy, "cuStreamDestroy_v2");
  need(d.stream_synchronize, "cuStreamSynchronize");
  need(d.stream_query, "cuStreamQuery");
  need(d.stream_wait_event, "cuStreamWaitEvent");
  need(d.stream_begin_capture, "cuStreamBeginCapture_v2");
  need(d.stream_end_capture, "cuStreamEndCapture");
  need(d.stream_is_capturing, "cuStreamIsCapturing");
  need(d.event_create, "cuEventCreate");
  need(d.event_destroy, "cuEventDestroy_v2");
  need(d.event_record, "cuEventRecord");
  need(d.event_query, "cuEventQuery");
  need(d.event_synchronize, "cuEventSynchronize");
  need(d.event_elapsed, "cuEventElapsedTime");
  need(d.graph_instantiate, "cuGraphInstantiateWithFlags");
  need(d.graph_launch, "cuGraphLaunch");
  need(d.graph_exec_destroy, "cuGraphExecDestroy");
  need(d.graph_destroy, "cuGraphDestroy");
  return missing;
}

void load_driver(Loaded& loaded) {
  auto library = Library::open("CUDA driver", {"libcuda.so.1"}, driver_folders());
  if (!library) {
    loaded.error = library.error();
    return;
  }
  Driver& driver = loaded.driver;
  if (const char* missing = bind_driver(*library, driver)) {
    loaded.error =
        Error{ErrorCode::device,
              fmt::format("the CUDA driver has no {}: CUDA 11.8 or newer is needed", missing),
              {}};
    return;
  }
  const cuda::CUresult code = driver.init(0);
  if (code != cuda::kSuccess) {
    const char* text = nullptr;
    driver.get_error_string(code, &text);
    loaded.error = Error{ErrorCode::device,
                         fmt::format("CUDA driver present, but cuInit says: {}",
                                     text != nullptr ? text : fmt::format("error {}", code)),
                         {}};
    return;
  }
  loaded.initialised = true;
  driver.driver_get_version(&driver.version);
  int count = 0;
  if (driver.device_get_count(&count) != cuda::kSuccess || count == 0) {
    loaded.error = Error{ErrorCode::device, "CUDA driver present, but no CUDA device", {}};
  }
}

/// State of this process, loading if need be. Without a lock, because one held by another thread at
/// a fork would stay locked in the child; loading twice at once is harmless.
const Loaded& loaded_in_this_process() {
  const pid_t pid = getpid();
  const Loaded* state = loaded_state.load(std::memory_order_acquire);
  while (state == nullptr || state->pid != pid) {
    auto fresh = std::make_unique<Loaded>();
    fresh->pid = pid;
    if (state != nullptr && state->initialised) {
      fresh->driver = state->driver;
      fresh->initialised = true;
      fresh->error = Error{ErrorCode::device,
                           "CUDA cannot be used in a process forked after its parent initialised "
                           "CUDA: start a new process instead",
                           {}};
    } else {
      load_driver(*fresh);
    }
    if (loaded_state.compare_exchange_strong(state, fresh.get(), std::memory_order_acq_rel)) {
      state = fresh.release();
    }
  }
  return *state;
}

}  // namespace

Result<const CudaDriver*> cuda_driver() {
  const Loaded& loaded = loaded_in_this_process();
  if (!loaded.error.message.empty()) return tl::unexpected<Error>(loaded.error);
  return &loaded.driver;
}

}  // namespace culet

namespace culet::cuda {

std::string describe(CUresult code, std::string_view what) {
  const char* name = nullptr;
  const char* text = nullptr;
  const Loaded& loaded = loaded_in_this_process();
  if (loaded.driver.get_error_name != nullptr && loaded.driver.get_error_string != nullptr) {
    loaded.driver.get_error_name(code, &name);
    loaded.driver.get_error_string(code, &text);
  }
  if (name == nullptr || text == nullptr) return fmt::format("{}: CUDA error {}", what, code);
  return fmt::format("{}: {} ({})", what, text, name);
}

Result<void> check(CUresult code, std::string_view what) {
  if (code == kSuccess) return {};
  return fail(ErrorCode::device, describe(code, what));
}

int device_count() {
  auto driver = cuda_driver();
  int count = 0;
  if (!driver || (*driver)->device_get_count(&count) != kSuccess) return 0;
  return count;
}

}  // namespace culet::cuda

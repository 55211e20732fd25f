// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// CUDA memory through the driver, opened at run time, so that the examples build where there is no
// CUDA toolkit. A program that has the toolkit uses cudaMalloc and cudaMemcpy instead.
#pragma once

#include <dlfcn.h>

#include <cstddef>
#include <cstdint>
#include <string>

namespace example {

namespace cuda_detail {

/// A driver function by name; null where there is no driver.
template <typename Function>
Function* driver_function(const char* name) {
  static void* library = dlopen("libcuda.so.1", RTLD_NOW);
  return library == nullptr ? nullptr : reinterpret_cast<Function*>(dlsym(library, name));
}

}  // namespace cuda_detail

/// Makes the device's primary context current. Empty on success, else why not.
inline std::string cuda_use(int ordinal) {
  using cuda_detail::driver_function;
  auto* init = driver_function<int(unsigned)>("cuInit");
  auto* get = driver_function<int(int*, int)>("cuDeviceGet");
  auto* retain = driver_function<int(void**, int)>("cuDevicePrimaryCtxRetain");
  auto* use = driver_function<int(void*)>("cuCtxSetCurrent");
  if (init == nullptr || get == nullptr || retain == nullptr || use == nullptr) {
    return "no CUDA driver (libcuda.so.1)";
  }
  int device = 0;
  void* context = nullptr;
  if (init(0) != 0 || get(&device, ordinal) != 0 || retain(&context, device) != 0 ||
      use(context) != 0) {
    return "CUDA device " + std::to_string(ordinal) + " cannot be used";
  }
  return {};
}

inline void* cuda_allocate(std::int64_t bytes) {
  auto* allocate = cuda_detail::driver_function<int(std::uint64_t*, std::size_t)>("cuMemAlloc_v2");
  std::uint64_t address = 0;
  if (allocate == nullptr || allocate(&address, static_cast<std::size_t>(bytes)) != 0) {
    return nullptr;
  }
  return reinterpret_cast<void*>(address);
}

inline void cuda_free(void* memory) {
  auto* release = cuda_detail::driver_function<int(std::uint64_t)>("cuMemFree_v2");
  if (release != nullptr) release(reinterpret_cast<std::uint64_t>(memory));
}

/// Copies wait for all earlier work of the default stream.
inline void cuda_upload(void* to, const void* from, std::size_t bytes) {
  auto* copy =
      cuda_detail::driver_function<int(std::uint64_t, const void*, std::size_t)>("cuMemcpyHtoD_v2");
  if (copy != nullptr) copy(reinterpret_cast<std::uint64_t>(to), from, bytes);
}

inline void cuda_download(void* to, const void* from, std::size_t bytes) {
  auto* copy =
      cuda_detail::driver_function<int(void*, std::uint64_t, std::size_t)>("cuMemcpyDtoH_v2");
  if (copy != nullptr) copy(to, reinterpret_cast<std::uint64_t>(from), bytes);
}

}  // namespace example

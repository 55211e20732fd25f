// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// Asks each loader what it found and where, and knows how to get what is missing.
#include "culet/doctor.h"

#include <fmt/format.h>

#include "base/units.h"
#include "compile/compiler.h"
#include "culet/cache.h"
#include "culet/device.h"
#include "device/cublaslt.h"
#include "device/cuda.h"
#include "device/nvml.h"
#include "device/nvrtc.h"
#include "device/onednn.h"
#include "device/openblas.h"

namespace culet {
namespace {

using State = Finding::State;

Finding missing(std::string_view group, std::string name, const Error& error, std::string advice) {
  return {group, std::move(name), State::missing, error.message, std::move(advice)};
}

std::string describe(const DeviceSpec& device) {
  return fmt::format("{}, {}, {} {}, {}", device.name, device.architecture, device.units,
                     device.is_cuda() ? "SMs" : "cores",
                     format_bytes(static_cast<double>(device.memory_bytes)));
}

void add_device(const std::string& text, std::vector<Finding>* out) {
  const auto device = find_device(text);
  if (device) {
    std::string found = describe(*device);
    if (device->is_cuda()) {
      if (const auto state = gpu_state(device->ordinal)) found += ", " + state->text();
    }
    out->push_back({"device", text, State::found, found, {}});
  } else {
    out->push_back({"device", text, State::problem, device.error().message, {}});
  }
}

void add_cuda(std::vector<Finding>* out) {
  const auto driver = cuda_driver();
  if (!driver) {
    out->push_back(missing("device", "cuda", driver.error(),
                           "needs an NVIDIA GPU with its driver (libcuda.so.1)"));
  } else {
    const int count = cuda::device_count();
    if (count == 0) {
      out->push_back({"device", "cuda", State::problem, "the driver is there but finds no device",
                      "see nvidia-smi; in a container, pass the GPU through"});
    }
    for (int i = 0; i < count; ++i) add_device(fmt::format("cuda:{}", i), out);
  }
  if (const auto version = gpu_driver_version()) {
    out->push_back({"library", "NVIDIA driver", State::found, *version, {}});
  }
}

void add_cuda_libraries(std::vector<Finding>* out) {
  const std::string toolkit = "; a toolkit elsewhere: CULET_CUDA_PATH";
  if (const auto library = nvrtc()) {
    out->push_back({"library",
                    "NVRTC",
                    State::found,
                    fmt::format("{}, {}", (*library)->version(), (*library)->path()),
                    {}});
  } else {
    out->push_back(missing("library", "NVRTC", library.error(),
                           "pip install nvidia-cuda-nvrtc, or a CUDA toolkit" + toolkit));
  }
  if (const auto library = cublaslt::library()) {
    out->push_back({"library",
                    "cuBLASLt",
                    State::found,
                    fmt::format("{}, {}", (*library)->version, (*library)->path),
                    {}});
  } else {
    out->push_back(missing("library", "cuBLASLt", library.error(),
                           "pip install nvidia-cublas, or a CUDA toolkit" + toolkit));
  }
}

void add_cpu_libraries(std::vector<Finding>* out) {
  if (const auto& library = openblas()) {
    out->push_back({"library",
                    "OpenBLAS",
                    State::found,
                    fmt::format("{}, {}", library->version, library->path),
                    {}});
  } else {
    out->push_back(missing("library", "OpenBLAS", library.error(),
                           "apt-get install libopenblas0-pthread: the baseline for f32"));
  }
  if (const auto& library = onednn()) {
    out->push_back({"library",
                    "oneDNN",
                    State::found,
                    fmt::format("{}, {}", library->version, library->path),
                    {}});
  } else {
    out->push_back(missing("library", "oneDNN", library.error(),
                           "apt-get install libdnnl2: the baseline for f32 and bf16"));
  }
}

void add_compilers(std::vector<Finding>* out) {
  const auto cpu = find_device("cpu");
  if (!cpu) return;
  const auto host = Compiler::toolchain(SourceLanguage::cpp, *cpu);
  if (host) {
    out->push_back({"compiler", "C++", State::found, *host, {}});
  } else {
    out->push_back(
        missing("compiler", "C++", host.error(),
                "apt-get install g++: without it, CPU kernels are the precompiled ones"));
  }
  if (cuda::device_count() == 0) return;
  const auto gpu = find_device("cuda");
  if (!gpu) return;
  const auto device = Compiler::toolchain(SourceLanguage::cuda, *gpu);
  if (device) {
    out->push_back({"compiler", "CUDA", State::found, *device, {}});
  } else {
    out->push_back({"compiler", "CUDA", State::problem, device.error().message,
                    "an NVRTC that knows this architecture"});
  }
}

void add_store(const std::string& cache, std::vector<Finding>* out) {
  const auto store = open_cache(cache);
  if (!store) {
    out->push_back({"store", "cache", State::problem, store.error().message,
                    "name another folder with --cache or CULET_CACHE, or 'none'"});
    return;
  }
  const CacheStats stats = (*store)->stats();
  const std::string contents = fmt::format(
      "{} kernels ({}), {} trials, {} selections", stats.code_entries,
      format_bytes(static_cast<double>(stats.code_bytes)), stats.trials, stats.selections);
  out->push_back({"store",
                  "cache",
                  State::found,
                  (stats.path.empty() ? "in memory" : stats.path) + ", " + contents,
                  {}});
  for (std::string text = (*store)->take_warning(); !text.empty();
       text = (*store)->take_warning()) {
    out->push_back({"store", "cache", State::problem, text, {}});
  }
}

}  // namespace

std::string_view to_string(Finding::State state) {
  switch (state) {
    case State::found:
      return "ok";
    case State::missing:
      return "missing";
    case State::problem:
      return "problem";
  }
  return {};
}

std::vector<Finding> diagnose(const std::string& cache) {
  std::vector<Finding> findings;
  add_device("cpu", &findings);
  add_cuda(&findings);
  add_cuda_libraries(&findings);
  add_cpu_libraries(&findings);
  add_compilers(&findings);
  add_store(cache, &findings);
  return findings;
}

}  // namespace culet

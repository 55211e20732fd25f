// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// What a benchmark needs of the CUDA driver beside the library: memory, a stream, graphs and
// timing. The driver is opened at run time, so that benchmarks build and say so where there is
// none. An error ends the program: nothing is left to measure.
#pragma once

#include <dlfcn.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <utility>
#include <vector>

#include "common.h"
#include "culet/culet.h"

namespace bench {

/// The driver's functions, by name.
class Driver {
 public:
  bool present() const { return library_ != nullptr; }
  template <typename... Arguments>
  void call(const char* name, Arguments... arguments) const {
    using Function = int(Arguments...);
    auto* const function = reinterpret_cast<Function*>(dlsym(library_, name));
    const int code = function == nullptr ? -1 : function(arguments...);
    if (code == 0) return;
    std::fprintf(stderr, "%s failed with code %d\n", name, code);
    std::exit(5);
  }

 private:
  void* library_ = dlopen("libcuda.so.1", RTLD_NOW);
};

inline const Driver& driver() {
  static const Driver opened;
  return opened;
}

/// Where there is no GPU to measure, says so as JSON; then nothing is left to do.
inline bool skipped(const culet::Result<culet::DeviceSpec>& device) {
  if (device && driver().present()) return false;
  std::printf("{\"skipped\": %s}\n",
              quoted(device ? "no CUDA driver" : device.error().message).c_str());
  return true;
}

/// Makes the device's primary context current and returns a stream in it.
inline void* open_device(int ordinal) {
  void *context = nullptr, *stream = nullptr;
  driver().call("cuInit", 0u);
  driver().call("cuDevicePrimaryCtxRetain", &context, ordinal);
  driver().call("cuCtxSetCurrent", context);
  driver().call("cuStreamCreate", &stream, 1u);
  return stream;
}

/// Device memory. What upload() and fill() write is there when they return: a stream of
/// open_device() does not wait for them.
class Memory {
 public:
  explicit Memory(std::size_t bytes) : bytes_(bytes) {
    driver().call("cuMemAlloc_v2", &address_, bytes);
  }
  Memory(Memory&& other) noexcept
      : address_(std::exchange(other.address_, 0)), bytes_(other.bytes_) {}
  Memory& operator=(Memory&&) = delete;
  ~Memory() {
    if (address_ != 0) driver().call("cuMemFree_v2", address_);
  }
  void* data() const { return reinterpret_cast<void*>(address_); }
  std::size_t bytes() const { return bytes_; }
  void upload(const void* from, std::size_t bytes) const {
    driver().call("cuMemcpyHtoD_v2", address_, from, bytes);
    wait();
  }
  void download(void* to, std::size_t bytes) const {
    driver().call("cuMemcpyDtoH_v2", to, address_, bytes);
  }
  void fill(unsigned char value) const {
    driver().call("cuMemsetD8_v2", address_, value, bytes_);
    wait();
  }

 private:
  static void wait() { driver().call("cuStreamSynchronize", static_cast<void*>(nullptr)); }

  std::uint64_t address_ = 0;
  std::size_t bytes_ = 0;
};

/// What a function puts on a stream, as a graph.
class Graph {
 public:
  Graph(void* stream, const std::function<void()>& record) : stream_(stream) {
    void* graph = nullptr;
    driver().call("cuStreamBeginCapture_v2", stream, 1);
    record();
    driver().call("cuStreamEndCapture", stream, &graph);
    driver().call("cuGraphInstantiateWithFlags", &exec_, graph, 0ull);
    driver().call("cuGraphDestroy", graph);
    driver().call("cuEventCreate", &begin_, 0u);
    driver().call("cuEventCreate", &end_, 0u);
  }
  Graph(Graph&& other) noexcept
      : stream_(other.stream_),
        exec_(std::exchange(other.exec_, nullptr)),
        begin_(std::exchange(other.begin_, nullptr)),
        end_(std::exchange(other.end_, nullptr)) {}
  Graph& operator=(Graph&&) = delete;
  ~Graph() {
    if (exec_ == nullptr) return;
    driver().call("cuGraphExecDestroy", exec_);
    driver().call("cuEventDestroy_v2", begin_);
    driver().call("cuEventDestroy_v2", end_);
  }
  /// Seconds of one replay, the last of `times`.
  double run(int times = 1) const {
    float milliseconds = 0;
    for (int i = 0; i < times; ++i) {
      if (i + 1 == times) driver().call("cuEventRecord", begin_, stream_);
      driver().call("cuGraphLaunch", exec_, stream_);
    }
    driver().call("cuEventRecord", end_, stream_);
    driver().call("cuStreamSynchronize", stream_);
    driver().call("cuEventElapsedTime", &milliseconds, begin_, end_);
    return milliseconds * 1e-3;
  }

 private:
  void* stream_;
  void* exec_ = nullptr;
  void* begin_ = nullptr;
  void* end_ = nullptr;
};

/// How many copies of `bytes` together leave no cache anything to keep.
inline int rotating_copies(double bytes, int fewest, int most) {
  constexpr double kRotateBytes = 1e9;
  return std::clamp(static_cast<int>(std::ceil(kRotateBytes / bytes)), fewest, most);
}

/// One of those that take turns: a graph, and what it took in each round.
struct Racer {
  Graph graph;
  std::vector<double> seconds;

  /// Of one of the `launches` in the graph.
  double median(int launches) const {
    std::vector<double> sorted = seconds;
    std::sort(sorted.begin(), sorted.end());
    return sorted[sorted.size() / 2] / launches;
  }
};

/// Rounds in which each replays its graph twice, of which the second counts; every other round
/// backwards. `Entry` is a Racer.
template <typename Entry>
void race(std::vector<Entry>& entries, int rounds) {
  for (Entry& entry : entries) entry.graph.run(2);
  for (int round = 0; round < rounds; ++round) {
    for (std::size_t i = 0; i < entries.size(); ++i) {
      Entry& entry = entries[round % 2 == 0 ? i : entries.size() - 1 - i];
      entry.seconds.push_back(entry.graph.run(2));
    }
  }
}

}  // namespace bench

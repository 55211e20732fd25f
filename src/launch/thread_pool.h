// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// The threads that run kernels on the CPU. One pool for the process; its threads wait for the next
// job for some microseconds and then sleep, because a pool that spins takes the cores away from
// whatever is timed next (it once made a vendor library look half as fast as it is).
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <type_traits>
#include <vector>

namespace culet {

class ThreadPool {
 public:
  /// The process's pool; a child made by fork gets a new one at first use.
  static ThreadPool& shared();

  ThreadPool();
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  /// Starts threads so that run() with up to `threads` parts allocates nothing.
  void reserve(int threads);

  /// Calls `job(0) .. job(parts - 1)`, part 0 on the calling thread, and returns when all are done.
  /// While another caller's job is running, all parts run on the calling thread, in order. `job`
  /// must not throw.
  template <typename Job>
  void run(int parts, Job&& job) {
    using Plain = std::remove_reference_t<Job>;
    run_parts(
        parts, [](void* data, int part) { (*static_cast<Plain*>(data))(part); },
        const_cast<void*>(static_cast<const void*>(&job)));
  }

 private:
  using Function = void (*)(void* data, int part);
  struct Worker;

  void run_parts(int parts, Function function, void* data);
  void work(Worker& worker, int part);
  bool grow(int threads);  ///< with running_ held; false where the system gives no more threads

  std::mutex running_;  ///< held by the caller whose job the workers do
  std::vector<std::unique_ptr<Worker>> workers_;
  Function function_ = nullptr;
  void* data_ = nullptr;
  alignas(64) std::atomic<std::int32_t> remaining_{0};
  std::atomic<bool> stop_{false};
};

/// Returns once no other thread of this process runs or waits for a core, or after `max_seconds`:
/// the pools of vendor libraries go on spinning for some milliseconds (OpenBLAS 30, libgomp 5 to
/// 15) after a call. To be called between timing one backend and the next when either uses several
/// threads.
void wait_until_pools_park(double max_seconds = 0.1);

}  // namespace culet

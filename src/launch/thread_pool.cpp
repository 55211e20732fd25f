// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// The pool's threads. A job is posted by raising each worker's ticket, which lies in a cache line
// of its own; both sides look for a while before they sleep on it (a futex).
#include "launch/thread_pool.h"

#include <pthread.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <string>
#include <system_error>
#include <thread>

namespace culet {

namespace {

// Back-to-back calls find the workers awake; after about 50 us they sleep.
constexpr double kSpinSeconds = 50e-6;

void pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

/// Waits until `value` is no longer `old`: looking for a while, then asleep.
void wait_change(const std::atomic<std::int32_t>& value, std::int32_t old) {
  using Clock = std::chrono::steady_clock;
  const auto end = Clock::now() + std::chrono::duration<double>(kSpinSeconds);
  do {
    for (int i = 0; i < 32; ++i) {
      if (value.load(std::memory_order_acquire) != old) return;
      pause();
    }
  } while (Clock::now() < end);
  while (value.load(std::memory_order_acquire) == old) value.wait(old, std::memory_order_acquire);
}

std::atomic<ThreadPool*> shared_pool{nullptr};

/// In a child the parent's threads do not exist and its locks may be held: forget the pool.
void forget_pool() { shared_pool.store(nullptr, std::memory_order_relaxed); }

/// Whether a thread of this process other than the caller runs or waits for a core. (The process's
/// CPU time says it too late: that of a thread on another core is added at its next tick, up to
/// 10 ms on.)
bool others_run() {
  const std::string self = std::to_string(gettid());
  std::error_code ended;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task", ended)) {
    if (task.path().filename() == self) continue;
    std::ifstream stat(task.path() / "stat");
    std::string line;
    std::getline(stat, line);
    // "12 (name) R ...", and a name may hold anything
    const std::size_t name_end = line.rfind(')');
    if (name_end != std::string::npos && line.compare(name_end, 3, ") R") == 0) return true;
  }
  return false;
}

}  // namespace

struct ThreadPool::Worker {
  alignas(64) std::atomic<std::int32_t> ticket{0};
  std::thread thread;
};

ThreadPool& ThreadPool::shared() {
  ThreadPool* pool = shared_pool.load(std::memory_order_acquire);
  if (pool != nullptr) return *pool;
  static const int registered = pthread_atfork(nullptr, nullptr, forget_pool);
  (void)registered;
  // Never destroyed: kernels may run from other objects' destructors at exit.
  auto* fresh = new ThreadPool;
  if (shared_pool.compare_exchange_strong(pool, fresh, std::memory_order_acq_rel)) return *fresh;
  delete fresh;
  return *pool;
}

ThreadPool::ThreadPool() = default;

ThreadPool::~ThreadPool() {
  stop_.store(true, std::memory_order_relaxed);
  for (const auto& worker : workers_) {
    worker->ticket.fetch_add(1, std::memory_order_release);
    worker->ticket.notify_one();
    worker->thread.join();
  }
}

void ThreadPool::reserve(int threads) {
  const std::lock_guard lock(running_);  // no job runs while the list of workers grows
  grow(threads);
}

bool ThreadPool::grow(int threads) {
  while (static_cast<int>(workers_.size()) < threads - 1) {
    auto worker = std::make_unique<Worker>();
    Worker& started = *worker;
    const int part = static_cast<int>(workers_.size()) + 1;
    try {
      worker->thread = std::thread([this, &started, part] { work(started, part); });
    } catch (const std::system_error&) {
      return false;
    }
    workers_.push_back(std::move(worker));
  }
  return true;
}

void ThreadPool::work(Worker& worker, int part) {
  std::int32_t seen = 0;
  while (true) {
    wait_change(worker.ticket, seen);
    ++seen;
    if (stop_.load(std::memory_order_relaxed)) return;
    function_(data_, part);
    if (remaining_.fetch_sub(1, std::memory_order_acq_rel) == 1) remaining_.notify_one();
  }
}

void ThreadPool::run_parts(int parts, Function function, void* data) {
  const int helpers = parts - 1;
  std::unique_lock lock(running_, std::defer_lock);
  if (helpers <= 0 || !lock.try_lock() || !grow(parts)) {
    for (int part = 0; part < parts; ++part) function(data, part);
    return;
  }
  function_ = function;
  data_ = data;
  remaining_.store(helpers, std::memory_order_relaxed);
  for (int i = 0; i < helpers; ++i) {
    Worker& worker = *workers_[static_cast<std::size_t>(i)];
    worker.ticket.fetch_add(1, std::memory_order_release);
    worker.ticket.notify_one();
  }
  function(data, 0);
  for (std::int32_t left = remaining_.load(std::memory_order_acquire); left != 0;
       left = remaining_.load(std::memory_order_acquire)) {
    wait_change(remaining_, left);
  }
}

void wait_until_pools_park(double max_seconds) {
  using Clock = std::chrono::steady_clock;
  const auto end = Clock::now() + std::chrono::duration<double>(max_seconds);
  do {
    std::this_thread::sleep_for(std::chrono::microseconds(300));
  } while (others_run() && Clock::now() < end);
}

}  // namespace culet

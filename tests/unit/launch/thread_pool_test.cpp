// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
#include "launch/thread_pool.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <ctime>
#include <thread>

#include "launch/split.h"

namespace culet::test {
namespace {

double process_seconds() {
  timespec time{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

TEST(ThreadPool, EveryPartOnceAndAllDone) {
  ThreadPool pool;
  pool.reserve(4);
  for (int round = 0; round < 3000; ++round) {
    std::array<int, 4> calls{};  // plain: run() orders what the parts wrote before it returns
    pool.run(4, [&](int part) { ++calls[static_cast<std::size_t>(part)]; });
    ASSERT_EQ(calls, (std::array<int, 4>{1, 1, 1, 1})) << round;
  }
}

TEST(ThreadPool, SleepsBetweenJobsAndWakes) {
  ThreadPool pool;
  for (int round = 0; round < 20; ++round) {
    std::atomic<int> calls{0};
    pool.run(3, [&](int) { ++calls; });
    ASSERT_EQ(calls, 3);
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

TEST(ThreadPool, UsesNoTimeWhenIdle) {
  ThreadPool pool;
  pool.run(3, [](int) {});
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  const double before = process_seconds();
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  EXPECT_LT(process_seconds() - before, 0.01);
}

TEST(ThreadPool, CallersAtTheSameTimeAreAllServed) {
  ThreadPool pool;
  pool.reserve(3);
  std::atomic<int> calls{0};
  std::array<std::thread, 4> callers;
  for (std::thread& caller : callers) {
    caller = std::thread([&] {
      for (int i = 0; i < 500; ++i) {
        std::array<int, 3> mine{};
        pool.run(3, [&](int part) { ++mine[static_cast<std::size_t>(part)]; });
        calls += mine[0] + mine[1] + mine[2];
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(calls, 4 * 500 * 3);
}

TEST(ThreadPool, ChildOfForkStartsAfresh) {
#if defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "ThreadSanitizer does not allow threads in a child of fork";
#endif
  ThreadPool::shared().run(2, [](int) {});
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    std::atomic<int> calls{0};
    ThreadPool::shared().run(2, [&](int) { ++calls; });
    _exit(calls == 2 ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
}

double seconds_until_parked() {
  const auto start = std::chrono::steady_clock::now();
  wait_until_pools_park(0.03);
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

TEST(ThreadPool, WaitsForOtherThreadsToPark) {
  std::atomic<bool> stop{false};
  std::thread busy([&] {
    while (!stop) {
    }
  });
  for (int i = 0; i < 20; ++i) EXPECT_GE(seconds_until_parked(), 0.03);
  stop = true;
  busy.join();
}

TEST(ThreadPool, DoesNotWaitForThreadsThatSleep) {
  ThreadPool pool;
  pool.run(3, [](int) {});
  double shortest = 1;
  for (int i = 0; i < 20; ++i) shortest = std::min(shortest, seconds_until_parked());
  EXPECT_LT(shortest, 0.03);
}

TEST(Split, PiecesCoverTheRangeInOrder) {
  for (const std::int64_t size : {0, 1, 15, 16, 17, 100, 1023}) {
    for (const std::int64_t granularity : {1, 7, 16, 64}) {
      for (const std::int64_t count : {1, 2, 3, 8}) {
        std::int64_t end = 0;
        for (std::int64_t i = 0; i < count; ++i) {
          const Range range = piece_of(size, granularity, count, i);
          EXPECT_EQ(range.begin, end);
          EXPECT_TRUE(range.end == size || range.end % granularity == 0);
          end = range.end;
        }
        EXPECT_EQ(end, size);
      }
    }
  }
}

}  // namespace
}  // namespace culet::test

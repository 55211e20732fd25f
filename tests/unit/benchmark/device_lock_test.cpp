// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// The lock that keeps two tuners from timing on one device at once.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "benchmark/trial_runner.h"

namespace culet {
namespace {

DeviceSpec device(const std::string& name) {
  DeviceSpec spec;
  spec.name = name;
  return spec;
}

TEST(DeviceLock, WaitsForTheHolder) {
  auto first = DeviceLock::acquire(device("lock test"));
  ASSERT_TRUE(first) << first.error().message;
  std::atomic<bool> got = false;
  std::thread other([&] {
    auto second = DeviceLock::acquire(device("lock test"));
    EXPECT_TRUE(second);
    got = true;
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  EXPECT_FALSE(got);
  { const DeviceLock gone = std::move(*first); }
  other.join();
  EXPECT_TRUE(got);
}

TEST(DeviceLock, StopEndsTheWait) {
  auto first = DeviceLock::acquire(device("lock test"));
  ASSERT_TRUE(first);
  const std::atomic<bool> stop = true;
  auto second = DeviceLock::acquire(device("lock test"), &stop);
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code, ErrorCode::interrupted);
}

TEST(DeviceLock, OtherDevicesAreFree) {
  auto first = DeviceLock::acquire(device("lock test a"));
  auto second = DeviceLock::acquire(device("lock test b"));
  EXPECT_TRUE(first);
  EXPECT_TRUE(second);
}

}  // namespace
}  // namespace culet

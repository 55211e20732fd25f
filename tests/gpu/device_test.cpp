// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// A real GPU: probing, contexts, memory, events, state.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <thread>

#include "device/nvml.h"
#include "gpu_case.h"

namespace culet {
namespace {

using test::gpu;
using test::take;

TEST(Gpu, ProbeIsPlausible) {
  CULET_NEEDS_GPU();
  const DeviceSpec& device = *gpu();
  std::printf("%s", device.json().c_str());
  EXPECT_TRUE(device.present);
  EXPECT_GT(device.units, 1);
  EXPECT_GT(device.memory_bytes, 1 << 30);
  EXPECT_GE(device.shared_per_block, 48 << 10);
  EXPECT_FALSE(device.vector_ops.empty());
  EXPECT_FALSE(device.driver.empty());
  EXPECT_EQ(device.architecture.find("sm_"), 0u);
  const auto again = DeviceSpec::from_json(device.json());
  ASSERT_TRUE(again);
  EXPECT_FALSE(again->present) << "a file describes a device, it is not one";
  EXPECT_EQ(again->identity(), device.identity());
  EXPECT_EQ(again->uuid, device.uuid);
  EXPECT_EQ(device.uuid.size(), 40u) << device.uuid;
  EXPECT_EQ(device.uuid.find("GPU-"), 0u) << device.uuid;
  const auto beyond = find_device("cuda:4096");
  ASSERT_FALSE(beyond);
  EXPECT_EQ(beyond.error().code, ErrorCode::device);
}

TEST(Gpu, StateHasClocks) {
  CULET_NEEDS_GPU();
  const auto state = gpu_state(gpu()->ordinal);
  if (!state) GTEST_SKIP() << state.error().message;
  std::printf("  %s\n", state->text().c_str());
  EXPECT_GT(state->sm_clock_mhz, 0);
  EXPECT_GE(state->max_sm_clock_mhz, state->sm_clock_mhz);
}

TEST(Gpu, ContextStaysCurrentWhereThereWasNone) {
  CULET_NEEDS_GPU();
  std::thread([] {
    const CudaDriver& driver = *take(cuda_driver());
    cuda::CUcontext current = nullptr;
    driver.ctx_get_current(&current);
    EXPECT_EQ(current, nullptr);
    EXPECT_FALSE(cuda::current_device());
    { const auto context = take(cuda::Context::enter(gpu()->ordinal)); }
    driver.ctx_get_current(&current);
    EXPECT_NE(current, nullptr);
    EXPECT_EQ(take(cuda::current_device()), gpu()->ordinal);
    const auto again = take(cuda::Context::enter(gpu()->ordinal));
    EXPECT_EQ(again.get(), current) << "the caller's own context is used";
  }).join();
}

TEST(Gpu, MemoryStreamsAndEvents) {
  CULET_NEEDS_GPU();
  const auto context = take(cuda::Context::enter(gpu()->ordinal));
  const auto info = take(cuda::memory_info());
  EXPECT_GT(info.free_bytes, 0);
  EXPECT_GE(info.total_bytes, info.free_bytes);
  EXPECT_FALSE(cuda::DeviceBuffer::allocate(std::int64_t{1} << 50));
  cuda::DeviceBuffer buffer = take(cuda::DeviceBuffer::allocate(1 << 20));
  const cuda::Stream stream = take(cuda::Stream::create());
  const cuda::Event start = take(cuda::Event::create());
  const cuda::Event end = take(cuda::Event::create());
  ASSERT_TRUE(start.record(stream.get()));
  ASSERT_TRUE(buffer.fill(0x5a, stream.get()));
  ASSERT_TRUE(end.record(stream.get()));
  ASSERT_TRUE(end.synchronize());
  EXPECT_TRUE(take(end.done()));
  EXPECT_GE(take(end.seconds_since(start)), 0);
  std::uint32_t word = 0;
  ASSERT_TRUE(buffer.download(&word, 4, (1 << 20) - 4));
  EXPECT_EQ(word, 0x5a5a5a5au);
  EXPECT_FALSE(buffer.download(&word, 4, 1 << 20));
  EXPECT_FALSE(buffer.upload(&word, 4, -1));
  cuda::DeviceBuffer empty = take(cuda::DeviceBuffer::allocate(0));
  EXPECT_NE(empty.data(), nullptr);
  cuda::DeviceBuffer moved = std::move(buffer);
  EXPECT_EQ(moved.bytes(), 1 << 20);
}

TEST(Gpu, AForkedChildIsTold) {
  CULET_NEEDS_GPU();
  const pid_t child = fork();
  if (child == 0) {
    const auto driver = cuda_driver();
    const bool told = !driver && driver.error().message.find("forked") != std::string::npos;
    _exit(told && !find_device("cuda") ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

}  // namespace
}  // namespace culet

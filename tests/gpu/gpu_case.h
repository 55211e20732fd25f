// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// The GEMM cases of the unit tests, run on a GPU: operands are copied to the device, D comes back
// and is compared with the same independent triple loop.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "../unit/support/gemm_case.h"
#include "culet/device.h"
#include "culet/plan.h"
#include "device/cuda.h"

namespace culet::test {

/// The GPU, or null with the reason printed by the macro below.
inline const Result<DeviceSpec>& gpu() {
  static const Result<DeviceSpec> device = find_device("cuda");
  return device;
}

#define CULET_NEEDS_GPU() \
  if (!culet::test::gpu()) GTEST_SKIP() << "no GPU: " << culet::test::gpu().error().message

/// Unwraps, failing the test with the error's text.
template <typename T>
T take(Result<T> result) {
  if (!result) {
    ADD_FAILURE() << result.error().message << "\n" << result.error().detail;
    std::abort();  // what follows would use a value that is not there
  }
  return std::move(*result);
}

inline cuda::DeviceBuffer upload(const void* from, std::int64_t bytes) {
  cuda::DeviceBuffer buffer = take(cuda::DeviceBuffer::allocate(bytes));
  const auto copied = buffer.upload(from, bytes);
  EXPECT_TRUE(copied) << copied.error().message;
  return buffer;
}

/// A GemmCase with its operands on the device.
class GpuCase {
 public:
  explicit GpuCase(const std::string& text) : host(text) {
    Problem p = host.problem;
    p.m = p.m_range.high;  // room for any m of the range
    a_ = upload(host.a.data(), bytes(p.a, p.span_a()));
    b_ = upload(host.b.data(), bytes(p.b, p.span_b()));
    for (std::size_t i = 0; i < host.extra.size(); ++i) {
      const EpilogueOperand& described = p.epilogue.operands()[i];
      std::int64_t count = 1;
      if (described.index == EpilogueIndex::row) count = p.m;
      if (described.index == EpilogueIndex::column) count = p.n;
      if (described.index == EpilogueIndex::full) count = host.span_d;
      extra_.push_back(upload(host.extra[i].data(), bytes(described.dtype, count)));
      pointers_.push_back(extra_.back().data());
    }
  }

  /// Runs a plan on a stream of its own and compares all of D and what lies beside it.
  void run_and_compare(const Plan& plan, std::int64_t m = -1, double tolerance = 0) {
    cuda::Stream stream = take(cuda::Stream::create());
    prepare(plan);
    const auto ran = plan.run(arguments(m), {stream.get(), false});
    ASSERT_TRUE(ran) << ran.error().message;
    const auto done = stream.synchronize();
    ASSERT_TRUE(done) << done.error().message;
    compare(m, tolerance);
  }

  /// Poisons D and allocates what the plan needs.
  void prepare(const Plan& plan) {
    const std::int64_t size = d_bytes();
    Memory poisoned = host.poisoned();
    d_ = upload(poisoned.data(), size);
    const Workspace workspace = plan.workspace(host.problem.m_range.high);
    workspace_ = take(cuda::DeviceBuffer::allocate(std::max<std::int64_t>(workspace.bytes, 256)));
    ASSERT_TRUE(workspace_.fill(0));
    ASSERT_TRUE(cuda::synchronize());
  }

  Arguments arguments(std::int64_t m = -1) const {
    Arguments arguments;
    arguments.a = a_.data();
    arguments.b = b_.data();
    arguments.d = d_.data();
    arguments.extra = pointers_.data();
    arguments.workspace = workspace_.data();
    arguments.m = m;
    return arguments;
  }

  void compare(std::int64_t m = -1, double tolerance = 0) {
    const std::int64_t size = d_bytes();
    Memory d(size);
    ASSERT_TRUE(d_.download(d.data(), size));
    host.compare(d, m, tolerance);
    host.compare_untouched(d, m);
  }

  GemmCase host;

 private:
  std::int64_t d_bytes() const { return bytes(host.problem.d, host.span_d) + 64; }

  cuda::DeviceBuffer a_, b_, d_, workspace_;
  std::vector<cuda::DeviceBuffer> extra_;
  std::vector<const void*> pointers_;
};

}  // namespace culet::test

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// Host kernels: every way of dividing a problem gives the same result, and code loads as it should.
#include <gtest/gtest.h>

#include <thread>

#include "../support/gemm_case.h"
#include "host_kernel_fixture.h"
#include "launch/shared_object.h"

namespace culet::test {
namespace {

using Split = HostLaunch::Split;

class HostStep : public ::testing::Test {
 protected:
  void SetUp() override {
    if (host_kernels().empty()) GTEST_SKIP() << "no C++ compiler named c++";
  }

  static BuiltStep step(Split split, int threads, std::int64_t granularity = 1) {
    BuiltStep built;
    built.step.backend = "test";
    built.artifact.kind = ArtifactKind::host_so;
    built.artifact.bytes = host_kernels();
    built.artifact.entry = "culet_sum";
    built.launch.host = {split, granularity, threads, 4};
    return built;
  }

  static void check(const std::string& text, Split split, int threads,
                    std::int64_t granularity = 1) {
    SCOPED_TRACE(text + " split " + std::to_string(static_cast<int>(split)) + " x" +
                 std::to_string(threads));
    GemmCase c(text);
    auto plan = c.load({step(split, threads, granularity)}, cpu(threads));
    ASSERT_TRUE(plan) << plan.error().message;
    for (int round = 0; round < 3; ++round) c.run_and_compare(*plan);
  }
};

TEST_F(HostStep, EverySplit) {
  for (const Split split : {Split::none, Split::m, Split::n, Split::k}) {
    for (const int threads : {1, 2, 3}) {
      for (const char* sizes : {"3x5x7", "61x67x71", "1x300x500", "300x1x500", "2x3x4000"}) {
        check(std::string(sizes) + ":f32:layout=tt", split, threads, 16);
        check(std::string(sizes) + ":f32:layout=tt:lda=4001:ldb=330:ldd=331", split, threads);
      }
    }
  }
}

TEST_F(HostStep, BatchesOfEverySplit) {
  for (const Split split : {Split::none, Split::m, Split::n, Split::k}) {
    for (const char* batch : {"1", "2", "3", "4"}) {
      check("31x37x91x" + std::string(batch) + ":f32:layout=tt", split, 2, 8);
      if (std::string(batch) == "1") continue;
      check("31x37x91x" + std::string(batch) + ":f32:layout=tt:strideb=0", split, 2, 8);
    }
  }
}

TEST_F(HostStep, EmptySum) {
  for (const Split split : {Split::none, Split::m, Split::n, Split::k}) {
    check("40x41x0:f32:layout=tt", split, 2);
  }
}

TEST_F(HostStep, SplitOfKAppliesTheEpilogueAfterTheSum) {
  check("41x67x300:f32:layout=tt:epi=\"relu(acc + bias[n]) + c[m,n]\"", Split::k, 2, 16);
  check("1x67x3000x3:f32:layout=tt:epi=\"relu(acc + bias[n]) + c[m,n]\"", Split::k, 3, 16);
}

TEST_F(HostStep, SmallerM) {
  GemmCase c("64x67x71:f32:layout=tt:m=1..64");
  for (const Split split : {Split::none, Split::m, Split::n, Split::k}) {
    auto plan = c.load({step(split, 2)}, cpu(2));
    ASSERT_TRUE(plan) << plan.error().message;
    for (const std::int64_t m : {1, 2, 33, 64}) c.run_and_compare(*plan, m);
  }
}

TEST_F(HostStep, PackedB) {
  for (const char* text : {"31x37x91:f32:layout=tt:pack=b", "31x37x91x3:f32:layout=tt:pack=b",
                           "31x37x91x3:f32:layout=tt:pack=b:strideb=0"}) {
    GemmCase c(text);
    BuiltStep built = step(Split::n, 2);
    built.artifact.entry = "culet_sum_packed";
    const std::int64_t entries = c.problem.stride_b == 0 ? 1 : c.problem.batch;
    built.launch.packed_b_bytes = 37 * 91 * 4 * entries;
    built.launch.pack_entry = "culet_pack";
    auto plan = c.load({built}, cpu(2));
    ASSERT_TRUE(plan) << plan.error().message;
    c.run_and_compare(*plan);
  }
}

TEST_F(HostStep, RunsFromSeveralThreadsAtOnce) {
  for (const Split split : {Split::none, Split::m, Split::n, Split::k}) {
    GemmCase c("61x67x71:f32:layout=tt");
    auto plan = c.load({step(split, 2)}, cpu(2));
    ASSERT_TRUE(plan) << plan.error().message;
    std::vector<std::thread> threads;
    std::vector<Memory> results;
    for (int i = 0; i < 4; ++i) results.push_back(c.poisoned());
    for (int i = 0; i < 4; ++i) {
      threads.emplace_back([&, i] {
        for (int round = 0; round < 50; ++round) {
          auto ran = c.run(*plan, results[static_cast<std::size_t>(i)]);
          ASSERT_TRUE(ran) << ran.error().message;
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    for (Memory& d : results) c.compare(d);
  }
}

TEST_F(HostStep, SaysWhatIsMissing) {
  GemmCase c("4x4x4:f32:layout=tt");
  const auto message = [&](const BuiltStep& built) {
    const auto plan = c.load({built}, cpu(1));
    EXPECT_FALSE(plan);
    return plan ? "" : plan.error().message;
  };
  BuiltStep built = step(Split::n, 1);
  built.artifact.entry = "absent";
  EXPECT_EQ(message(built), "test: no kernel named 'absent'");
  built.artifact.kind = ArtifactKind::host_builtin;
  EXPECT_EQ(message(built), "test: no kernel named 'absent'");
  built = step(Split::n, 1);
  built.launch.packed_b_bytes = 64;
  built.launch.pack_entry = "absent";
  EXPECT_EQ(message(built), "test: no packing routine named 'absent'");
  built = step(Split::n, 0);
  EXPECT_EQ(message(built), "test: a kernel's launch has no threads or no granularity");
  built = step(Split::n, 1);
  built.artifact.bytes = "not a library";
  EXPECT_NE(message(built).find("test: a kernel does not load: "), std::string::npos);
}

TEST_F(HostStep, SameBytesLoadOnceOthersApart) {
  auto first = SharedObject::load(host_kernels());
  auto again = SharedObject::load(host_kernels());
  ASSERT_TRUE(first && again);
  EXPECT_EQ(first->get(), again->get());
  const std::string other_bytes = compile_host_kernels(2);
  auto other = SharedObject::load(other_bytes);
  ASSERT_TRUE(other);
  const auto marker = [](const SharedObject& object) {
    return *static_cast<int*>(object.symbol("culet_marker"));
  };
  EXPECT_EQ(marker(**first), 1);
  EXPECT_EQ(marker(**other), 2);
  // A descriptor's number used again must not give the library that was there before.
  for (int i = 3; i < 6; ++i) {
    const std::string bytes = compile_host_kernels(i);
    auto object = SharedObject::load(bytes);
    ASSERT_TRUE(object);
    EXPECT_EQ(marker(**object), i);
  }
}

TEST_F(HostStep, LibrariesThatStayLoadedAreNotMistakenForOthers) {
  // What cannot be unloaded (`-z nodelete`; with g++ any static variable of an inline function)
  // stays known to the loader by its path: a kernel loaded later must not get that code. It once
  // did, with the other's scratch size, and wrote beyond it.
  for (int i = 10; i < 14; ++i) {
    const std::string bytes =
        compile_shared(kHostKernels, "-Wl,-z,nodelete -DMARKER=" + std::to_string(i));
    auto object = SharedObject::load(bytes);
    ASSERT_TRUE(object);
    EXPECT_EQ(*static_cast<int*>((*object)->symbol("culet_marker")), i);
  }
}

}  // namespace
}  // namespace culet::test

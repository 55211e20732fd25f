// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// Plans: every wrong argument is one clear line and leaves D as it was; workspaces; tables.
#include <gtest/gtest.h>

#include <thread>

#include "../support/gemm_case.h"
#include "host_kernel_fixture.h"

namespace culet::test {
namespace {

BuiltStep reference(const Problem& problem, Part part = Part::all, int threads = 1) {
  return own_step("reference", problem, part, threads);
}

Plan load_reference(const GemmCase& c, Part part = Part::all, int threads = 1) {
  auto plan = c.load({reference(c.problem, part, threads)}, cpu(threads));
  EXPECT_TRUE(plan) << (plan ? "" : plan.error().message);
  return *plan;
}

/// Arguments that are right, to be spoilt.
struct Call {
  explicit Call(GemmCase& c) : d(c.poisoned()), workspace(1 << 20) {
    for (Memory& operand : c.extra) pointers.push_back(operand.data());
    arguments.a = c.a.data();
    arguments.b = c.b.data();
    arguments.d = d.data();
    arguments.extra = pointers.data();
    arguments.workspace = workspace.data();
  }
  std::string error(const Plan& plan) const {
    const auto ran = plan.run(arguments);
    EXPECT_FALSE(ran);
    if (ran) return {};
    EXPECT_EQ(ran.error().code, ErrorCode::invalid_argument);
    return ran.error().message;
  }
  Memory d, workspace;
  std::vector<const void*> pointers;
  Arguments arguments;
};

TEST(Plan, NullPointers) {
  GemmCase c("4x6x8:f32:epi=\"acc + bias[n]\"");
  const Plan plan = load_reference(c, Part::gemm);
  Call call(c);
  call.arguments.a = nullptr;
  EXPECT_EQ(call.error(plan), "a: a null pointer");
  call = Call(c);
  call.arguments.b = nullptr;
  EXPECT_EQ(call.error(plan), "b: a null pointer");
  call = Call(c);
  call.arguments.d = nullptr;
  EXPECT_EQ(call.error(plan), "d: a null pointer");
  call = Call(c);
  call.arguments.extra = nullptr;
  EXPECT_EQ(call.error(plan), "extra: null, but the epilogue has 1 operands");
  call = Call(c);
  call.pointers[0] = nullptr;
  EXPECT_EQ(call.error(plan), "extra[0] ('bias'): a null pointer");
  call = Call(c);
  call.arguments.workspace = nullptr;
  EXPECT_EQ(call.error(plan), "workspace: null, but this plan needs 96 bytes");
}

TEST(Plan, ErrorLeavesDAsItWas) {
  GemmCase c("4x6x8:f32:epi=\"acc + bias[n]\"");
  const Plan plan = load_reference(c, Part::gemm);
  Call call(c);
  call.arguments.workspace = nullptr;
  call.error(plan);
  Memory untouched = c.poisoned();
  EXPECT_EQ(std::memcmp(call.d.data(), untouched.data(), 4 * 6 * 4), 0);
}

TEST(Plan, Misaligned) {
  GemmCase c("4x6x8:f32");
  const Plan plan = load_reference(c);
  Call call(c);
  call.arguments.a = c.a.data() + 4;
  EXPECT_NE(call.error(plan).find("is not aligned to 16 bytes, as the problem promises"),
            std::string::npos);
  GemmCase loose("4x6x8:f32:epi=\"2 * acc\"");
  const Plan two = load_reference(loose, Part::gemm);
  Call with_workspace(loose);
  with_workspace.arguments.workspace = with_workspace.workspace.data() + 64;
  EXPECT_NE(with_workspace.error(two).find("is not aligned to 256 bytes"), std::string::npos);
}

TEST(Plan, OperandsOffByOneElementWhereTheProblemSaysSo) {
  GemmCase c("4x6x8:f32:aligna=4:alignb=4:alignd=4");
  const Plan plan = load_reference(c);
  Memory a(4 * 8 * 4 + 4), b(6 * 8 * 4 + 4), d(4 * 6 * 4 + 4);
  std::memcpy(a.data() + 4, c.a.data(), 4 * 8 * 4);
  std::memcpy(b.data() + 4, c.b.data(), 6 * 8 * 4);
  Arguments arguments;
  arguments.a = a.data() + 4;
  arguments.b = b.data() + 4;
  arguments.d = d.data() + 4;
  ASSERT_TRUE(plan.run(arguments));
  Memory result = c.poisoned();
  std::memcpy(result.data(), d.data() + 4, 4 * 6 * 4);
  c.compare(result);
}

TEST(Plan, MOutsideItsRange) {
  GemmCase c("4x6x8:f32:m=2..8");
  const Plan plan = load_reference(c);
  Call call(c);
  for (const std::int64_t m : {0, 1, 9}) {
    call.arguments.m = m;
    EXPECT_EQ(call.error(plan),
              "m: " + std::to_string(m) + " is outside 2..8, which this plan is for");
  }
}

TEST(Plan, EmptyProblemsLaunchNothing) {
  for (const char* text : {"0x6x8:f32", "4x0x8:f32", "4x6x8x0:f32"}) {
    const Problem problem = *Problem::parse(text);
    const BuiltStep step = reference(problem);
    auto plan = Plan::load(problem, BuiltCandidate{{{step.step}}, {step}}, cpu(1));
    ASSERT_TRUE(plan) << plan.error().message;
    EXPECT_TRUE(plan->run({})) << text;
    EXPECT_EQ(plan->workspace().bytes, 0) << text;
  }
}

TEST(Plan, EmptySumNeedsNoOperands) {
  GemmCase c("4x6x0:f32:epi=\"acc + bias[n]\"");
  const Plan plan = load_reference(c);
  Call call(c);
  call.arguments.a = call.arguments.b = nullptr;
  ASSERT_TRUE(plan.run(call.arguments));
  c.compare(call.d);
}

TEST(Plan, StepsMustMakeAWhole) {
  GemmCase c("4x6x8:f32");
  const BuiltStep gemm = reference(c.problem, Part::gemm);
  const auto plan = Plan::load(c.problem, BuiltCandidate{{{gemm.step}}, {gemm}}, cpu(1));
  ASSERT_FALSE(plan);
  EXPECT_EQ(plan.error().message,
            "'reference:gemm' is neither one whole step nor a gemm and an epilogue step");
  EXPECT_FALSE(Plan::load(c.problem, BuiltCandidate{}, cpu(1)));
}

TEST(Plan, DescribedDevicesRunNothing) {
  GemmCase c("4x6x8:f32");
  DeviceSpec device = cpu(1);
  device.present = false;
  const auto plan = c.load({reference(c.problem)}, device);
  ASSERT_FALSE(plan);
  EXPECT_EQ(plan.error().message,
            "reference: test CPU is only described here, so nothing can run on it");
}

TEST(Plan, UnknownLibrary) {
  GemmCase c("4x6x8:f32");
  BuiltStep step = reference(c.problem);
  step.artifact.entry = "mkl";
  const auto plan = c.load({step}, cpu(1));
  ASSERT_FALSE(plan);
  EXPECT_EQ(plan.error().message, "reference: no library named 'mkl'");
}

TEST(Plan, PackedOperandIsAskedFor) {
  if (host_kernels().empty()) GTEST_SKIP() << "no C++ compiler named c++";
  GemmCase c("4x6x8:f32:layout=tt:pack=b");
  BuiltStep step;
  step.step.backend = "test";
  step.artifact.kind = ArtifactKind::host_so;
  step.artifact.bytes = host_kernels();
  step.artifact.entry = "culet_sum_packed";
  step.launch.packed_b_bytes = 6 * 8 * 4;
  step.launch.pack_entry = "culet_pack";
  auto plan = c.load({step}, cpu(1));
  ASSERT_TRUE(plan) << plan.error().message;
  EXPECT_EQ(plan->packed_bytes(), 6 * 8 * 4);
  Call call(c);
  EXPECT_EQ(call.error(*plan),
            "packed_b: missing; this plan reads B from what Plan::prepare() made");
  PackedOperand small{call.workspace.data(), 10};
  call.arguments.packed_b = &small;
  EXPECT_EQ(call.error(*plan), "packed_b: 10 bytes, but this plan's has 192");
  EXPECT_FALSE(plan->prepare(nullptr, call.workspace.data()));
  EXPECT_FALSE(plan->prepare(c.b.data(), nullptr));
  EXPECT_FALSE(plan->prepare(c.b.data(), call.workspace.data() + 8));
  EXPECT_FALSE(load_reference(c).prepare(c.b.data(), call.workspace.data()));
}

TEST(Plan, WorkspaceHoldsTheTemporaryThenScratch) {
  if (host_kernels().empty()) GTEST_SKIP() << "no C++ compiler named c++";
  GemmCase c("10x6x8:f32:m=1..20:epi=\"2 * acc\"");
  BuiltStep gemm;
  gemm.step = {"test", {}, Part::gemm};
  gemm.artifact.kind = ArtifactKind::host_so;
  gemm.artifact.bytes = host_kernels();
  gemm.artifact.entry = "culet_nothing";
  gemm.launch.workspace_bytes = MValue::times_m(1000);
  auto plan = c.load({gemm}, cpu(1));
  ASSERT_TRUE(plan) << plan.error().message;
  EXPECT_EQ(plan->workspace().bytes, 256 + 10000);  // 10 * 6 floats, rounded up, and scratch
  EXPECT_EQ(plan->workspace(20).bytes, 512 + 20000);
  EXPECT_EQ(plan->workspace().zeroed_prefix, 0);

  gemm.launch.zeroed_prefix = 128;
  auto zeroed = c.load({gemm}, cpu(1));
  ASSERT_TRUE(zeroed) << zeroed.error().message;
  // What must be zero comes first, where no m moves it.
  EXPECT_EQ(zeroed->workspace().zeroed_prefix, 128);
  EXPECT_EQ(zeroed->workspace(20).zeroed_prefix, 128);
  EXPECT_EQ(zeroed->workspace().bytes, 10240 + 240);  // scratch, rounded up, and 60 floats
}

TEST(Plan, RunsFromSeveralThreadsAtOnce) {
  GemmCase c("40x50x60:f32:epi=\"relu(acc + bias[n])\"");
  const Plan plan = load_reference(c, Part::gemm, 2);
  std::vector<Memory> results;
  for (int i = 0; i < 4; ++i) results.push_back(c.poisoned());
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&, i] {
      for (int round = 0; round < 30; ++round) {
        auto ran = c.run(plan, results[static_cast<std::size_t>(i)]);
        ASSERT_TRUE(ran) << ran.error().message;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (Memory& d : results) c.compare(d);
}

class PlanTableTest : public ::testing::Test {
 protected:
  static PlanTable::Interval interval(std::int64_t low, std::int64_t high) {
    GemmCase c(std::to_string(high) + "x6x8:f32:m=" + std::to_string(low) + ".." +
               std::to_string(high));
    return {{low, high}, load_reference(c)};
  }
  static std::string error(std::vector<PlanTable::Interval> intervals) {
    const auto table = PlanTable::make(std::move(intervals));
    EXPECT_FALSE(table);
    return table ? "" : table.error().message;
  }
};

TEST_F(PlanTableTest, FindsEveryM) {
  auto table = PlanTable::make({interval(1, 1), interval(2, 16), interval(17, 64)});
  ASSERT_TRUE(table) << table.error().message;
  EXPECT_EQ(table->find(0), nullptr);
  EXPECT_EQ(table->find(65), nullptr);
  for (std::int64_t m = 1; m <= 64; ++m) {
    const Plan* plan = table->find(m);
    ASSERT_NE(plan, nullptr) << m;
    EXPECT_GE(m, plan->problem().m_range.low);
    EXPECT_LE(m, plan->problem().m_range.high);
  }
}

TEST_F(PlanTableTest, RunsTheIntervalsPlan) {
  auto table = PlanTable::make({interval(1, 4), interval(5, 9)});
  ASSERT_TRUE(table);
  GemmCase c("9x6x8:f32:m=1..9");
  Call call(c);
  for (const std::int64_t m : {1, 4, 5, 9}) {
    call.arguments.m = m;
    ASSERT_TRUE(table->run(call.arguments));
    c.compare(call.d, m);
  }
  call.arguments.m = 10;
  const auto ran = table->run(call.arguments);
  ASSERT_FALSE(ran);
  EXPECT_EQ(ran.error().message, "m: 10 is outside 1..9, which this table is for");
}

TEST_F(PlanTableTest, RefusesGapsOverlapsAndShortPlans) {
  EXPECT_EQ(error({}), "a plan table without intervals");
  EXPECT_EQ(error({interval(1, 4), interval(6, 9)}),
            "m=6..9 does not follow m=1..4: intervals leave no gap and do not overlap");
  EXPECT_EQ(error({interval(1, 4), interval(4, 9)}),
            "m=4..9 does not follow m=1..4: intervals leave no gap and do not overlap");
  PlanTable::Interval wide = interval(1, 4);
  wide.range.high = 8;
  EXPECT_EQ(error({wide}), "the plan for m=1..8 serves only m=1..4");
  PlanTable::Interval inverted = interval(1, 4);
  inverted.range = {4, 1};
  EXPECT_EQ(error({inverted}), "m=4..1 is not an interval");
}

}  // namespace
}  // namespace culet::test

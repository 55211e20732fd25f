// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// Candidates that take their process down, or would: each costs itself only.
#include "benchmark/isolation.h"

#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <thread>
#include <tuple>

#include "benchmark/build_id.h"
#include "benchmark/worker_messages.h"
#include "benchmark/worker_process.h"
#include "hanging_owner.h"
#include "planted.h"

extern char** environ;

namespace culet {
namespace {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kSanitized = true;  // then a signal becomes a report and an exit status
#else
constexpr bool kSanitized = false;
#endif

constexpr const char* kProblem = "37x45x70:f32:lda=75:ldb=72:ldd=50";

const char* const kDeadlySource = R"source(
#include <cstdlib>
#include <new>
#include <stdexcept>
#include <sys/time.h>
#include <unistd.h>
extern "C" {
void segfaults(const Args* x) { all(x); *(volatile int*)16 = 1; }
void spins(const Args*) { for (;;) asm volatile("" ::: "memory"); }
void aborts(const Args*) { std::abort(); }
void throws(const Args*) { throw std::runtime_error("planted"); }
void exits(const Args*) { _exit(3); }
void closes(const Args* x) { all(x); for (int i = 3; i < 64; ++i) close(i); }
void allocates(const Args*) {
  for (;;) { volatile char* p = new char[64 << 20]; for (long i = 0; i < 64 << 20; i += 1 << 16) p[i] = 1; }
}
void overwrites(const Args* x) {  // everything around, not only canaries
  all(x);
  char* p = (char*)x->d;
  for (long i = -(1l << 40); i < 1l << 40; i += 4096) p[i] = 1;
}
void divides(const Args* x) { volatile int zero = 0; row(x, 0)[0] = 10 / zero; }
static int calls = 0;
void segfaults_later(const Args* x) { all(x); if (++calls > 8) *(volatile int*)16 = 1; }
void spins_later(const Args* x) { all(x); if (++calls > 8) for (;;) asm volatile("" ::: "memory"); }
void kills_the_next(const Args* x) {
  all(x);
  if (++calls < 3) return;
  itimerval soon{{0, 0}, {0, 50000}};
  setitimer(ITIMER_REAL, &soon, nullptr);
}
void takes_a_while(const Args* x) { all(x); usleep(100000); }
}
)source";

struct Deadly : Planted {
  explicit Deadly(const std::string& entry) : Planted(entry, 1, kDeadlySource) {}
};

class Isolation : public testing::Test {
 protected:
  std::unique_ptr<TrialRunner> runner(double trial_seconds = 10) {
    RunnerOptions options;
    options.max_memory_bytes = 512e6;
    options.policy.rotate_bytes = 1 << 20;
    options.policy.target_seconds = 0.002;
    options.policy.trial_seconds = trial_seconds;
    auto made = host_.make_runner(*Problem::parse(kProblem), test_cpu(), options);
    EXPECT_TRUE(made) << (made ? "" : made.error().message);
    EXPECT_EQ(host_.take_note(), "");
    return made ? std::move(*made) : nullptr;
  }

  static void expect(const Verification& verdict, Outcome outcome, const std::string& says) {
    EXPECT_EQ(verdict.outcome, outcome) << verdict.reason;
    EXPECT_NE(verdict.reason.find(says), std::string::npos) << verdict.reason;
  }

  WorkerHost host_;
};

#define CULET_NEEDS_COMPILER()     \
  const Deadly correct("correct"); \
  if (!correct.ok) GTEST_SKIP() << "no compiler: " << correct.reason

TEST_F(Isolation, EveryFaultCostsItsCandidateOnly) {
  CULET_NEEDS_COMPILER();
  auto runner = this->runner();
  ASSERT_NE(runner, nullptr);
  const auto verdict = [&](const std::string& entry) {
    const Deadly deadly(entry);
    EXPECT_TRUE(deadly.ok) << deadly.reason;
    const Verification found = runner->verify(deadly.candidate, true);
    const Verification after = runner->verify(correct.candidate, true);
    EXPECT_EQ(after.outcome, Outcome::measured) << "after " << entry << ": " << after.reason;
    return found;
  };
  expect(verdict("segfaults"), Outcome::crashed, kSanitized ? "" : "killed by SIGSEGV");
  expect(verdict("aborts"), Outcome::crashed, kSanitized ? "" : "killed by SIGABRT");
  expect(verdict("throws"), Outcome::crashed, "planted");
  expect(verdict("exits"), Outcome::crashed, "exit status 3");
  expect(verdict("closes"), Outcome::crashed, "");
  expect(verdict("divides"), Outcome::crashed, kSanitized ? "" : "killed by SIGFPE");
  expect(verdict("overwrites"), Outcome::crashed, kSanitized ? "" : "killed by SIG");
  expect(verdict("one_element"), Outcome::wrong, "D[18,15] of batch 0 is ");
  expect(verdict("nan_element"), Outcome::wrong, "NaN");
  expect(verdict("writes_behind"), Outcome::wrong, "after D's first element");
  expect(verdict("no_such_entry"), Outcome::build_failed, "no_such_entry");
}

TEST_F(Isolation, WithoutEndIsTimedOut) {
  CULET_NEEDS_COMPILER();
  auto runner = this->runner(1);
  ASSERT_NE(runner, nullptr);
  const Deadly spins("spins");
  const auto begin = std::chrono::steady_clock::now();
  expect(runner->verify(spins.candidate, true), Outcome::timed_out, "killed after 1.5 s");
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(20));
  EXPECT_EQ(runner->verify(correct.candidate, true).outcome, Outcome::measured);
}

TEST_F(Isolation, AllocatingWithoutBoundMeetsALimit) {
  CULET_NEEDS_COMPILER();
  if (kSanitized) GTEST_SKIP() << "sanitizers reserve more memory than any limit";
  auto runner = this->runner();
  ASSERT_NE(runner, nullptr);
  const Deadly allocates("allocates");
  expect(runner->verify(allocates.candidate, true), Outcome::crashed, "out of memory");
  EXPECT_EQ(runner->verify(correct.candidate, true).outcome, Outcome::measured);
}

TEST_F(Isolation, ARaceGoesOnWithoutThoseThatDie) {
  CULET_NEEDS_COMPILER();
  auto runner = this->runner(1);
  ASSERT_NE(runner, nullptr);
  const Deadly segfaults("segfaults_later"), spins("spins_later"), slow("slow");
  const auto results =
      runner->race({&correct.candidate, &segfaults.candidate, &spins.candidate, &slow.candidate},
                   {false, false, false, false}, nullptr);
  EXPECT_EQ(results[0].outcome, Outcome::measured) << results[0].reason;
  EXPECT_GE(results[0].timing.samples, 5);
  EXPECT_EQ(results[1].outcome, Outcome::crashed) << results[1].reason;
  EXPECT_EQ(results[2].outcome, Outcome::timed_out) << results[2].reason;
  EXPECT_EQ(results[3].outcome, Outcome::measured) << results[3].reason;
  EXPECT_LT(results[0].timing.median, results[3].timing.median);
}

TEST_F(Isolation, NobodyIsBlamedForWhatAnotherDid) {
  CULET_NEEDS_COMPILER();
  auto runner = this->runner();
  ASSERT_NE(runner, nullptr);
  const Deadly killer("kills_the_next"), innocent("takes_a_while");
  const int before = host_.started();
  EXPECT_EQ(runner->verify(killer.candidate, true).outcome, Outcome::measured);
  const Verification verdict = runner->verify(innocent.candidate, true);
  EXPECT_EQ(verdict.outcome, Outcome::measured) << verdict.reason;
  EXPECT_EQ(host_.started(), before + 1);
}

TEST_F(Isolation, OneWorkerServesManyProblemsAndStartsQuickly) {
  CULET_NEEDS_COMPILER();
  for (int i = 0; i < 3; ++i) {
    auto runner = this->runner();
    ASSERT_NE(runner, nullptr);
    EXPECT_EQ(runner->verify(correct.candidate, true).outcome, Outcome::measured);
  }
  EXPECT_EQ(host_.started(), 1);
  double best = 1;
  for (int i = 0; i < 5; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    const auto program = benchmark::find_worker_program();
    ASSERT_TRUE(program);
    const auto worker = benchmark::WorkerProcess::start(*program);
    ASSERT_TRUE(worker) << worker.error().message;
    best = std::min(
        best, std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
  }
  RecordProperty("worker_start_microseconds", static_cast<int>(best * 1e6));
  std::printf("  a worker starts in %.1f ms\n", best * 1e3);
  EXPECT_LT(best, 0.5);  // a few ms; sanitizers and busy machines take longer
}

TEST_F(Isolation, AForkHasAWorkerOfItsOwn) {
  CULET_NEEDS_COMPILER();
  ASSERT_EQ(runner()->verify(correct.candidate, true).outcome, Outcome::measured);
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    const bool good = runner()->verify(correct.candidate, true).outcome == Outcome::measured;
    host_ = {};  // ends the worker, if it is the fork's
    _exit(good ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(runner()->verify(correct.candidate, true).outcome, Outcome::measured);
  EXPECT_EQ(host_.started(), 1);
}

TEST_F(Isolation, OperandsTooLargeAreTheProblemsError) {
  RunnerOptions options;
  options.max_memory_bytes = 1e6;
  auto runner = host_.make_runner(*Problem::parse("2048x2048x2048:f32"), test_cpu(), options);
  ASSERT_FALSE(runner);
  EXPECT_EQ(runner.error().code, ErrorCode::unsupported);
  EXPECT_EQ(host_.take_note(), "");
  EXPECT_NE(this->runner(), nullptr);  // and the worker goes on
}

TEST_F(Isolation, WithoutAWorkerItIsThisProcessAndSaysSo) {
  CULET_NEEDS_COMPILER();
  for (const char* program : {"/nonexistent/culet", "/bin/true", "/bin/cat"}) {
    setenv("CULET_WORKER", program, 1);
    WorkerHost host;
    auto runner = host.make_runner(*Problem::parse("8x8x8:f32"), test_cpu(), {});
    unsetenv("CULET_WORKER");
    ASSERT_TRUE(runner) << runner.error().message;
    EXPECT_EQ((*runner)->verify(correct.candidate, true).outcome, Outcome::measured);
    EXPECT_NE(host.take_note().find("in this process"), std::string::npos);
    EXPECT_EQ(host.take_note(), "") << "once";
  }
}

RunnerOptions small_options() {
  RunnerOptions options;
  options.max_memory_bytes = 64e6;
  options.policy.rotate_bytes = 1 << 20;
  return options;
}

TEST_F(Isolation, AWorkerThatDiesOverAProblemIsThatProblemsError) {
  const Problem problem = *Problem::parse("8x8x8:f32");
  for (const auto& [fault, says] :
       {std::pair("dies", "killed by SIGKILL"), std::pair("nonsense", "a damaged message"),
        std::pair("silent", "killed after 0.5 s without an answer")}) {
    WorkerHost host(fault == std::string("silent") ? 0.5 : WorkerHost::kOwnSeconds);
    setenv(kWorkerFault, fault, 1);
    const auto runner = host.make_runner(problem, test_cpu(), small_options());
    unsetenv(kWorkerFault);
    // Not tried again in this process, which would go the same way.
    ASSERT_FALSE(runner) << fault;
    EXPECT_EQ(runner.error().code, ErrorCode::unsupported);
    const std::string& message = runner.error().message;
    EXPECT_EQ(message.find("no operands were prepared in its worker process: "), 0U) << message;
    EXPECT_NE(message.find(says), std::string::npos) << message;
    EXPECT_NE(message.find("; --isolation none prepares them in this one"), std::string::npos)
        << message;
    EXPECT_EQ(host.take_note(), "");
    EXPECT_EQ(host.started(), 1);
    EXPECT_TRUE(host.make_runner(problem, test_cpu(), small_options()));
    EXPECT_EQ(host.started(), 2) << "the next problem has a worker";
  }
}

/// A program may describe its device in a way that no device file may.
TEST_F(Isolation, WhatAWorkerCannotReadIsRunInThisProcess) {
  CULET_NEEDS_COMPILER();
  DeviceSpec device = test_cpu();
  device.clock_ghz = 0;
  for (const bool has_worker : {false, true}) {
    WorkerHost host;
    const Problem problem = *Problem::parse("8x8x8:f32");
    if (has_worker) {
      ASSERT_TRUE(host.make_runner(problem, test_cpu(), small_options()));
    }
    auto runner = host.make_runner(problem, device, small_options());
    ASSERT_TRUE(runner) << runner.error().message;
    EXPECT_EQ((*runner)->verify(correct.candidate, true).outcome, Outcome::measured);
    const std::string note = host.take_note();
    EXPECT_EQ(note.find("candidates run in this process"), 0U) << note;
    EXPECT_NE(note.find("clock_ghz"), std::string::npos) << note;
    EXPECT_EQ(host.started(), 1);
  }
}

TEST(Worker, OfAnotherBuildIsRefused) {
  const auto worker = benchmark::WorkerProcess::start({"/proc/self/exe", {"other", kAnotherBuild}});
  ASSERT_FALSE(worker);
  EXPECT_EQ(worker.error().code, ErrorCode::io);
  const std::string& message = worker.error().message;
  EXPECT_EQ(message.find("other: it is another build of culet "), 0u) << message;
  EXPECT_NE(message.find("0123456789abcdef, not " + std::string(build_id())), std::string::npos)
      << message;
  EXPECT_EQ(build_id().size(), 16u);
}

std::string word_of(const std::string& path, int index) {
  std::ifstream file(path);
  std::string word;
  for (int i = 0; i <= index; ++i) file >> word;
  return file ? word : std::string();
}

bool runs(pid_t process) {
  const std::string state = word_of("/proc/" + std::to_string(process) + "/stat", 2);
  return !state.empty() && state != "Z" && state != "X";
}

TEST_F(Isolation, AKilledOwnerLeavesNoWorker) {
  CULET_NEEDS_COMPILER();
  std::string self = "/proc/self/exe", verb = kHangingOwner;
  char* const argv[] = {self.data(), verb.data(), nullptr};
  pid_t owner = 0;
  ASSERT_EQ(posix_spawn(&owner, self.c_str(), nullptr, nullptr, argv, environ), 0);
  // The worker that never ends is told apart from the compiler by its program.
  pid_t worker = 0;
  const std::string base = "/proc/" + std::to_string(owner);
  for (int i = 0; i < 1200 && worker == 0; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    const std::string child = word_of(base + "/task/" + std::to_string(owner) + "/children", 0);
    if (child.empty()) continue;
    std::ifstream line("/proc/" + child + "/cmdline");
    const std::string command((std::istreambuf_iterator<char>(line)), {});
    if (command.find(benchmark::kWorkerVerb) != std::string::npos) worker = std::stoi(child);
  }
  ASSERT_NE(worker, 0) << "no worker was started (or /proc has no children files)";
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  EXPECT_TRUE(runs(worker));
  kill(owner, SIGKILL);
  ASSERT_EQ(waitpid(owner, nullptr, 0), owner);
  for (int i = 0; i < 200 && runs(worker); ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  EXPECT_FALSE(runs(worker));
}

TEST(WorkerMessages, TravelUnchangedAndDamageIsSeen) {
  const Planted planted("correct");
  BuiltCandidate sent = planted.candidate;
  if (sent.steps.empty()) sent.steps.emplace_back();
  sent.candidate.steps = {{"planted", {}, Part::gemm}, {"other", {}, Part::epilogue}};
  sent.steps.front().launch.workspace_bytes = MValue::tiles_of_m(8, 100);
  const std::string bytes = benchmark::encode(7, sent);
  benchmark::MessageReader reader(bytes);
  EXPECT_EQ(reader.kind(), benchmark::MessageKind::load);
  EXPECT_EQ(reader.get<std::int64_t>(), 7);
  const auto got = benchmark::decode_candidate(reader);
  ASSERT_TRUE(got) << got.error().message;
  EXPECT_EQ(got->candidate, sent.candidate);
  ASSERT_EQ(got->steps.size(), sent.steps.size());
  EXPECT_EQ(got->steps[0].step, sent.steps[0].step);
  EXPECT_EQ(got->steps[0].artifact.bytes, sent.steps[0].artifact.bytes);
  EXPECT_EQ(got->steps[0].artifact.entry, sent.steps[0].artifact.entry);
  EXPECT_EQ(got->steps[0].launch.json(), sent.steps[0].launch.json());
  for (const std::size_t length : {9ul, 20ul, 60ul, bytes.size() - 1}) {
    benchmark::MessageReader cut(std::string_view(bytes).substr(0, length));
    (void)cut.get<std::int64_t>();
    EXPECT_FALSE(benchmark::decode_candidate(cut)) << length;
  }
  benchmark::Reply reply;
  reply.ok = fail(ErrorCode::unsupported, "too large");
  reply.verdict = {Outcome::wrong, "D[0,0]", 3.5};
  reply.usable = false;
  const std::string answer = benchmark::encode(reply);
  benchmark::MessageReader back(answer);
  const auto read = benchmark::decode_reply(back);
  ASSERT_TRUE(read);
  ASSERT_FALSE(read->ok);
  EXPECT_EQ(read->ok.error().code, ErrorCode::unsupported);
  EXPECT_EQ(read->ok.error().message, "too large");
  EXPECT_EQ(read->verdict.outcome, Outcome::wrong);
  EXPECT_EQ(read->verdict.reason, "D[0,0]");
  EXPECT_EQ(read->verdict.error, 3.5);
  EXPECT_FALSE(read->usable);
}

TEST(WorkerMessages, APolicyTravelsWhole) {
  benchmark::Setup setup;
  setup.problem = *Problem::parse("8x8x8:f32");
  setup.device = test_cpu();
  MeasurePolicy& policy = setup.options.policy;
  policy = {0.5, 3, 7, 1.5, 1 << 20, 0.25, 2, 0.125, 1.0625};
  const std::string bytes = benchmark::encode(setup);
  benchmark::MessageReader reader(bytes);
  const auto read = benchmark::decode_setup(reader);
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(benchmark::encode(*read), bytes);
  const auto [target, fewest, most, drop, rotate, noise, trial, settle, final_ratio] =
      read->options.policy;
  EXPECT_EQ(std::tie(target, fewest, most, drop, rotate),
            std::make_tuple(0.5, 3, 7, 1.5, std::int64_t{1} << 20));
  EXPECT_EQ(std::tie(noise, trial, settle, final_ratio), std::make_tuple(0.25, 2.0, 0.125, 1.0625));
}

TEST(WorkerMessages, NumbersThatCannotBeAreDamage) {
  const auto good_reply = [](double error, double seconds) {
    benchmark::Reply reply;
    reply.verdict.error = error;
    reply.seconds = seconds;
    const std::string bytes = benchmark::encode(reply);
    benchmark::MessageReader reader(bytes);
    return benchmark::decode_reply(reader).has_value();
  };
  EXPECT_TRUE(good_reply(0, 1e-6));
  EXPECT_TRUE(good_reply(INFINITY, 0));
  EXPECT_FALSE(good_reply(NAN, 1e-6));
  EXPECT_FALSE(good_reply(0, NAN));
  EXPECT_FALSE(good_reply(0, INFINITY));
  EXPECT_FALSE(good_reply(0, -1e-6));
  using benchmark::MessageWriter;
  const auto limit = [](const std::string& bytes) {
    benchmark::MessageReader reader(bytes);
    return benchmark::decode_step(reader).value_or(-1);
  };
  EXPECT_EQ(limit(benchmark::encode_step(0)), 0);
  EXPECT_EQ(limit(benchmark::encode_step(10.5)), 10.5);
  EXPECT_EQ(limit(benchmark::encode_step(INFINITY)), 1e9) << "a limit of whoever wants none";
  for (const double bad : {double{NAN}, -2.0, 1.1e9, 1e300}) {
    EXPECT_EQ(limit(MessageWriter(benchmark::MessageKind::step).put(bad).bytes()), -1) << bad;
  }
  EXPECT_EQ(limit(MessageWriter(benchmark::MessageKind::step).bytes()), -1);
}

}  // namespace

int own_a_hanging_worker() {
  const Deadly spins("spins");
  RunnerOptions options;
  options.max_memory_bytes = 64e6;
  options.policy.trial_seconds = 600;
  WorkerHost host;
  auto runner = host.make_runner(*Problem::parse("8x8x8:f32"), test_cpu(), options);
  if (runner) (void)(*runner)->verify(spins.candidate, true);
  return 1;  // it is killed before that
}

}  // namespace culet

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// Compiling for the next problem while one is measured: on the CPU by order (TuneOptions::
// compile_ahead), with planted families of which each problem has kernels of its own.
#include "tuner/compile_ahead.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <functional>

#include "planted.h"

namespace culet {
namespace {

using testing::own;
using testing::Planted;
using testing::planted_registry;
using testing::PlantedFamily;

Problem problem(const std::string& text) { return Problem::parse(text).value(); }
DeviceSpec cpu() { return find_device("cpu:1").value(); }

Planted each_its_own(const std::string& name, int configs = 1) {
  Planted planted = own(name);
  planted.per_problem = true;
  planted.configs = configs;
  return planted;
}

TuneOptions ahead() {
  TuneOptions options;
  options.compile_ahead = true;
  options.max_memory_bytes = 256e6;
  options.policy.target_seconds = 1e-3;
  options.policy.rotate_bytes = 1 << 20;
  options.simulated_clock = [](const Candidate&, int) { return 1e-3; };
  return options;
}

/// Waits for what another thread is to do; a minute is more than any machine needs.
bool wait_until(const std::function<bool()>& done) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::minutes(1);
  while (!done()) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return true;
}

/// What each problem was told, and things to do at the end of compiling and when timing begins.
class Story : public Observer {
 public:
  void started(const Problem& started) override { lines.push_back("started " + started.text()); }
  void progress(const Progress& progress) override {
    if (progress.phase == "compile" && progress.done == progress.total && compiled) compiled();
    if (progress.phase == "time" && progress.done == 0 && timing) timing();
  }
  void compilation(const Problem& of, const Candidate& candidate, const Compilation& had) override {
    lines.push_back(std::string(to_string(had.from)) + " " + candidate.text() + " " + of.text());
    EXPECT_GT(had.seconds, 0);
    errors += !had.error.empty();
  }
  void trial(const Problem& of, const Trial& trial) override {
    if (trial.outcome == Outcome::measured) return;
    lines.push_back(std::string(to_string(trial.outcome)) + " " + trial.candidate.text() + " " +
                    of.text());
  }
  void warning(std::string_view text) override { lines.push_back("warning " + std::string(text)); }

  std::function<void()> compiled, timing;
  std::vector<std::string> lines;
  int errors = 0;
};

/// Tunes a list as the program does.
std::vector<TuneReport> tune(Tuner& tuner, const std::vector<Problem>& list, Observer* observer) {
  std::vector<TuneReport> reports;
  for (std::size_t i = 0; i < list.size(); ++i) {
    auto report = tuner.tune(list[i], observer, i + 1 < list.size() ? &list[i + 1] : nullptr);
    EXPECT_TRUE(report) << report.error().message;
    if (report) reports.push_back(std::move(*report));
  }
  return reports;
}

TEST(CompileAhead, KernelsAreThereBeforeTheirProblemIs) {
  Tuner tuner(planted_registry({each_its_own("own", 2)}), cpu(), ahead());
  Story story;
  int timed = 0;
  // Timing a problem goes on only when the next one's kernels are compiled: no problem but the
  // first compiles.
  story.timing = [&] {
    const int kernels = 2 * std::min(++timed + 1, 3);
    EXPECT_TRUE(wait_until([&] { return tuner.counts().compiled == kernels; }))
        << "problem " << timed << ": " << tuner.counts().compiled << " kernels compiled";
  };
  story.compiled = [&] { EXPECT_EQ(tuner.counts().compiled, 2 * (timed + 1)); };
  const auto reports =
      tune(tuner, {problem("8x9x10:f32"), problem("9x9x10:f32"), problem("10x9x10:f32")}, &story);
  ASSERT_EQ(reports.size(), 3u);
  EXPECT_EQ(timed, 3);
  EXPECT_EQ(tuner.counts().compiled, 6);
  EXPECT_EQ(tuner.counts().timed, 6);
  for (const TuneReport& report : reports) EXPECT_NE(report.choice(), nullptr) << report.why;
  // Each is told to its own problem, after that began, and as compiled.
  ASSERT_EQ(story.lines.size(), 9u);
  for (std::size_t i = 0; i < story.lines.size(); ++i) {
    const std::string text = reports[i / 3].problem.text();
    const std::string& line = story.lines[i];
    EXPECT_TRUE(line.ends_with(text)) << line;
    EXPECT_TRUE(line.starts_with(i % 3 == 0 ? "started" : "compiled own{variant=")) << line;
  }
}

TEST(CompileAhead, NothingIsCompiledTwice) {
  const Planted same = own("same");  // one kernel for all problems
  Planted pinned = each_its_own("own", 4);
  TuneOptions options = ahead();
  options.top = 2;
  const Problem first = problem("8x9x10:f32"), second = problem("9x9x10:f32");
  options.overrides.pin(second, DeviceKind::cpu, Candidate::parse("own{variant=3}").value());
  ASSERT_TRUE(options.overrides.deny("own{variant=0}"));
  const auto cache = open_cache("none").value();
  Tuner tuner(planted_registry({same, pinned}), cpu(), options, cache);
  Story story;
  const auto reports = tune(tuner, {first, second, second, first}, &story);
  ASSERT_EQ(reports.size(), 4u);
  // The one of all, two of the first problem, three of the second with the pin.
  EXPECT_EQ(tuner.counts().compiled, 6);
  const auto told = std::count_if(story.lines.begin(), story.lines.end(),
                                  [](const auto& line) { return line.starts_with("compiled"); });
  EXPECT_EQ(told, 6);
  for (const std::size_t i : {2u, 3u}) EXPECT_TRUE(reports[i].from_cache) << i;
  EXPECT_EQ(reports[1].choice()->candidate.text(), "own{variant=3}");

  // A problem that the store answers has nothing compiled for it.
  const Problem third = problem("10x9x10:f32");
  Tuner again(planted_registry({same, pinned}), cpu(), options, cache);
  EXPECT_EQ(tune(again, {third, third, second}, nullptr).size(), 3u);
  EXPECT_EQ(again.counts().compiled, 2);
}

TEST(CompileAhead, AFailureIsThatOfItsOwnProblem) {
  Planted broken = each_its_own("broken");
  broken.syntax_error = "this is no C++";
  Tuner tuner(planted_registry({broken, each_its_own("own")}), cpu(), ahead());
  Story story;
  bool waited = false;
  story.timing = [&] {
    if (waited) return;
    waited = true;
    EXPECT_TRUE(wait_until([&] { return tuner.counts().compiled == 4; }));
    EXPECT_EQ(story.errors, 1) << "the second problem's is not told yet";
  };
  const auto reports = tune(tuner, {problem("8x9x10:f32"), problem("9x9x10:f32")}, &story);
  ASSERT_EQ(reports.size(), 2u);
  EXPECT_EQ(tuner.counts().compiled, 4) << "nor is what does not compile tried twice";
  EXPECT_EQ(story.errors, 2);
  for (const TuneReport& report : reports) {
    const auto trial = std::find_if(report.trials.begin(), report.trials.end(), [](const Trial& t) {
      return t.candidate.steps.front().backend == "broken";
    });
    ASSERT_NE(trial, report.trials.end());
    EXPECT_EQ(trial->outcome, Outcome::build_failed);
    EXPECT_NE(trial->log.find("error"), std::string::npos);
    for (const char* line : {"compiled broken{variant=0} ", "build_failed broken{variant=0} "}) {
      EXPECT_EQ(std::count(story.lines.begin(), story.lines.end(), line + report.problem.text()), 1)
          << line << report.problem.text();
    }
  }
}

TEST(CompileAhead, StopsAfterTheKernelUnderWay) {
  const Problem first = problem("8x9x10:f32"), second = problem("9x9x10:f32");
  const auto registry = planted_registry({each_its_own("own", 6)});
  const auto cache = open_cache("none").value();
  std::atomic<bool> stop{false};
  std::int64_t compiled = 0;
  {
    TuneOptions options = ahead();
    options.top = -1;
    options.compile_threads = 1;
    options.stop = &stop;
    Tuner tuner(registry, cpu(), options, cache);
    Story story;
    story.timing = [&] {
      EXPECT_TRUE(wait_until([&] { return tuner.counts().compiled > 6; }));
      stop = true;
    };
    const auto report = tuner.tune(first, &story, &second);
    ASSERT_TRUE(report) << report.error().message;
    EXPECT_EQ(story.lines.size(), 12u) << "begun, six compiled, five not timed any more";
    for (const std::string& line : story.lines)
      EXPECT_EQ(line.find(second.text()), std::string::npos)
          << line << ", not of the first problem";
    const auto halted = tuner.tune(second, nullptr, &first);
    ASSERT_TRUE(halted) << halted.error().message;
    EXPECT_EQ(halted->choice(), nullptr);
    compiled = tuner.counts().compiled;
    EXPECT_LT(compiled, 12) << "it went on to the end";
  }
  // What was compiled is kept.
  Tuner tuner(
      registry, cpu(),
      [] {
        TuneOptions options = ahead();
        options.top = -1;
        return options;
      }(),
      cache);
  const auto report = tuner.tune(second);
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_NE(report->choice(), nullptr);
  EXPECT_EQ(compiled + tuner.counts().compiled, 12);
}

TEST(CompileAhead, AnotherProblemThanAnnouncedIsTunedAllTheSame) {
  Tuner tuner(planted_registry({each_its_own("own", 3)}), cpu(), ahead());
  const Problem first = problem("8x9x10:f32"), second = problem("9x9x10:f32");
  const Problem third = problem("10x9x10:f32"), invalid = problem("0x9x10:f32");
  ASSERT_TRUE(tuner.tune(first, nullptr, &second));
  const auto report = tuner.tune(third, nullptr, &invalid);
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_NE(report->choice(), nullptr) << report->why;
  ASSERT_TRUE(tuner.tune(second));
  EXPECT_EQ(tuner.counts().compiled, 9);
}

/// Notes the problems it is asked about, and throws where it is to list configurations for one.
class Asked : public PlantedFamily {
 public:
  Asked(DeviceKind kind, Planted planted) : PlantedFamily(std::move(planted)), kind_(kind) {}
  DeviceKind device_kind() const override { return kind_; }
  Support supports(const Problem& asked, const DeviceSpec& device) const override {
    {
      const std::lock_guard lock(mutex_);
      problems_.push_back(asked.text());
    }
    return PlantedFamily::supports(asked, device);
  }
  std::vector<Config> configs(const Problem& asked, const DeviceSpec& device) const override {
    if (asked.m == 666) throw 42;
    return PlantedFamily::configs(asked, device);
  }
  bool knows(const Problem& asked) const {
    const std::lock_guard lock(mutex_);
    return std::count(problems_.begin(), problems_.end(), asked.text()) > 0;
  }

 private:
  const DeviceKind kind_;
  mutable std::mutex mutex_;
  mutable std::vector<std::string> problems_;
};

TEST(CompileAhead, ABackendThatThrowsEndsIt) {
  Registry registry;
  const auto family = std::make_shared<Asked>(DeviceKind::cpu, own("own"));
  ASSERT_TRUE(registry.add(family));
  const Problem next = problem("666x9x10:f32");
  Tuner tuner(registry, cpu(), ahead());
  ASSERT_TRUE(tuner.tune(problem("8x9x10:f32"), nullptr, &next));
  ASSERT_TRUE(tuner.tune(problem("9x9x10:f32")));
  EXPECT_TRUE(family->knows(next));
}

/// Whether what is announced is looked at. Nothing of it is compiled here.
bool looks_ahead(DeviceKind kind, Isolation isolation) {
  const auto family = std::make_shared<Asked>(kind, [] {
    Planted planted = own("own");
    planted.configs = 0;
    return planted;
  }());
  TunerState state;
  EXPECT_TRUE(state.registry.add(family));
  state.device = DeviceSpec::preset(kind == DeviceKind::cuda ? "h200" : "cpu").value();
  state.options.isolation = isolation;
  state.cache = open_cache("none").value();
  state.compiler = std::make_unique<Compiler>(state.cache);
  const Problem next = problem("9x9x10:f32");
  CompileAhead(state).begin(next);
  return family->knows(next);
}

TEST(CompileAhead, OnlyWhereItDisturbsNoTiming) {
  EXPECT_TRUE(looks_ahead(DeviceKind::cuda, Isolation::process));
  EXPECT_FALSE(looks_ahead(DeviceKind::cuda, Isolation::none));
  EXPECT_FALSE(looks_ahead(DeviceKind::cpu, Isolation::process));
  EXPECT_FALSE(looks_ahead(DeviceKind::cpu, Isolation::none));
}

TEST(CompileAhead, NotWhereNothingIsMeasured) {
  Registry registry;
  const auto family = std::make_shared<Asked>(DeviceKind::cpu, own("own"));
  ASSERT_TRUE(registry.add(family));
  const Problem first = problem("8x9x10:f32"), next = problem("9x9x10:f32");
  TuneOptions options = ahead();
  options.measure = false;
  {
    Tuner tuner(registry, cpu(), options);
    ASSERT_TRUE(tuner.tune(first, nullptr, &next));
  }
  options.measure = true;
  {
    Tuner tuner(registry, cpu(), options);
    ASSERT_TRUE(tuner.bench(first, {}));
  }
  EXPECT_FALSE(family->knows(next));
}

}  // namespace
}  // namespace culet

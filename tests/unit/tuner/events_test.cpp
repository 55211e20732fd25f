// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// What an observer is told of a run, and in which order.
#include <gtest/gtest.h>

#include <algorithm>

#include "planted.h"

namespace culet {
namespace {

using testing::own;
using testing::Planted;
using testing::planted_registry;

class Story : public Observer {
 public:
  void started(const Problem& problem) override { add("started", problem.text()); }
  void compilation(const Problem&, const Candidate& candidate, const Compilation& kernel) override {
    add(std::string(to_string(kernel.from)), candidate.steps.front().backend);
    EXPECT_EQ(kernel.key.size(), 32u);
    EXPECT_EQ(kernel.entry, "planted");
    EXPECT_GT(kernel.seconds, 0);
    EXPECT_EQ(kernel.error.empty(), candidate.steps.front().backend != "broken") << kernel.error;
  }
  void trial(const Problem&, const Trial& trial) override {
    add(std::string(to_string(trial.outcome)), trial.candidate.steps.front().backend);
  }
  void worker_replaced(const Problem&, std::string_view why) override {
    add("replaced", std::string(why));
  }
  void report(const TuneReport& report) override {
    add("report",
        report.choice() == nullptr ? "nothing" : report.choice()->candidate.steps.front().backend);
  }

  int count(const std::string& line) const {
    return static_cast<int>(std::count(lines.begin(), lines.end(), line));
  }
  /// Where a line stands; behind the end where it does not.
  std::ptrdiff_t place(const std::string& line) const {
    return std::find(lines.begin(), lines.end(), line) - lines.begin();
  }
  std::string all() const {
    std::string text;
    for (const std::string& line : lines) text += line + "\n";
    return text;
  }
  std::vector<std::string> lines;

 private:
  void add(const std::string& what, const std::string& of) { lines.push_back(what + " " + of); }
};

TuneOptions quick() {
  TuneOptions options;
  options.max_memory_bytes = 256e6;
  options.policy.target_seconds = 1e-3;
  options.policy.rotate_bytes = 1 << 20;
  options.policy.trial_seconds = 2;
  return options;
}

TEST(Events, ARunFromStartToChoice) {
  Planted broken = own("broken");
  broken.syntax_error = "this is no C++";
  const auto cache = open_cache("none").value();
  const Problem problem = Problem::parse("24x30x20:f32").value();
  const auto registry = planted_registry({broken, own("wrong", "d[0] += 1;"), own("good")});
  Story story;
  {
    Tuner tuner(registry, find_device("cpu:1").value(), quick(), cache);
    ASSERT_TRUE(tuner.tune(problem, &story));
  }
  const std::size_t end = story.lines.size();
  ASSERT_EQ(end, 8u) << story.all();
  EXPECT_EQ(story.lines.front(), "started 24x30x20:f32");
  EXPECT_EQ(story.lines.back(), "report good");
  for (const char* line : {"compiled broken", "compiled wrong", "compiled good",
                           "build_failed broken", "wrong wrong", "measured good"}) {
    EXPECT_EQ(story.count(line), 1) << line << "\n" << story.all();
  }
  EXPECT_LT(story.place("compiled broken"), story.place("build_failed broken"));
  EXPECT_LT(story.place("compiled good"), story.place("measured good"));

  // A second tuner has the code from the store, and measures anew where it is told to.
  TuneOptions fresh = quick();
  fresh.use_cached_trials = false;
  Story second;
  Tuner tuner(registry, find_device("cpu:1").value(), fresh, cache);
  ASSERT_TRUE(tuner.tune(problem, &second));
  EXPECT_EQ(second.count("stored good"), 1) << second.all();
  EXPECT_EQ(second.count("compiled broken"), 1) << "only what compiles is stored";
  EXPECT_EQ(second.count("measured good"), 1);
}

TEST(Events, AnsweredByTheStoreIsStartAndReport) {
  const auto cache = open_cache("none").value();
  const Problem problem = Problem::parse("24x30x20:f32").value();
  Tuner tuner(planted_registry({own("good")}), find_device("cpu:1").value(), quick(), cache);
  ASSERT_TRUE(tuner.tune(problem));
  Story story;
  ASSERT_TRUE(tuner.tune(problem, &story));
  EXPECT_EQ(story.all(), "started 24x30x20:f32\nreport good\n");
  Story empty;
  ASSERT_TRUE(tuner.tune(Problem::parse("0x30x20:f32").value(), &empty));
  EXPECT_EQ(empty.all(), "started 0x30x20:f32\nreport nothing\n");
}

TEST(Events, AWorkerThatWasTakenDownIsReplaced) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "the sanitizer ends the worker in its own way";
#endif
  Tuner tuner(planted_registry({own("a_crash", "__builtin_trap();"), own("good")}),
              find_device("cpu:1").value(), quick());
  Story story;
  ASSERT_TRUE(tuner.tune(Problem::parse("8x9x10:f32").value(), &story));
  int replaced = 0;
  for (const std::string& line : story.lines)
    replaced += line.starts_with("replaced killed by SIGILL");
  EXPECT_GE(replaced, 1) << story.all();
  EXPECT_EQ(story.count("crashed a_crash"), 1) << story.all();
  EXPECT_EQ(story.count("measured good"), 1) << story.all();
}

TEST(Events, BenchTellsTheSame) {
  Tuner tuner(planted_registry({own("good")}), find_device("cpu:1").value(), quick());
  Story story;
  const Candidate candidate = Candidate::parse("good{variant=0}").value();
  ASSERT_TRUE(tuner.bench(Problem::parse("8x9x10:f32").value(), {candidate}, &story));
  EXPECT_EQ(story.all(), "started 8x9x10:f32\ncompiled good\nmeasured good\nreport good\n");
}

}  // namespace
}  // namespace culet

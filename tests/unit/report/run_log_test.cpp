// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// Every event is one whole line of JSON, whoever else writes to the file.
#include "culet/run_log.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/files.h"
#include "culet/settings.h"
#include "culet/version.h"

namespace culet {
namespace {

using nlohmann::json;

class Log : public ::testing::Test {
 protected:
  void SetUp() override {
    auto folder = TemporaryFolder::make();
    ASSERT_TRUE(folder.has_value());
    folder_ = std::make_unique<TemporaryFolder>(std::move(*folder));
  }
  std::string file() const { return folder_->path() + "/runs.jsonl"; }
  /// Each line parsed; one that is no JSON object fails the test.
  std::vector<json> events() const {
    std::vector<json> all;
    std::istringstream lines(read_file(file()).value());
    for (std::string line; std::getline(lines, line);) {
      all.push_back(json::parse(line, nullptr, /*throw=*/false));
      EXPECT_TRUE(all.back().is_object()) << line;
    }
    return all;
  }
  std::unique_ptr<TemporaryFolder> folder_;
};

Problem problem() { return Problem::parse("16x24x32:f32:epi=\"relu(acc)\"").value(); }
Candidate candidate() { return Candidate::parse("cpu_tile{tile=4x96 code=jit}").value(); }

Trial measured() {
  Trial trial;
  trial.candidate = candidate();
  trial.estimate = Estimate{9.5e-6, Limiter::dram};
  trial.outcome = Outcome::measured;
  trial.timing = Timing{11.25e-6, 11e-6, 12e-6, 9};
  trial.error = 0.125;
  return trial;
}

TEST_F(Log, EveryEvent) {
  auto log = RunLog::open(file());
  ASSERT_TRUE(log) << log.error().message;
  Tuner tuner(Registry::standard(), DeviceSpec::preset("cpu").value());
  ASSERT_TRUE((*log)->run_started(tuner, {"tune", "--log", "x"}));
  (*log)->started(problem());
  (*log)->compilation(problem(), candidate(),
                      {"00ff", "entry", CodeFrom::awaited, 0.5, "does not compile"});
  (*log)->compilation(problem(), candidate(), {"00ff", "entry", CodeFrom::compiled, 0.25, ""});
  (*log)->trial(problem(), measured());
  Trial crash;
  crash.candidate = candidate();
  crash.outcome = Outcome::crashed;
  crash.reason = "it said \xff\n and died";
  (*log)->trial(problem(), crash);
  (*log)->worker_replaced(problem(), "killed by SIGSEGV");
  (*log)->warning("beware");
  TuneReport report;
  report.problem = problem();
  report.trials = {measured()};
  report.chosen = 0;
  report.why = "because";
  report.compile_seconds = 0.25;
  (*log)->report(report);
  (*log)->failed(problem(), {ErrorCode::no_candidate, "nobody can", "simt: no"});
  (*log)->run_finished(3);
  EXPECT_EQ((*log)->trouble(), "");

  const auto all = events();
  ASSERT_EQ(all.size(), 11u);
  for (const json& event : all) {
    EXPECT_EQ(event["run"], all[0]["run"]);
    EXPECT_EQ(event["run"].get<std::string>().size(), 16u);
    EXPECT_EQ(event["time"].get<std::string>().size(), 24u) << event["time"];
  }
  EXPECT_EQ(all[0]["event"], "run_started");
  EXPECT_EQ(all[0]["schema"], 1);
  EXPECT_EQ(all[0]["culet"], CULET_VERSION);
  EXPECT_EQ(all[0]["pid"], getpid());
  EXPECT_EQ(all[0]["arguments"], json({"tune", "--log", "x"}));
  EXPECT_EQ(all[0]["device"]["kind"], "cpu");
  EXPECT_EQ(all[0]["device_identity"], tuner.device().identity());
  for (const auto& backend : tuner.registry().backends()) {
    if (backend->name() == "cpu_tile") {
      EXPECT_EQ(all[0]["backends"]["cpu_tile"], backend->version());
    }
  }
  EXPECT_TRUE(all[0]["backends"].contains("cpu_tile"));
  EXPECT_FALSE(all[0]["backends"].contains("simt")) << "of another kind of device";
  EXPECT_EQ(all[0]["policy"], tuner.options().policy.text());
  EXPECT_EQ(all[0]["top"], 5);
  EXPECT_EQ(all[1]["event"], "problem_started");
  EXPECT_EQ(all[1]["problem"], problem().text());
  EXPECT_EQ(all[2]["event"], "compilation");
  EXPECT_EQ(all[2]["from"], "awaited");
  EXPECT_EQ(all[2]["error"], "does not compile");
  EXPECT_EQ(all[3]["code"], "00ff");
  EXPECT_EQ(all[3]["seconds"], 0.25);
  EXPECT_TRUE(all[3]["error"].is_null());
  EXPECT_EQ(all[4]["event"], "trial");
  EXPECT_EQ(all[4]["candidate"], candidate().text());
  EXPECT_EQ(all[4]["outcome"], "measured");
  EXPECT_EQ(all[4]["median_us"], 11.25);
  EXPECT_EQ(all[4]["samples"], 9);
  EXPECT_EQ(all[4]["limiter"], "dram");
  EXPECT_EQ(all[5]["outcome"], "crashed");
  EXPECT_TRUE(all[5]["median_us"].is_null());
  EXPECT_NE(all[5]["reason"].get<std::string>().find("and died"), std::string::npos);
  EXPECT_EQ(all[6]["event"], "worker_replaced");
  EXPECT_EQ(all[6]["why"], "killed by SIGSEGV");
  EXPECT_EQ(all[7]["text"], "beware");
  EXPECT_EQ(all[8]["event"], "chosen");
  EXPECT_EQ(all[8]["candidate"], candidate().text());
  EXPECT_EQ(all[8]["seconds"]["compile"], 0.25);
  EXPECT_TRUE(all[8]["vs_default"].is_null());
  EXPECT_EQ(all[9]["event"], "problem_failed");
  EXPECT_EQ(all[9]["status"], 3);
  EXPECT_EQ(all[9]["detail"], "simt: no");
  EXPECT_EQ(all[10]["event"], "run_finished");
  EXPECT_EQ(all[10]["status"], 3);
  EXPECT_EQ(all[10]["problems"], 1);
  EXPECT_EQ(all[10]["compiled"], 1);
  EXPECT_EQ(all[10]["timed"], 1);
}

TEST_F(Log, LinesOfSeveralProcessesStayWhole) {
  constexpr int kProcesses = 4, kEach = 200;
  std::vector<pid_t> children;
  for (int p = 0; p < kProcesses; ++p) {
    const pid_t child = fork();
    if (child == 0) {
      auto log = RunLog::open(file());
      if (!log) _exit(1);
      // Longer than a page, so that a write in two parts would show.
      for (int i = 0; i < kEach; ++i)
        (*log)->warning(std::string(static_cast<std::size_t>(1 + i * 100), 'a' + p));
      _exit((*log)->trouble().empty() ? 0 : 1);
    }
    children.push_back(child);
  }
  for (const pid_t child : children) {
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
  }
  std::map<std::string, int> by_run;
  for (const json& event : events()) {
    ++by_run[event["run"]];
    const std::string text = event["text"];
    EXPECT_EQ(text, std::string(text.size(), text[0]));
  }
  EXPECT_EQ(by_run.size(), static_cast<std::size_t>(kProcesses));
  for (const auto& [run, count] : by_run) EXPECT_EQ(count, kEach) << run;
}

TEST_F(Log, APlaceThatCannotBeWrittenIsAnError) {
  const auto error_of = [](const std::string& path) {
    const auto log = RunLog::open(path);
    EXPECT_FALSE(log) << path;
    if (log) return Error{};
    EXPECT_EQ(log.error().code, ErrorCode::io);
    return log.error();
  };
  EXPECT_EQ(error_of(folder_->path()).message,
            "cannot write '" + folder_->path() + "': Is a directory");
  EXPECT_NE(error_of(folder_->path() + "/no/such").message.find("No such file"), std::string::npos);
  const std::string pipe = folder_->path() + "/pipe";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_NE(error_of(pipe).message.find(pipe), std::string::npos) << "nobody reads it";
}

TEST_F(Log, ADiskThatIsFullIsSaidAtTheStartAndKept) {
  auto log = RunLog::open("/dev/full");
  ASSERT_TRUE(log) << log.error().message;
  (*log)->warning("x");
  EXPECT_EQ((*log)->trouble(), "cannot write '/dev/full': No space left on device");
  auto other = RunLog::open("/dev/full");
  ASSERT_TRUE(other);
  Tuner tuner(Registry::standard(), DeviceSpec::preset("cpu").value());
  const auto begun = (*other)->run_started(tuner, {});
  ASSERT_FALSE(begun);
  EXPECT_EQ(begun.error().code, ErrorCode::io);
}

TEST_F(Log, APipeWhoseReaderIsGoneEndsTheLogAndNotTheProcess) {
  ASSERT_EQ(mkfifo(file().c_str(), 0600), 0);
  const int reader = ::open(file().c_str(), O_RDONLY | O_NONBLOCK);
  ASSERT_GE(reader, 0);
  auto log = RunLog::open(file());
  ASSERT_TRUE(log) << log.error().message;
  (*log)->warning("read");
  EXPECT_EQ((*log)->trouble(), "");
  ::close(reader);
  (*log)->warning("not read");
  EXPECT_EQ((*log)->trouble(), "cannot write '" + file() + "': Broken pipe");
  sigset_t pending;
  sigpending(&pending);
  EXPECT_EQ(sigismember(&pending, SIGPIPE), 0);
}

}  // namespace
}  // namespace culet

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// fork and exec with files for the output, see program.h.
#include "program.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>

namespace culet::testing_cli {

void Cli::SetUp() {
  std::string name = std::filesystem::temp_directory_path() / "culet-cli.XXXXXX";
  ASSERT_NE(mkdtemp(name.data()), nullptr);
  folder_ = name;
}

void Cli::TearDown() { std::filesystem::remove_all(folder_); }

void Cli::write(const std::string& name, const std::string& text) const {
  std::ofstream(file(name), std::ios::binary) << text;
}

std::string Cli::read(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

pid_t Cli::start(const std::vector<std::string>& arguments,
                 const std::map<std::string, std::string>& environment) const {
  std::vector<std::string> words{CULET_PROGRAM};
  words.insert(words.end(), arguments.begin(), arguments.end());
  // A runtime folder of its own: the lock that keeps tuners from measuring at once lies there, and
  // no test here depends on times.
  std::map<std::string, std::string> variables{
      {"HOME", folder_}, {"PATH", "/usr/bin:/bin"}, {"XDG_RUNTIME_DIR", folder_}};
  for (const auto& [name, value] : environment) variables[name] = value;
  std::vector<std::string> settings;
  for (const auto& [name, value] : variables) settings.push_back(name + "=" + value);
  const auto pointers = [](std::vector<std::string>& texts) {
    std::vector<char*> result;
    for (std::string& text : texts) result.push_back(text.data());
    result.push_back(nullptr);
    return result;
  };
  const std::vector<char*> argv = pointers(words), envp = pointers(settings);
  const std::string out = file("stdout"), err = file("stderr");
  const pid_t child = fork();
  if (child != 0) return child;
  const int output = open(out.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  const int errors = open(err.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  dup2(output, STDOUT_FILENO);
  dup2(errors, STDERR_FILENO);
  execve(argv[0], argv.data(), envp.data());
  _exit(127);
}

Ended Cli::finish(pid_t child) const {
  int status = 0;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  Ended run;
  run.status = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  run.out = read(file("stdout"));
  run.err = read(file("stderr"));
  return run;
}

Ended Cli::run(const std::vector<std::string>& arguments,
               const std::map<std::string, std::string>& environment) {
  return finish(start(arguments, environment));
}

Ended Cli::run_and_interrupt(const std::vector<std::string>& arguments, double after_seconds,
                             int times, int signal,
                             const std::map<std::string, std::string>& environment) {
  const pid_t child = start(arguments, environment);
  std::this_thread::sleep_for(std::chrono::duration<double>(after_seconds));
  for (int i = 0; i < times; ++i) {
    kill(child, signal);
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  return finish(child);
}

void Cli::expect_error(const Ended& run, int status, const std::string& part) {
  EXPECT_EQ(run.status, status) << run.err;
  EXPECT_EQ(run.err.rfind("culet: error: ", 0), 0u) << run.err;
  EXPECT_NE(run.err.find(part), std::string::npos) << run.err;
  EXPECT_EQ(run.err.find('\n'), run.err.size() - 1) << "more than one line:\n" << run.err;
  EXPECT_EQ(run.out, "");
}

}  // namespace culet::testing_cli

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// docs/cli.md repeats what the program prints between markers. Each must be what it prints now.
// CULET_UPDATE_GOLDEN=1 writes them anew.
#include <cstdlib>
#include <fstream>
#include <sstream>

#include "program.h"

namespace culet::testing_cli {
namespace {

class Docs : public Cli {};

std::vector<std::string> words(const std::string& text) {
  std::istringstream stream(text);
  std::vector<std::string> result;
  for (std::string word; stream >> word;) result.push_back(word);
  return result;
}

TEST_F(Docs, CliPageIsCurrent) {
  const std::string path = std::string(CULET_SOURCE) + "/docs/cli.md";
  const std::string page = read(path);
  ASSERT_FALSE(page.empty()) << path;
  const std::string open = "<!-- output of: culet ", close = "<!-- end -->";
  std::string current;
  std::size_t at = 0;
  int blocks = 0;
  for (;;) {
    const std::size_t begin = page.find(open, at);
    if (begin == std::string::npos) break;
    const std::size_t name_end = page.find(" -->\n", begin);
    const std::size_t end = page.find(close, begin);
    ASSERT_NE(name_end, std::string::npos);
    ASSERT_NE(end, std::string::npos);
    const std::string command = page.substr(begin + open.size(), name_end - begin - open.size());
    const Ended result = run(words(command));
    ASSERT_EQ(result.status, 0) << command << result.err;
    // A table stays Markdown; help is shown as it looks in a terminal.
    const bool plain = command.find("--markdown") != std::string::npos;
    const std::string body = plain ? result.out : "```text\n" + result.out + "```\n";
    current += page.substr(at, name_end + 5 - at) + body;
    at = end;
    ++blocks;
  }
  current += page.substr(at);
  EXPECT_GE(blocks, 9);
  if (std::getenv("CULET_UPDATE_GOLDEN") != nullptr) std::ofstream(path) << current;
  EXPECT_EQ(current, read(path));
}

TEST_F(Docs, EveryVariableHasALine) {
  const Ended result = run({"env", "--markdown"});
  for (const char* name : {"CULET_BACKENDS", "CULET_MAX_PROFILING_CONFIGS", "CULET_CACHE",
                           "CULET_DISABLE", "CULET_DUMP"}) {
    EXPECT_NE(result.out.find("| `" + std::string(name) + "` |"), std::string::npos) << name;
  }
}

}  // namespace
}  // namespace culet::testing_cli

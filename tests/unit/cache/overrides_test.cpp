// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// Pins and denials as values, as a file that people edit, and changed by several processes at once.
#include "culet/overrides.h"

#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <fstream>

#include "fixtures.h"

namespace culet {
namespace {

using namespace testing_cache;

TEST(Overrides, PinsBelongToProblemAndKindOfDevice) {
  Overrides overrides;
  EXPECT_TRUE(overrides.empty());
  EXPECT_EQ(overrides.pinned(problem_no(1), DeviceKind::cpu), nullptr);
  overrides.pin(problem_no(1), DeviceKind::cpu, candidate_no(1));
  overrides.pin(problem_no(1), DeviceKind::cuda, candidate_no(2));
  overrides.pin(problem_no(0), DeviceKind::cpu, candidate_no(3));
  overrides.pin(problem_no(1), DeviceKind::cpu, candidate_no(4));
  ASSERT_EQ(overrides.pins().size(), 3u);
  EXPECT_EQ(*overrides.pinned(problem_no(1), DeviceKind::cpu), candidate_no(4));
  EXPECT_EQ(*overrides.pinned(problem_no(1), DeviceKind::cuda), candidate_no(2));
  EXPECT_EQ(overrides.pinned(problem_no(2), DeviceKind::cpu), nullptr);
  EXPECT_TRUE(overrides.unpin(problem_no(1)));
  EXPECT_FALSE(overrides.unpin(problem_no(1)));
  EXPECT_EQ(overrides.pins().size(), 1u);
}

TEST(Overrides, DenialsAreOfBackendsAndOfCandidates) {
  Overrides overrides;
  EXPECT_EQ(overrides.denied(candidate_no(1)), "");
  ASSERT_TRUE(overrides.deny("other").has_value());
  ASSERT_TRUE(overrides.deny(candidate_no(1).text()).has_value());
  EXPECT_EQ(overrides.denied(candidate_no(1)), candidate_no(1).text());
  EXPECT_EQ(overrides.denied(candidate_no(2)), "");
  Candidate two = candidate_no(2);
  two.steps.front().part = Part::gemm;
  two.steps.push_back({"other", {}, Part::epilogue});
  EXPECT_EQ(overrides.denied(two), "other") << "any step counts";
  EXPECT_TRUE(overrides.allow("other"));
  EXPECT_FALSE(overrides.allow("other"));
  EXPECT_EQ(overrides.denied(two), "");
  for (const char* wrong : {"", "two words", "a=b", "family{tile", "family}"}) {
    EXPECT_FALSE(overrides.deny(wrong).has_value()) << wrong;
  }
}

TEST(Overrides, JsonRoundTripsAndErrorsNameThePlace) {
  Overrides overrides;
  overrides.pin(problem_no(1), DeviceKind::cuda, candidate_no(1));
  ASSERT_TRUE(overrides.deny("other").has_value());
  const std::string text = overrides.json();
  const auto read = Overrides::from_json(text, "o.json");
  ASSERT_TRUE(read.has_value()) << read.error().message;
  EXPECT_EQ(read->json(), text);
  const auto with = [&](const std::string& from, const std::string& to) {
    std::string wrong = text;
    wrong.replace(wrong.find(from), from.size(), to);
    const auto result = Overrides::from_json(wrong, "o.json");
    EXPECT_FALSE(result.has_value()) << wrong;
    return result ? std::string() : result.error().message;
  };
  EXPECT_EQ(with("\"schema\": 1", "\"schema\": 9"), "o.json: schema: this culet knows 1");
  EXPECT_EQ(with("\"cuda\"", "\"gpu\""), "o.json: pins[0].device: must be cpu or cuda");
  EXPECT_EQ(with("\"problem\"", "\"issue\""),
            "o.json: pins[0]: must have 'problem', 'device' and 'candidate'");
  EXPECT_EQ(with("\"17x", "\"17by").find("o.json: pins[0].problem: "), 0u);
  EXPECT_EQ(with("\"other\"", "3"), "o.json: denied[0]: must be a text, \"...\"");
  EXPECT_EQ(with("\"other\"", "\"a b\"").find("o.json: denied[0]: 'a b' is neither"), 0u);
  EXPECT_EQ(with("\"denied\": [", "\"denied\": 1, \"x\": [").find("o.json: 'denied' must"), 0u);
  EXPECT_EQ(with("{", ""), "o.json: line 2, column 10: this is not JSON");
  EXPECT_EQ(with("culet overrides", "x"), "o.json: has no \"format\": \"culet overrides\"");
}

TEST(Overrides, AFileIsReadAsIfItsLinesWereSaidInTurn) {
  const auto pin = [](int problem, const char* device, int candidate) {
    return "{\"problem\": \"" + problem_no(problem).text() + "\", \"device\": \"" + device +
           "\", \"candidate\": \"" + candidate_no(candidate).text() + "\"}";
  };
  const auto read = Overrides::from_json(R"({"format": "culet overrides", "schema": 1, "pins": [)" +
                                             pin(2, "cuda", 1) + "," + pin(1, "cuda", 2) + "," +
                                             pin(2, "cuda", 3) + "," + pin(1, "cpu", 4) +
                                             R"(], "denied": ["b", "a", "b", "c"]})",
                                         "o.json");
  ASSERT_TRUE(read.has_value()) << read.error().message;
  EXPECT_EQ(*read->pinned(problem_no(2), DeviceKind::cuda), candidate_no(3)) << "the later one";
  Overrides said;
  said.pin(problem_no(1), DeviceKind::cpu, candidate_no(4));
  said.pin(problem_no(1), DeviceKind::cuda, candidate_no(2));
  said.pin(problem_no(2), DeviceKind::cuda, candidate_no(3));
  for (const char* name : {"a", "b", "c"}) ASSERT_TRUE(said.deny(name).has_value());
  EXPECT_EQ(read->json(), said.json());
}

TEST(Overrides, ALongFileFromLastToFirst) {
  constexpr int kCount = 300'000;
  std::string text = R"({"format": "culet overrides", "schema": 1, "pins": [], "denied": [)";
  for (int i = kCount; i > 0; --i) {
    text += "\"b" + std::to_string(1'000'000 + i) + (i > 1 ? "\"," : "\"]}");
  }
  const auto begin = std::chrono::steady_clock::now();
  const auto read = Overrides::from_json(text, "o.json");
  ASSERT_TRUE(read.has_value()) << read.error().message;
  EXPECT_EQ(read->denials().size(), static_cast<std::size_t>(kCount));
  EXPECT_EQ(read->denials().front(), "b1000001");
  // Put in one by one, each before all others, they take minutes.
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(20));
}

TEST(Overrides, DeepAndWideJsonIsRefused) {
  const auto message = [](const std::string& more) {
    const auto read = Overrides::from_json(
        R"({"format": "culet overrides", "schema": 1, "pins": [], "denied": [], )" + more + "}",
        "o.json");
    EXPECT_FALSE(read.has_value());
    return read ? std::string() : read.error().message;
  };
  EXPECT_EQ(message("\"x\": " + std::string(200'000, '[') + std::string(200'000, ']')),
            "o.json: line 1, column 174: nested more than 100 deep");
  std::string wide = "\"x\": 1";
  for (int i = 0; i < 300; ++i) wide += ", \"k" + std::to_string(i) + "\": 1";
  EXPECT_NE(message(wide).find("o.json: line 1, column "), std::string::npos);
  EXPECT_NE(message(wide).find("an object of more than 256 names"), std::string::npos);
}

class OverridesFile : public ::testing::Test {
 protected:
  void SetUp() override {
    auto folder = TemporaryFolder::make();
    ASSERT_TRUE(folder.has_value());
    folder_ = std::make_unique<TemporaryFolder>(std::move(*folder));
  }
  std::unique_ptr<TemporaryFolder> folder_;
};

TEST_F(OverridesFile, IsApartFromTheStoreAndKeptWhenThatIsCleared) {
  const std::string& store = folder_->path();
  EXPECT_TRUE(load_overrides(store)->empty());
  ASSERT_TRUE(change_overrides(store, [](Overrides& o) { return o.deny("other"); }).has_value());
  const auto cache = must_open(store);
  fill(*cache, 2);
  ASSERT_TRUE(cache->clear().has_value());
  EXPECT_EQ(load_overrides(store)->denials(), std::vector<std::string>{"other"});
  EXPECT_TRUE(load_overrides("none")->empty());
  EXPECT_FALSE(change_overrides("none", [](Overrides& o) { return o.deny("x"); }).has_value());
}

TEST_F(OverridesFile, AFileThatIsWrongIsAnErrorAndStays) {
  const std::string file = overrides_file(folder_->path());
  std::ofstream(file) << "{";
  EXPECT_EQ(load_overrides(folder_->path()).error().message.find(file + ": line 1"), 0u);
  EXPECT_FALSE(
      change_overrides(folder_->path(), [](Overrides& o) { return o.deny("x"); }).has_value());
  EXPECT_EQ(read_file(file).value(), "{");
}

TEST_F(OverridesFile, NoChangeIsLostAmongProcesses) {
  std::vector<pid_t> children;
  for (int p = 0; p < 6; ++p) {
    const pid_t child = fork();
    if (child == 0) {
      bool ok = true;
      for (int i = 0; i < 10; ++i) {
        ok = ok && change_overrides(folder_->path(), [&](Overrides& o) {
                     return o.deny("b" + std::to_string(p * 10 + i));
                   }).has_value();
      }
      _exit(ok ? 0 : 1);
    }
    children.push_back(child);
  }
  for (const pid_t child : children) {
    int status = -1;
    EXPECT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
  }
  EXPECT_EQ(load_overrides(folder_->path())->denials().size(), 60u);
}

}  // namespace
}  // namespace culet

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// Stores as text and back: byte for byte, all or nothing, and with errors that say where.
#include "culet/exchange.h"

#include <filesystem>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>

#include "cache/database.h"
#include "fixtures.h"

namespace culet {
namespace {

using namespace testing_cache;
namespace fs = std::filesystem;

constexpr const char* kDevice = "GPU One|sm_90a|132 units|0 threads|580.1";

StoredTrial stored_trial(int i) {
  StoredTrial entry;
  entry.problem = problem_no(i).text();
  entry.env = {kDevice, "family 1", "policy"};
  entry.trial = trial_no(i);
  entry.made = 1'796'006'110'207 + i;
  return entry;
}

StoredSelection stored_selection(int i) {
  return {problem_no(i).text(), kDevice,   scope_no(i),
          candidate_no(i),      "because", 1'796'006'110'307 + i};
}

StoreContents some(int count) {
  StoreContents contents;
  for (int i = count - 1; i >= 0; --i) {
    contents.trials.push_back(stored_trial(i));
    contents.selections.push_back(stored_selection(i));
  }
  return contents;
}

ImportRules rules() {
  return {{kDevice}, {{"family", "1"}, {"other", "2, with comma"}}, "policy", {}};
}

std::string error_of(const std::string& text) {
  const auto read = exchange_entries(text, "f.json");
  EXPECT_FALSE(read.has_value()) << text;
  if (read) return {};
  EXPECT_EQ(read.error().code, ErrorCode::invalid_argument);
  EXPECT_EQ(read.error().message.find('\n'), std::string::npos) << read.error().message;
  return read.error().message;
}

class Exchange : public ::testing::TestWithParam<bool> {
 protected:
  void SetUp() override {
    auto folder = TemporaryFolder::make();
    ASSERT_TRUE(folder.has_value());
    folder_ = std::make_unique<TemporaryFolder>(std::move(*folder));
  }
  std::string path(const std::string& name) const { return folder_->path() + "/" + name; }
  std::shared_ptr<Cache> store(const std::string& name) const {
    return must_open(GetParam() ? path(name) : "none");
  }
  std::unique_ptr<TemporaryFolder> folder_;
};

INSTANTIATE_TEST_SUITE_P(Implementations, Exchange, ::testing::Values(true, false),
                         [](const auto& info) { return info.param ? "disk" : "memory"; });

TEST_P(Exchange, ExportImportExportIsByteIdentical) {
  const auto first = store("a");
  fill(*first, 30);
  Trial odd = trial_no(3);
  odd.candidate = candidate_no(77);
  odd.outcome = Outcome::wrong;
  odd.error = std::numeric_limits<double>::infinity();
  odd.timing.reset();
  odd.estimate.reset();
  odd.reason = "D[0,1] is \"7\"\t\xff";
  odd.log = "line\nline";
  first->store_trial(problem_no(3), odd, environment_no(3));
  for (int i = 0; i < 400; ++i) {  // times of all magnitudes, with all bits used
    Trial trial = trial_no(i);
    const double seconds = 1.0 / 3 * std::pow(1.1, i - 300);
    trial.timing = Timing{seconds, seconds / 1.7, seconds * 1.3, 7};
    trial.estimate = Estimate{seconds / 7, Limiter::waves};
    trial.error = 1.0 / (i + 3);
    first->store_trial(problem_no(i), trial, environment_no(0));
  }
  const auto contents = first->contents();
  ASSERT_TRUE(contents.has_value());
  EXPECT_EQ(contents->damaged, 0);
  const std::string text = exchange_text(*contents);
  const auto read = exchange_entries(text, "f.json");
  ASSERT_TRUE(read.has_value()) << read.error().message;
  const auto second = store("b");
  const auto taken = second->take(*read);
  ASSERT_TRUE(taken.has_value()) << taken.error().message;
  EXPECT_EQ(taken->trials, 430);
  EXPECT_EQ(taken->selections, 30);
  EXPECT_EQ(taken->known, 0);
  EXPECT_TRUE(exchange_text(*second->contents()) == text);
  EXPECT_EQ(second->take(*read)->known, 460);
  const auto got = second->find_trial(problem_no(9), candidate_no(9), environment_no(0));
  ASSERT_TRUE(got.has_value());
  EXPECT_NEAR(got->timing->median / (1.0 / 3 * std::pow(1.1, 9 - 300)), 1, 1e-11);
  EXPECT_EQ(*second->find_selection(problem_no(4), scope_no(4), "device"), candidate_no(4));
}

TEST_P(Exchange, OrderOfStoringDoesNotShow) {
  const auto a = store("a"), b = store("b");
  StoreContents contents = some(9);
  ASSERT_TRUE(a->take(contents).has_value());
  std::reverse(contents.trials.begin(), contents.trials.end());
  std::reverse(contents.selections.begin(), contents.selections.end());
  ASSERT_TRUE(b->take(contents).has_value());
  EXPECT_EQ(exchange_text(*a->contents()), exchange_text(*b->contents()));
}

TEST_P(Exchange, TheNewerOfTwoStays) {
  const auto cache = store("a");
  StoreContents contents = some(1);
  ASSERT_TRUE(cache->take(contents).has_value());
  const auto median = [&] {
    return cache->find_trial(problem_no(0), candidate_no(0), contents.trials[0].env)
        ->timing->median;
  };
  contents.trials[0].trial.timing->median = 1;
  contents.selections[0].candidate = candidate_no(5);
  EXPECT_EQ(cache->take(contents)->known, 2) << "as new is not newer";
  EXPECT_NE(median(), 1);
  ++contents.trials[0].made;
  ++contents.selections[0].made;
  EXPECT_EQ(cache->take(contents)->trials, 1);
  EXPECT_EQ(median(), 1);
  EXPECT_EQ(*cache->find_any_selection(problem_no(0), kDevice), candidate_no(5));
  contents.trials[0].trial.timing->median = 2;
  contents.trials[0].made += 1000;
  contents.trials[0].yields = true;
  EXPECT_EQ(cache->take(contents)->trials, 0) << "what was made to fit replaces nothing";
  EXPECT_EQ(median(), 1);
}

TEST_P(Exchange, OfSomeProblemsAndForgotten) {
  const auto cache = store("a");
  fill(*cache, 5);
  const auto some = cache->contents({problem_no(1).text(), problem_no(3).text()});
  EXPECT_EQ(some->trials.size(), 2u);
  EXPECT_EQ(some->selections.size(), 2u);
  EXPECT_EQ(*cache->forget(problem_no(1).text()), 2);
  EXPECT_EQ(*cache->forget(problem_no(1).text()), 0);
  EXPECT_EQ(check(*cache, 5), 13);
}

TEST(ExchangeText, NamesThePlaceAndWhatIsRight) {
  const std::string good = exchange_text(some(3));
  ASSERT_TRUE(exchange_entries(good, "f.json").has_value());
  const auto with = [&](const std::string& from, const std::string& to) {
    std::string text = good;
    const std::size_t at = text.rfind(from);
    EXPECT_NE(at, std::string::npos) << from;
    return error_of(text.replace(at, from.size(), to));
  };
  EXPECT_EQ(error_of("{\n \"format\": }"), "f.json: line 2, column 12: this is not JSON");
  EXPECT_EQ(error_of(""), "f.json: line 1, column 1: this is not JSON");
  EXPECT_EQ(error_of("[]"), "f.json: must be an object, {...}");
  EXPECT_EQ(error_of("{}"), "f.json: is no exported store: it has no \"format\": \"culet cache\"");
  EXPECT_EQ(with("\"schema\": 1", "\"schema\": 2"), "f.json: schema: is 2, this culet knows 1");
  EXPECT_EQ(with("\"median_us\": 6.0", "\"median_us\": -6.0"),
            "f.json: trials[2].median_us: must be a positive number of microseconds, not -6.0");
  EXPECT_EQ(with("\"median_us\": 6.0", "\"median_us\": \"6\""),
            "f.json: trials[2].median_us: must be a positive number of microseconds, not \"6\"");
  EXPECT_EQ(with("\"median_us\": 6.0", "\"median_us\": 1e999").find("f.json: "), 0u);
  EXPECT_EQ(with("\"low_us\": 3.0", "\"low_us\": 7.0"),
            "f.json: trials[2].low_us: must not be above median_us");
  EXPECT_EQ(with("\"samples\": 7", "\"samples\": 7.5"),
            "f.json: trials[2].samples: must be a whole number from 1 to 1000000000, not 7.5");
  EXPECT_EQ(with("\"samples\": 7", "\"samples\": 18446744073709551615")
                .find("f.json: trials[2].samples: must be a whole number"),
            0u);
  EXPECT_EQ(with("\"error\": 0.25", "\"error\": 1.5"),
            "f.json: trials[2].error: must be at most 1 where the outcome is 'measured'");
  EXPECT_EQ(with("\"outcome\": \"measured\"", "\"outcome\": \"fast\"")
                .find("f.json: trials[2].outcome: unknown outcome 'fast'; known are ranked"),
            0u);
  EXPECT_EQ(with("\"samples\"", "\"sample\""), "f.json: trials[2]: 'samples' is missing");
  EXPECT_EQ(with("\"limiter\": \"dram\"", "\"limiter\": \"dram\", \"colour\": 1")
                .find("f.json: trials[2]: unknown name 'colour'; known are problem, candidate"),
            0u);
  EXPECT_EQ(
      with("\"problem\": \"18x", "\"problem\": \"18by").find("f.json: selections[2].problem: "),
      0u);
  EXPECT_EQ(with("family{tile=128x64x64 stages=2}", "family{tile")
                .find("f.json: selections[2].candidate: "),
            0u);
  EXPECT_EQ(with("\"space\": \"0000000000000002\"", "\"space\": \"2\"")
                .find("f.json: selections[2].space: must be 16"),
            0u);
  EXPECT_EQ(with("10.309Z\"", "10Z\""),
            "f.json: selections[2].made: must be a time as 2026-01-31T12:00:00.000Z, not "
            "'2026-11-30T02:35:10Z'");
  EXPECT_EQ(with("\"selections\": [", "\"selections\": 3, \"x\": ["),
            "f.json: selections: must be a list, [...]");
  EXPECT_EQ(with("\"vendor\": true", "\"vendor\": 1"),
            "f.json: trials[1].vendor: must be true or false");
  StoreContents twice = some(2);
  twice.trials.push_back(twice.trials.front());
  EXPECT_EQ(error_of(exchange_text(twice)),
            "f.json: trials[2]: is the same entry as trials[1] again");
}

TEST(ExchangeText, WhatIsAcceptedCanBeWrittenAndReadAgain) {
  const std::string good = exchange_text(some(1));
  const auto with = [&](const std::string& from, const std::string& to) {
    std::string text = good;
    return text.replace(text.find(from), from.size(), to);
  };
  // In seconds, and back in microseconds, the largest double is infinite.
  EXPECT_EQ(error_of(with("\"high_us\": 3.0", "\"high_us\": 1.7976931348623157e308")),
            "f.json: trials[0].high_us: must be at most 1e+300, not 1.7976931348623157e+308");
  EXPECT_EQ(error_of(with("\"estimate_us\": 1.0", "\"estimate_us\": 1.7976931348623157e308")),
            "f.json: trials[0].estimate_us: must be at most 1e+300, not 1.7976931348623157e+308");
  for (const auto& [seconds, written] :
       {std::pair(1e300, "\"estimate_us\": null"), std::pair(1e294, "\"estimate_us\": 1e+300")}) {
    StoreContents contents = some(1);
    contents.trials[0].trial.estimate = Estimate{seconds, Limiter::dram};
    const std::string text = exchange_text(contents);
    EXPECT_NE(text.find(written), std::string::npos) << text;
    const auto read = exchange_entries(text, "f.json");
    ASSERT_TRUE(read.has_value()) << read.error().message;
    EXPECT_EQ(exchange_text(*read), text);
  }
  for (const char* largest : {"1e300", "9.87654321012e299"}) {
    const auto read = exchange_entries(
        with("\"high_us\": 3.0", std::string("\"high_us\": ") + largest), "f.json");
    ASSERT_TRUE(read.has_value()) << read.error().message;
    const std::string text = exchange_text(*read);
    const auto again = exchange_entries(text, "f.json");
    ASSERT_TRUE(again.has_value()) << again.error().message;
    EXPECT_EQ(exchange_text(*again), text);
  }
}

TEST(ExchangeText, TimesThatNoClockShouldTellAreLeftOut) {
  // A stored entry may have any: one such must not keep the whole file from being read.
  for (const std::int64_t made :
       {std::int64_t{-5}, std::int64_t{253'402'300'800'000},
        std::numeric_limits<std::int64_t>::min(), std::numeric_limits<std::int64_t>::max()}) {
    StoreContents contents = some(2);
    contents.trials[0].made = contents.selections[0].made = made;
    const auto read = exchange_entries(exchange_text(contents), "f.json");
    ASSERT_TRUE(read.has_value()) << made << ": " << read.error().message;
    EXPECT_EQ(read->trials[1].made, 0);
    EXPECT_EQ(read->selections[1].made, 0);
    EXPECT_EQ(read->trials[0].made, contents.trials[1].made);
  }
  StoreContents last = some(1);
  last.trials[0].made = 253'402'300'799'999;
  EXPECT_NE(exchange_text(last).find("\"made\": \"9999-12-31T23:59:59.999Z\""), std::string::npos);
}

TEST(ExchangeText, DeepAndWideJsonIsRefused) {
  const std::string deep = std::string(200'000, '[') + std::string(200'000, ']');
  const std::string good = exchange_text(some(1));
  const auto with = [&](const std::string& from, const std::string& to) {
    std::string text = good;
    return error_of(text.replace(text.find(from), from.size(), to));
  };
  EXPECT_EQ(with("\"schema\": 1", "\"schema\": " + deep),
            "f.json: line 3, column 111: nested more than 100 deep");
  for (const char* number : {"\"median_us\": 2.0", "\"samples\": 7", "\"error\": 0.25"}) {
    const std::string name = std::string(number).substr(0, std::string(number).find(' '));
    EXPECT_NE(with(number, name + deep).find("nested more than 100 deep"), std::string::npos);
  }
  std::string wide;
  for (int i = 0; i < 300; ++i) wide += "\"k" + std::to_string(i) + "\": 1, ";
  EXPECT_NE(with("\"samples\"", wide + "\"samples\"").find("an object of more than 256 names"),
            std::string::npos);
}

TEST(ExchangeText, ALostQuoteIsReportedWhereItIs) {
  std::string text = exchange_text(some(300));
  const std::size_t end = text.find("\",\n", text.find("\"candidate\""));
  text.erase(end, 1);
  EXPECT_EQ(error_of(text).find("f.json: line 7, column "), 0u) << error_of(text);
  EXPECT_NE(error_of(text).find("this is not JSON"), std::string::npos);
}

TEST(ExchangeText, NothingIsTakenFromAnInputThatFails) {
  // A transaction that fails half way: the code file holds a kernel that is damaged.
  const auto folder = TemporaryFolder::make();
  ASSERT_TRUE(folder.has_value());
  const std::string file = folder->path() + "/code.sqlite";
  const auto first = must_open(folder->path() + "/a");
  fill(*first, 5);
  ASSERT_EQ(*first->save_code(file), 5);
  {
    auto database = Database::open(file, {OpenMode::Access::write, false});
    ASSERT_TRUE(database.has_value());
    ASSERT_EQ((*database)->execute("UPDATE code SET entry='other' WHERE key='key-4'"),
              DbStatus::done);
  }
  const auto second = must_open(folder->path() + "/b");
  const auto taken = second->take(some(5), {file, true, false});
  ASSERT_FALSE(taken.has_value());
  EXPECT_EQ(taken.error().message, file + ": kernel key-4 does not match its checksum");
  const CacheStats stats = second->stats();
  EXPECT_EQ(stats.trials + stats.selections + stats.code_entries, 0);
  const auto rest = second->take(some(5), {file, true, true});
  ASSERT_TRUE(rest.has_value());
  EXPECT_EQ(rest->code, 4);
  EXPECT_EQ(rest->damaged_code, 1);
  EXPECT_TRUE(second->verify().empty());
}

TEST(ExchangeCode, OfAnotherStoreIsRefusedUnlessAllowed) {
  const auto folder = TemporaryFolder::make();
  ASSERT_TRUE(folder.has_value());
  const std::string file = code_file_of(folder->path() + "/f.json");
  const auto first = must_open(folder->path() + "/a"), second = must_open(folder->path() + "/b");
  fill(*first, 6);
  first->note_toolchain("sm_90a", "compiler 1.2");
  ASSERT_EQ(*first->save_code(file), 6);
  EXPECT_FALSE(fs::exists(file + "-wal"));
  EXPECT_FALSE(fs::exists(file + "-journal"));

  auto taken = second->take({}, {file, false, false});
  ASSERT_TRUE(taken.has_value()) << taken.error().message;
  EXPECT_EQ(taken->refused_code, 6);
  EXPECT_EQ(taken->code, 0);
  EXPECT_FALSE(second->find_code(key_no(0)).has_value());
  EXPECT_TRUE(second->toolchains("sm_90a").empty());

  taken = second->take({}, {file, true, false});
  EXPECT_EQ(taken->refused_code, 0);
  EXPECT_EQ(taken->code, 6);
  for (int i = 0; i < 6; ++i) expect_equal(*second->find_code(key_no(i)), artifact_no(i));
  EXPECT_EQ(second->toolchains("sm_90a"), std::vector<std::string>{"compiler 1.2"});
  EXPECT_EQ(second->take({}, {file, false, false})->refused_code, 0)
      << "what is known needs no leave";

  ASSERT_TRUE(first->clear().has_value());  // its own comes back without
  EXPECT_EQ(first->take({}, {file, false, false})->code, 6);
  expect_equal(*first->find_code(key_no(5)), artifact_no(5));

  for (const std::string bad : {"garbage", ""}) {
    std::ofstream(folder->path() + "/bad", std::ios::trunc) << bad;
    EXPECT_FALSE(second->take(some(2), {folder->path() + "/bad", true, false}).has_value());
    EXPECT_EQ(read_file(folder->path() + "/bad").value(), bad) << "a source is never changed";
  }
  EXPECT_FALSE(second->take(some(2), {folder->path() + "/missing", true, false}).has_value());
  EXPECT_FALSE(fs::exists(folder->path() + "/missing"));
  EXPECT_EQ(second->stats().trials, 0);
}

std::string skipped_text(const Matched& matched) {
  std::string text;
  for (const Skipped& s : matched.skipped) {
    text += std::to_string(s.trials) + "+" + std::to_string(s.selections) + " " + s.reason + "\n";
  }
  return text;
}

TEST(ExchangeMatch, WhatIsTheSameHolds) {
  const Matched matched = match(some(4), rules());
  EXPECT_EQ(matched.contents.trials.size(), 4u);
  EXPECT_EQ(matched.contents.selections.size(), 4u);
  EXPECT_TRUE(matched.skipped.empty());
  EXPECT_FALSE(matched.contents.trials[0].yields);
}

TEST(ExchangeMatch, WhatDiffersIsSkippedAndRelaxedByName) {
  const auto with = [](const char* from, const char* to, std::set<Relax> relax) {
    StoreContents contents = some(1);
    const auto replace = [&](std::string& text) {
      if (const auto at = text.find(from); at != std::string::npos)
        text.replace(at, std::string(from).size(), to);
    };
    for (auto& t : contents.trials)
      replace(t.env.device), replace(t.env.library), replace(t.env.policy);
    for (auto& s : contents.selections) replace(s.device), replace(s.scope.backends);
    ImportRules here = rules();
    here.relax = std::move(relax);
    return match(contents, here);
  };
  EXPECT_EQ(
      skipped_text(with("580.1", "570.2", {})),
      "1+1 the device's driver is '570.2' there and '580.1' here (--relax driver takes them)\n");
  EXPECT_EQ(skipped_text(with("sm_90a", "sm_80", {Relax::driver, Relax::name, Relax::units})),
            "1+1 the device's architecture is 'sm_80' there and 'sm_90a' here\n");
  EXPECT_EQ(skipped_text(with("One|sm_90a", "Two|sm_80", {})),
            "1+1 device 'GPU Two|sm_80|132 units|0 threads|580.1' is not here\n");
  EXPECT_EQ(skipped_text(with("family 1", "family 2", {})),
            "1+1 the version of family is '2' there and '1' here (--relax library takes them)\n");
  EXPECT_EQ(skipped_text(with("family 1", "family 1, cousin 3", {Relax::library})),
            "1+1 backend 'cousin' is not known here\n");
  EXPECT_EQ(
      skipped_text(with("policy", "v0", {})),
      "1+0 the measuring policy is 'v0' there and 'policy' here (--relax policy takes them)\n");
  EXPECT_EQ(skipped_text(with("family 1", "other 2, with comma, family 1", {})), "");

  const Matched relaxed = with("580.1", "570.2", {Relax::driver});
  ASSERT_EQ(relaxed.contents.trials.size(), 1u);
  EXPECT_EQ(relaxed.contents.trials[0].env.device, kDevice);
  EXPECT_TRUE(relaxed.contents.trials[0].yields);
  EXPECT_EQ(relaxed.contents.selections[0].device, kDevice);
  const Matched version = with("family 1", "family 2", {Relax::library});
  EXPECT_EQ(version.contents.trials[0].env.library, "family 1");
  EXPECT_EQ(version.contents.selections[0].scope.backends, "family 1");
}

TEST(ExchangeMatch, FieldsByName) {
  EXPECT_EQ(parse_relax("driver, library")->size(), 2u);
  const auto wrong = parse_relax("driver,colour");
  ASSERT_FALSE(wrong.has_value());
  EXPECT_EQ(wrong.error().message,
            "unknown field 'colour'; known are driver, library, policy, name, units, threads");
}

/// What docs/exchange.schema.json says, as far as a test without a validator can tell: every name
/// that is written is described, and every name that is required is written.
TEST(ExchangeText, SchemaNamesEverything) {
  const auto schema = nlohmann::json::parse(
      read_file(std::string(CULET_SOURCE) + "/docs/exchange.schema.json").value(), nullptr, false);
  ASSERT_FALSE(schema.is_discarded());
  StoreContents contents = some(2);
  contents.trials[0].trial.reason = contents.trials[0].trial.log = "text";
  contents.trials[0].trial.fallback = true;
  const auto root = nlohmann::json::parse(exchange_text(contents));
  const auto covers = [](const nlohmann::json& description, const nlohmann::json& value) {
    for (const auto& [name, item] : value.items()) {
      EXPECT_TRUE(description["properties"].contains(name)) << name;
    }
    for (const auto& name : description["required"]) EXPECT_TRUE(value.contains(name)) << name;
    EXPECT_EQ(description["additionalProperties"], false);
  };
  covers(schema, root);
  EXPECT_EQ(schema["properties"]["schema"]["const"], root["schema"]);
  EXPECT_EQ(schema["properties"]["format"]["const"], root["format"]);
  for (const auto& trial : root["trials"]) covers(schema["$defs"]["trial"], trial);
  for (const auto& chosen : root["selections"]) covers(schema["$defs"]["selection"], chosen);
}

}  // namespace
}  // namespace culet

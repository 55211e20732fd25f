// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// Files that are not what was written: whatever happened to them, the store gives the right entry
// or none, and what was there stays somewhere.
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <random>

#include "cache/database.h"
#include "cache/records.h"
#include "fixtures.h"

namespace culet {
namespace {

using namespace testing_cache;
namespace fs = std::filesystem;

constexpr int kEntries = 12;

std::string contents(const std::string& path) { return read_file(path).value_or(""); }

void overwrite(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
}

class Damage : public ::testing::Test {
 protected:
  void SetUp() override {
    auto folder = TemporaryFolder::make();
    ASSERT_TRUE(folder.has_value());
    folder_ = std::make_unique<TemporaryFolder>(std::move(*folder));
    const auto cache = must_open(path());
    fill(*cache, kEntries);
    ASSERT_EQ(check(*cache, kEntries), 3 * kEntries);
  }
  std::string path() const { return folder_->path(); }
  std::string file() const { return file_in(path()); }

  /// Opens a store whose file was replaced by `bytes` and checks that those were kept.
  void expect_moved_aside(const std::string& bytes) {
    overwrite(file(), bytes);
    fs::remove(file() + "-wal");
    fs::remove(file() + "-shm");
    const auto cache = must_open(path());
    ASSERT_NE(cache, nullptr);
    const std::string warning = cache->take_warning();
    EXPECT_NE(warning.find("culet.sqlite.damaged"), std::string::npos) << warning;
    EXPECT_EQ(warning.find('\n'), std::string::npos);
    EXPECT_EQ(cache->take_warning(), "");
    EXPECT_TRUE(contents(file() + ".damaged") == bytes);
    EXPECT_EQ(check(*cache, kEntries), 0);
    fill(*cache, 2);
    EXPECT_EQ(check(*cache, kEntries), 6);
  }
  std::unique_ptr<TemporaryFolder> folder_;
};

TEST_F(Damage, Garbage) { expect_moved_aside(std::string(10'000, 'g')); }
TEST_F(Damage, ShortGarbage) { expect_moved_aside("no database"); }
TEST_F(Damage, TruncatedToNothing) { expect_moved_aside(""); }
TEST_F(Damage, TruncatedInTheHeader) { expect_moved_aside(contents(file()).substr(0, 60)); }
TEST_F(Damage, TruncatedInTheFirstPage) { expect_moved_aside(contents(file()).substr(0, 3000)); }
TEST_F(Damage, TruncatedToOnePage) { expect_moved_aside(contents(file()).substr(0, 4096)); }
TEST_F(Damage, TruncatedInTheMiddle) {
  expect_moved_aside(contents(file()).substr(0, contents(file()).size() / 2));
}
TEST_F(Damage, LastByteMissing) {
  // SQLite reads the missing end of a page as zeros; the checksum knows better.
  const std::string whole = contents(file());
  overwrite(file(), whole.substr(0, whole.size() - 1));
  const auto cache = must_open(path());
  const int found = check(*cache, kEntries);
  EXPECT_LT(found, 3 * kEntries);
  EXPECT_GT(found, 2 * kEntries);
  EXPECT_FALSE(cache->verify().empty());
}

TEST(StoredTrial, NumbersThatAreNotWholeOrDoNotFitAreNoTrial) {
  Trial trial = trial_no(0);
  trial.timing = Timing{1e-6, 1e-6, 1e-6, 25};
  const std::string text = trial_json(trial, 77);
  const auto with = [&text](std::string_view name, const char* value) {
    const std::size_t begin = text.find(name) + name.size();
    std::string changed = text;
    changed.replace(begin, changed.find_first_of(",}", begin) - begin, value);
    std::int64_t made = 0;
    return trial_from_json(changed, &made).has_value();
  };
  for (const char* name : {"\"samples\":", "\"made\":"}) {
    ASSERT_NE(text.find(name), std::string::npos);
    EXPECT_TRUE(with(name, "26"));
    for (const char* value : {"5.08889e+101", "2.5", "18446744073709551615", "\"26\""}) {
      EXPECT_FALSE(with(name, value)) << name << value;
    }
  }
  EXPECT_FALSE(with("\"samples\":", "4294967297"));  // would wrap to 1
}

TEST(StoredTrial, DeepJsonIsNoTrial) {
  const std::string text = trial_json(trial_no(0), 77);
  const auto with_lists = [&text](std::size_t depth) {
    return trial_from_json("{\"more\":" + std::string(depth, '[') + std::string(depth, ']') + "," +
                           text.substr(1));
  };
  EXPECT_TRUE(with_lists(99).has_value());
  EXPECT_FALSE(with_lists(100).has_value());
}

TEST(StoredCode, MoreThanAnyKernelHasIsNotBelieved) {
  const std::string most(std::size_t{1} << 26, 'x');
  EXPECT_TRUE(decompress(compress(most), std::int64_t{1} << 26) == most);
  const std::string more = most + 'x';
  EXPECT_FALSE(decompress(compress(more), (std::int64_t{1} << 26) + 1).has_value());
}

TEST_F(Damage, CodeThatWouldNotBeReadAgainIsNotStored) {
  const auto cache = must_open(path());
  Artifact artifact = artifact_no(0);
  artifact.bytes.assign((std::size_t{1} << 26) + 1, 'x');
  cache->store_code("large", artifact);
  EXPECT_TRUE(cache->verify().empty());
  EXPECT_FALSE(cache->find_code("large").has_value());
  EXPECT_EQ(cache->take_warning(), "");
}

/// Runs statements on the file of a store; one number that the last one, a SELECT, gives.
std::int64_t number_from(const std::string& file, const char* change, const char* select) {
  auto database = Database::open(file);
  EXPECT_TRUE(database.has_value());
  if (!database) return 0;
  EXPECT_EQ((*database)->execute(change), DbStatus::done);
  Statement statement(**database, select);
  EXPECT_EQ(statement.step(), DbStatus::row);
  return statement.integer_at(0);
}

// Times and sizes without a checksum: any number may be there.
TEST_F(Damage, TimesOfUseThatAreNone) {
  const auto cache = must_open(path());
  const std::int64_t now = std::time(nullptr);
  for (const char* change : {"UPDATE code_use SET last_used=-9223372036854775807 - 1",
                             "UPDATE code_use SET last_used=9223372036854775807"}) {
    (void)number_from(file(), change, "SELECT 1");
    EXPECT_TRUE(cache->find_code(key_no(0)).has_value());
    const std::int64_t used =
        number_from(file(), "", "SELECT last_used FROM code_use WHERE key='key-0'");
    EXPECT_GE(used, now) << change;
    EXPECT_LE(used, now + 600) << change;
  }
}

TEST_F(Damage, ToolchainsOfATimeToComeAreNotFirstForEver) {
  using Names = std::vector<std::string>;
  const auto cache = must_open(path());
  cache->note_toolchain("sm_90a", "old");
  cache->note_toolchain("sm_90a", "older");
  (void)number_from(file(),
                    "UPDATE toolchains SET last_used=9223372036854775807 WHERE fingerprint='old';"
                    "UPDATE toolchains SET last_used=-9223372036854775807 - 1 "
                    "WHERE fingerprint='older'",
                    "SELECT 1");
  cache->note_toolchain("sm_90a", "new");
  EXPECT_EQ(cache->toolchains("sm_90a"), (Names{"new", "old", "older"}));
  cache->note_toolchain("sm_90a", "old");
  EXPECT_EQ(cache->toolchains("sm_90a"), (Names{"old", "new", "older"}));
  EXPECT_EQ(cache->take_warning(), "");
}

/// Code that does not get smaller.
void store_big(Cache& cache, int i) {
  Artifact artifact = artifact_no(i);
  artifact.bytes.resize(400'000);
  std::mt19937 random(1);
  for (char& c : artifact.bytes) c = static_cast<char>(random());
  cache.store_code("big-" + std::to_string(i), artifact);
}

TEST_F(Damage, CodeUsedAtATimeToComeMakesRoom) {
  setenv("CULET_CACHE_MB", "1", 1);
  const auto cache = must_open(path());
  unsetenv("CULET_CACHE_MB");
  store_big(*cache, 0);
  store_big(*cache, 1);
  (void)number_from(file(),
                    "UPDATE code_use SET last_used=9223372036854775807 WHERE key='big-0';"
                    "UPDATE code_use SET last_used=last_used+600 WHERE key='big-1'",
                    "SELECT 1");
  store_big(*cache, 2);
  EXPECT_FALSE(cache->find_code("big-0").has_value());
  EXPECT_TRUE(cache->find_code("big-1").has_value()) << "clocks may differ";
  EXPECT_TRUE(cache->find_code("big-2").has_value());
  EXPECT_EQ(check(*cache, kEntries), 3 * kEntries);
  EXPECT_EQ(cache->take_warning(), "");
}

TEST_F(Damage, SizesOfCodeThatAreNone) {
  setenv("CULET_CACHE_MB", "1", 1);
  const auto cache = must_open(path());
  unsetenv("CULET_CACHE_MB");
  // Less than nothing: there would be room for ever.
  (void)number_from(file(), "UPDATE code_use SET bytes=-9223372036854775807 - 1, last_used=1",
                    "SELECT 1");
  for (int i = 0; i < 5; ++i) store_big(*cache, i);
  EXPECT_LE(cache->stats().code_bytes, 1'000'000);
  // More than all there is, and the sum of which no integer holds.
  (void)number_from(file(), "UPDATE code_use SET bytes=9223372036854775807, last_used=1",
                    "SELECT 1");
  for (int i = 5; i < 8; ++i) store_big(*cache, i);
  EXPECT_LE(cache->stats().code_bytes, 1'000'000);
  EXPECT_TRUE(cache->find_code("big-7").has_value());
  EXPECT_EQ(cache->take_warning(), "");
}

TEST_F(Damage, SecondDamagedFileDoesNotReplaceTheFirst) {
  overwrite(file(), "first");
  (void)must_open(path());
  overwrite(file(), "second");
  (void)must_open(path());
  EXPECT_EQ(contents(file() + ".damaged"), "first");
  EXPECT_EQ(contents(file() + ".2.damaged"), "second");
}

TEST_F(Damage, FlipsAndTruncationsNeverGiveAWrongEntry) {
  const std::string whole = contents(file());
  ASSERT_GT(whole.size(), 20'000u);
  // In memory where that is possible: each round opens a store, and waiting for a disk is not
  // tested.
  if (fs::is_directory("/dev/shm")) setenv("TMPDIR", "/dev/shm", 1);
  auto scratch = TemporaryFolder::make();
  unsetenv("TMPDIR");
  ASSERT_TRUE(scratch.has_value());
  folder_ = std::make_unique<TemporaryFolder>(std::move(*scratch));
  std::mt19937 random(2);
  int kept = 0, lost = 0, refused = 0;
  for (int round = 0; round < 500; ++round) {
    std::string bytes = whole;
    const int flips = round % 3 == 0 ? 1 : round % 3 == 1 ? 8 : 64;
    for (int i = 0; i < flips; ++i) {
      bytes[random() % bytes.size()] ^= static_cast<char>(1u << (random() % 8));
    }
    if (round % 10 == 9) bytes.resize(random() % bytes.size());
    for (const auto& entry : fs::directory_iterator(path())) fs::remove(entry.path());
    overwrite(file(), bytes);
    const auto cache = open_cache(path());
    if (!cache) {  // the flip made it look like another program's, or a newer version's
      EXPECT_EQ(cache.error().code, ErrorCode::io);
      EXPECT_TRUE(contents(file()) == bytes) << "a refused file was changed";
      ++refused;
      continue;
    }
    const int found = check(**cache, kEntries);
    kept += found;
    lost += 3 * kEntries - found;
    (void)(*cache)->entries();
    (void)(*cache)->verify();
    (void)(*cache)->trials_of(problem_no(0).text());
    (void)(*cache)->contents();
    // And it can be written to again.
    (*cache)->store_trial(problem_no(0), trial_no(0), environment_no(0));
    (*cache)->store_code(key_no(0), artifact_no(0));
    check(**cache, 1);
  }
  EXPECT_GT(kept, 1500);  // the test would also pass if nothing were ever found
  EXPECT_GT(lost, 300);   // and flips must have hit something
  EXPECT_LT(refused, 100);
}

TEST_F(Damage, FlippedBytesOfTheLogNeverGiveAWrongEntry) {
  // A copy made while the store is open has everything in its log.
  const auto live = must_open(path());
  ASSERT_TRUE(live->clear().has_value());
  fill(*live, kEntries);
  const std::string main = contents(file()), log = contents(file() + "-wal");
  ASSERT_GT(log.size(), 10'000u);
  const auto copy = TemporaryFolder::make();
  ASSERT_TRUE(copy.has_value());
  std::mt19937 random(3);
  int kept = 0;
  for (int round = 0; round < 60; ++round) {
    std::string bytes = log;
    if (round > 0) bytes[random() % bytes.size()] ^= static_cast<char>(1u << (random() % 8));
    for (const auto& entry : fs::directory_iterator(copy->path())) fs::remove(entry.path());
    overwrite(file_in(copy->path()), main);
    overwrite(file_in(copy->path()) + "-wal", bytes);
    const auto cache = open_cache(copy->path());
    if (cache) kept += check(**cache, kEntries);
    if (round == 0) {
      EXPECT_EQ(kept, 3 * kEntries);
    }
  }
  EXPECT_GT(kept, 3 * kEntries);
}

TEST_F(Damage, OneDamagedEntryIsAMissWithOneWarning) {
  {
    auto database = Database::open(file());
    ASSERT_TRUE(database.has_value());
    ASSERT_EQ((*database)->execute("UPDATE trials SET json=replace(json, '7', '8');"
                                   "UPDATE code SET entry='other' WHERE key='key-1'"),
              DbStatus::done);
  }
  const auto cache = must_open(path());
  EXPECT_EQ(cache->verify().size(), static_cast<std::size_t>(kEntries) + 1);
  EXPECT_EQ(check(*cache, kEntries), 3 * kEntries - kEntries - 1);
  EXPECT_NE(cache->take_warning(), "");
  EXPECT_EQ(cache->take_warning(), "");
  EXPECT_FALSE(fs::exists(file() + ".damaged"));
  // Stored anew, it is whole again.
  cache->store_code(key_no(1), artifact_no(1));
  expect_equal(*cache->find_code(key_no(1)), artifact_no(1));
}

TEST_F(Damage, AnEntryUnderAnothersKeyIsAMiss) {
  auto database = Database::open(file());
  ASSERT_TRUE(database.has_value());
  ASSERT_EQ(
      (*database)->execute(
          "DELETE FROM code WHERE key='key-2'; UPDATE code SET key='key-2' WHERE key='key-1'"),
      DbStatus::done);
  EXPECT_FALSE(must_open(path())->find_code(key_no(2)).has_value());
}

TEST_F(Damage, NewerSchemaIsRefusedAndLeftAlone) {
  {
    auto database = Database::open(file());
    ASSERT_TRUE(database.has_value());
    (void)(*database)->execute("PRAGMA user_version=999");
  }
  const auto cache = open_cache(path());
  ASSERT_FALSE(cache.has_value());
  EXPECT_EQ(cache.error().code, ErrorCode::io);
  EXPECT_NE(cache.error().message.find("newer culet (schema 999"), std::string::npos)
      << cache.error().message;
  EXPECT_FALSE(fs::exists(file() + ".damaged"));
}

TEST_F(Damage, AnotherProgramsDatabaseIsRefusedAndLeftAlone) {
  {
    auto database = Database::open(file());
    ASSERT_TRUE(database.has_value());
    (void)(*database)->execute("PRAGMA application_id=1234");
  }
  const std::string before = contents(file());
  const auto cache = open_cache(path());
  ASSERT_FALSE(cache.has_value());
  EXPECT_NE(cache.error().message.find("another program"), std::string::npos);
  EXPECT_FALSE(fs::exists(file() + ".damaged"));
  EXPECT_TRUE(contents(file()) == before);
}

TEST_F(Damage, DamagedWhileOpen) {
  const auto cache = must_open(path());
  EXPECT_EQ(check(*cache, kEntries), 3 * kEntries);
  ASSERT_TRUE(cache->clear().has_value());
  fill(*cache, kEntries);
  ASSERT_TRUE(cache->clear().has_value());
  fill(*cache, 200);  // larger than SQLite's page cache would hide
  std::string bytes = contents(file());
  for (std::size_t i = 4096; i < bytes.size(); ++i) bytes[i] = 'z';
  {  // in place: the open descriptor sees it
    std::fstream out(file(), std::ios::binary | std::ios::in | std::ios::out);
    out << bytes;
    std::fstream log(file() + "-wal", std::ios::binary | std::ios::in | std::ios::out);
    log << std::string(contents(file() + "-wal").size(), 'z');
  }
  check(*cache, 200);  // whatever is found must be right
  const auto second = must_open(path());
  fill(*second, 3);
  EXPECT_EQ(check(*second, 3), 9);
}

}  // namespace
}  // namespace culet

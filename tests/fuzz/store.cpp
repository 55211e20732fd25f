// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// What a store's file may hold: as a whole, where the input begins like a database, else as one of
// the values in it. Checksums keep most of this from ever being read; they are no defence against
// somebody who makes them.
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>

#include "cache/database.h"
#include "cache/records.h"
#include "cache/rows.h"
#include "culet/candidate.h"
#include "fuzz.h"

namespace culet::fuzz {
namespace {

namespace fs = std::filesystem;

std::string scratch_file() {
  const fs::path folder = fs::is_directory("/dev/shm") ? "/dev/shm" : fs::temp_directory_path();
  return (folder / ("culet-fuzz-" + std::to_string(getpid()) + ".sqlite")).string();
}

/// Read as import reads a file of code, without locks and without changing it.
void read_file_of_code(std::string_view bytes) {
  static const std::string file = scratch_file();
  std::ofstream(file, std::ios::binary | std::ios::trunc) << bytes;
  if (auto opened = Database::open(file, {OpenMode::Access::immutable, false})) {
    Database& database = **opened;
    Statement code(database, kCodeColumns);
    while (code.step() == DbStatus::row) (void)read_code(code, code.text_at(7));
    Statement trials(database, kTrialColumns);
    while (trials.step() == DbStatus::row) (void)read_trial(trials);
    Statement selections(database, kSelectionColumns);
    while (selections.step() == DbStatus::row) (void)selection_holds(selections);
  }
  std::remove(file.c_str());
}

void read_value(std::string_view text) {
  std::int64_t made = 0;
  if (const auto trial = trial_from_json(text, &made)) {
    const std::string printed = trial_json(*trial, made);
    const auto again = trial_from_json(printed);
    must(again.has_value(), printed);
    must(trial_json(*again, made) == printed, "trial round trip");
  }
  if (const auto launch = LaunchSpec::from_json(text)) {
    const auto again = LaunchSpec::from_json(launch->json());
    must(again.has_value() && again->json() == launch->json(), "launch round trip");
  }
  if (const auto env = parse_environment(text)) must(env->text() == text, "environment text");
  if (const auto scope = parse_scope(text)) {
    must(parse_scope(scope->text()).has_value(), "scope text");
  }
  if (!text.empty()) {  // a size that the row claims, not that of the frame
    (void)decompress(text.substr(1), static_cast<unsigned char>(text[0]) * std::int64_t{16});
  }
}

}  // namespace
}  // namespace culet::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text = culet::fuzz::text_of(data, size);
  if (text.starts_with("SQLite format 3")) {
    culet::fuzz::read_file_of_code(text);
  } else {
    culet::fuzz::read_value(text);
  }
  return 0;
}

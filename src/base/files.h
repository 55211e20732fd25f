// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// Files as whole values, with errors that name the path.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "culet/error.h"

namespace culet {

/// The whole file. Errors (io): missing, unreadable, a folder, more than `max_bytes`.
Result<std::string> read_file(const std::string& path, std::size_t max_bytes = SIZE_MAX);

/// Replaces the file in one step: readers see the old or the new contents, also after a crash.
Result<void> write_file_atomically(const std::string& path, std::string_view contents);

/// Creates a folder and those above it, private to the user.
Result<void> make_folders(const std::string& path);

/// $XDG_CACHE_HOME/culet, else ~/.cache/culet; empty where neither is set. Not created.
std::string user_cache_dir();

/// A new, empty folder of its own below $TMPDIR or /tmp, removed with its contents by the
/// destructor.
class TemporaryFolder {
 public:
  static Result<TemporaryFolder> make();
  TemporaryFolder(TemporaryFolder&& other) noexcept;
  TemporaryFolder& operator=(TemporaryFolder&& other) noexcept;
  ~TemporaryFolder();
  const std::string& path() const { return path_; }

 private:
  explicit TemporaryFolder(std::string path) : path_(std::move(path)) {}
  std::string path_;
};

}  // namespace culet

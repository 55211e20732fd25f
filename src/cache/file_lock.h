// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// One process at a time, by a file that stays.
#pragma once

#include <string>

#include "culet/error.h"

namespace culet {

/// Held from acquire() until it is destroyed. Where the file system has no locks it is held at
/// once: as good as it gets.
class FileLock {
 public:
  /// Waits ten seconds at most; makes the file. Errors (io): it cannot be made, or somebody holds
  /// it for longer.
  static Result<FileLock> acquire(const std::string& path);
  FileLock(FileLock&& other) noexcept;
  FileLock& operator=(FileLock&&) = delete;
  ~FileLock();

 private:
  FileLock() = default;
  int fd_ = -1;
};

}  // namespace culet

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// One process at a time for each of any number of keys, by one empty file.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include "culet/cache.h"

namespace culet {

/// Each key is a byte of the file, far beyond its end, and a lock on that byte: nothing is written,
/// so nothing grows, and the system releases the lock when its process ends, however it does.
class KeyLock final : public CodeLock {
 public:
  /// Waits for as long as somebody else, of this or another process, has the key; makes the file.
  /// Null where the file cannot be made or locked, when `cancelled` says so, and past `patience`.
  static std::unique_ptr<CodeLock> acquire(const std::string& path, const std::string& key,
                                           const std::function<bool()>& cancelled,
                                           std::chrono::milliseconds patience);
  KeyLock(const KeyLock&) = delete;
  KeyLock& operator=(const KeyLock&) = delete;
  ~KeyLock() override;

 private:
  KeyLock(int fd, long long place) : fd_(fd), place_(place) {}
  int fd_;
  long long place_;
};

}  // namespace culet

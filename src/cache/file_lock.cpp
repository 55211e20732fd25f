// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// flock() with a time limit, see file_lock.h.
#include "cache/file_lock.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <thread>
#include <utility>

namespace culet {
namespace {

/// What is done under these locks takes milliseconds; one held longer belongs to a stopped process.
constexpr std::chrono::seconds kPatience{10};

}  // namespace

Result<FileLock> FileLock::acquire(const std::string& path) {
  FileLock lock;
  lock.fd_ = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (lock.fd_ < 0) {
    return fail(ErrorCode::io, fmt::format("cache: cannot open {}: {}", path, strerror(errno)));
  }
  const auto give_up = std::chrono::steady_clock::now() + kPatience;
  while (::flock(lock.fd_, LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK && errno != EINTR) break;  // no locks here
    if (std::chrono::steady_clock::now() > give_up) {
      return fail(ErrorCode::io, fmt::format("cache: {} is held by another process for over {} s",
                                             path, kPatience.count()));
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  return lock;
}

FileLock::FileLock(FileLock&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}

FileLock::~FileLock() {
  if (fd_ >= 0) ::close(fd_);
}

}  // namespace culet

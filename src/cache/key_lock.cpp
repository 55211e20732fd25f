// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// Open file description locks of Linux, see key_lock.h. Unlike POSIX's they belong to one open()
// and not to the process, so that two threads that lock the same key do exclude each other.
#include "cache/key_lock.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <thread>

#include "base/hash.h"

namespace culet {
namespace {

/// Between two questions whether the key is free: short beside any compiler's run.
constexpr std::chrono::milliseconds kPause{5};

struct flock byte_at(long long place, short type) {
  struct flock lock {};
  lock.l_type = type;
  lock.l_whence = SEEK_SET;
  lock.l_start = place;
  lock.l_len = 1;
  return lock;
}

}  // namespace

std::unique_ptr<CodeLock> KeyLock::acquire(const std::string& path, const std::string& key,
                                           const std::function<bool()>& cancelled,
                                           std::chrono::milliseconds patience) {
  const int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (fd < 0) return nullptr;
  // Two keys on one byte, should it ever happen, only wait for each other.
  const auto place = static_cast<long long>(hash64(key) >> 2);
  const auto give_up = std::chrono::steady_clock::now() + patience;
  struct flock lock = byte_at(place, F_WRLCK);
  while (::fcntl(fd, F_OFD_SETLK, &lock) != 0) {
    const bool busy = errno == EAGAIN || errno == EACCES || errno == EINTR;
    if (!busy || cancelled() || std::chrono::steady_clock::now() >= give_up) {
      ::close(fd);
      return nullptr;
    }
    std::this_thread::sleep_for(kPause);
  }
  return std::unique_ptr<CodeLock>(new KeyLock(fd, place));
}

KeyLock::~KeyLock() {
  // Closing would do, but for a child of fork() that has the descriptor, too.
  struct flock lock = byte_at(place_, F_UNLCK);
  (void)::fcntl(fd_, F_OFD_SETLK, &lock);
  ::close(fd_);
}

}  // namespace culet

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// One measuring tuner per device: an advisory lock on a file named after the device. The kernel
// releases it when its holder ends, however it ends.
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <utility>

#include "base/hash.h"
#include "benchmark/trial_runner.h"

namespace culet {
namespace {

/// The runtime folder of the user, else /tmp. Two users share a device, too, but neither can see
/// the other's folder: /tmp then holds the file for both only if neither has a runtime folder.
std::string lock_path(const DeviceSpec& device) {
  const char* runtime = std::getenv("XDG_RUNTIME_DIR");
  const std::string folder =
      runtime != nullptr && *runtime == '/' && access(runtime, W_OK) == 0 ? runtime : "/tmp";
  // The ordinal tells two GPUs of one kind apart.
  return fmt::format("{}/culet-{:016x}-{}.lock", folder, hash64(device.identity()), device.ordinal);
}

}  // namespace

Result<DeviceLock> DeviceLock::acquire(const DeviceSpec& device, const std::atomic<bool>* stop) {
  const std::string path = lock_path(device);
  int fd = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666);
  // Kernels refuse O_CREAT for another user's file in a sticky folder, but that file can be locked.
  if (fd < 0 && errno == EACCES) fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
  if (fd < 0) {
    return fail(ErrorCode::io,
                fmt::format("cannot open the device lock {}: {}", path, std::strerror(errno)));
  }
  (void)fchmod(fd, 0666);  // whatever the umask; fails harmlessly for a file of another user
  // Asked for again and again rather than waited for, so that `stop` is noticed.
  while (flock(fd, LOCK_EX | LOCK_NB) != 0) {
    const int error = errno;
    if (error != EWOULDBLOCK && error != EINTR) {
      close(fd);
      return fail(ErrorCode::io, fmt::format("cannot lock {}: {}", path, std::strerror(error)));
    }
    if (stop != nullptr && stop->load()) {
      close(fd);
      return fail(ErrorCode::interrupted,
                  "stopped while another process was measuring on the device");
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  return DeviceLock(fd);
}

DeviceLock::DeviceLock(DeviceLock&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}

DeviceLock& DeviceLock::operator=(DeviceLock&& other) noexcept {
  std::swap(fd_, other.fd_);
  return *this;
}

DeviceLock::~DeviceLock() {
  if (fd_ >= 0) close(fd_);
}

}  // namespace culet

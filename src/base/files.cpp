// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// Plain POSIX calls: std::filesystem reports no errno texts, and fsync needs a descriptor.
#include "base/files.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <system_error>

namespace culet {
namespace {

tl::unexpected<Error> trouble(std::string_view what, const std::string& path, int code) {
  return fail(ErrorCode::io, fmt::format("cannot {} '{}': {}", what, path,
                                         std::error_code(code, std::generic_category()).message()));
}

Result<void> write_all(int fd, std::string_view contents, const std::string& path) {
  while (!contents.empty()) {
    const ssize_t count = ::write(fd, contents.data(), contents.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return trouble("write", path, errno);
    contents.remove_prefix(static_cast<std::size_t>(count));
  }
  if (::fsync(fd) != 0) return trouble("write", path, errno);
  return {};
}

// Makes the new name itself durable. Some file systems refuse; the contents are safe anyway.
void sync_folder_of(const std::string& path) {
  std::string folder = std::filesystem::path(path).parent_path().string();
  if (folder.empty()) folder = ".";
  const int fd = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return;
  ::fsync(fd);
  ::close(fd);
}

}  // namespace

Result<std::string> read_file(const std::string& path, std::size_t max_bytes) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return trouble("read", path, errno);
  std::string contents;
  char buffer[1 << 16];
  for (;;) {
    const ssize_t count = ::read(fd, buffer, sizeof buffer);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) {
      const int code = errno;
      ::close(fd);
      return trouble("read", path, code);
    }
    if (count == 0) break;
    contents.append(buffer, static_cast<std::size_t>(count));
    if (contents.size() > max_bytes) {
      ::close(fd);
      return fail(ErrorCode::io,
                  fmt::format("cannot read '{}': more than {} bytes", path, max_bytes));
    }
  }
  ::close(fd);
  return contents;
}

Result<void> write_file_atomically(const std::string& path, std::string_view contents) {
  // A name of its own beside the target: rename works within one file system only, and two
  // writers of the same file must not share a temporary.
  static std::atomic<unsigned> counter{0};
  const std::string temporary = fmt::format("{}.{}.{}.tmp", path, ::getpid(), counter++);
  ::unlink(temporary.c_str());  // left by a process of the same number that died
  const int fd = ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (fd < 0) return trouble("write", path, errno);
  Result<void> written = write_all(fd, contents, path);
  ::close(fd);
  if (written && ::rename(temporary.c_str(), path.c_str()) != 0) {
    written = trouble("write", path, errno);
  }
  if (!written) {
    ::unlink(temporary.c_str());
    return written;
  }
  sync_folder_of(path);
  return {};
}

Result<void> make_folders(const std::string& path) {
  for (std::size_t i = 1; i <= path.size(); ++i) {
    if (i != path.size() && path[i] != '/') continue;
    const std::string part = path.substr(0, i);
    if (::mkdir(part.c_str(), 0700) == 0) continue;
    const int code = errno;
    struct stat info {};
    // Some file systems answer EROFS or EACCES for a folder that is there already.
    const bool there = ::stat(part.c_str(), &info) == 0;
    if (!there) return trouble("create folder", part, code);
    if (!S_ISDIR(info.st_mode)) return trouble("create folder", part, ENOTDIR);
  }
  return {};
}

std::string user_cache_dir() {
  // The XDG rule: a relative path there is to be ignored.
  const char* xdg = std::getenv("XDG_CACHE_HOME");
  if (xdg != nullptr && xdg[0] == '/') return std::string(xdg) + "/culet";
  const char* home = std::getenv("HOME");
  if (home != nullptr && home[0] != '\0') return std::string(home) + "/.cache/culet";
  return {};
}

Result<TemporaryFolder> TemporaryFolder::make() {
  const char* base = std::getenv("TMPDIR");
  std::string path =
      std::string(base != nullptr && base[0] != '\0' ? base : "/tmp") + "/culet.XXXXXX";
  if (::mkdtemp(path.data()) == nullptr) return trouble("create folder", path, errno);
  return TemporaryFolder(std::move(path));
}

TemporaryFolder::TemporaryFolder(TemporaryFolder&& other) noexcept
    : path_(std::exchange(other.path_, {})) {}

TemporaryFolder& TemporaryFolder::operator=(TemporaryFolder&& other) noexcept {
  std::swap(path_, other.path_);
  return *this;
}

TemporaryFolder::~TemporaryFolder() {
  if (path_.empty()) return;
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

}  // namespace culet

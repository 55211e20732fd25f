// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// dlopen wants a path: an anonymous file in memory where the system allows code to be mapped from
// one, else a temporary file that is removed at once.
#include "launch/shared_object.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>

#include "base/hash.h"

namespace culet {

namespace {

bool write_all(int file, const std::string& bytes) {
  std::size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t wrote = write(file, bytes.data() + done, bytes.size() - done);
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote <= 0) return false;
    done += static_cast<std::size_t>(wrote);
  }
  return true;
}

std::string loader_error() {
  const char* text = dlerror();
  return text == nullptr ? "unknown error" : text;
}

std::string path_of(int file) { return fmt::format("/proc/self/fd/{}", file); }

std::string temporary_folder() {
  const char* chosen = std::getenv("TMPDIR");
  return chosen != nullptr && *chosen != '\0' ? chosen : "/tmp";
}

}  // namespace

Result<void> SharedObject::open(const std::string& bytes) {
  // The descriptor stays open as long as the code is loaded: the loader knows libraries by their
  // path, and a descriptor's number used again would give it the old library.
  file_ = memfd_create("culet-kernel", MFD_CLOEXEC);
  if (file_ >= 0 && write_all(file_, bytes)) {
    handle_ = dlopen(path_of(file_).c_str(), RTLD_NOW | RTLD_LOCAL);
    if (handle_ != nullptr) return {};
  }
  const std::string in_memory = file_ < 0 ? std::strerror(errno) : loader_error();
  std::string path = temporary_folder() + "/culet-kernel-XXXXXX";
  const int file = mkstemp(path.data());
  if (file < 0) {
    return fail(ErrorCode::build_failed,
                fmt::format("cannot load a kernel from memory ({}) or from {} ({})", in_memory,
                            temporary_folder(), std::strerror(errno)));
  }
  const bool written = write_all(file, bytes);
  close(file);
  if (written) handle_ = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  const std::string problem = written ? loader_error() : "the disk is full";
  unlink(path.c_str());
  if (handle_ != nullptr) return {};
  return fail(ErrorCode::build_failed, fmt::format("a kernel does not load: {}", problem));
}

Result<std::shared_ptr<SharedObject>> SharedObject::load(const std::string& bytes) {
  static std::mutex mutex;
  static auto* loaded = new std::map<std::uint64_t, std::weak_ptr<SharedObject>>;
  const std::lock_guard lock(mutex);
  std::weak_ptr<SharedObject>& place = (*loaded)[hash64(bytes)];
  if (auto object = place.lock(); object != nullptr && object->bytes_ == bytes) return object;
  std::shared_ptr<SharedObject> object(new SharedObject);
  if (auto opened = object->open(bytes); !opened) return tl::unexpected(opened.error());
  object->bytes_ = bytes;
  place = object;
  return object;
}

SharedObject::~SharedObject() {
  if (handle_ != nullptr) dlclose(handle_);
  if (file_ < 0) return;
  // Some libraries cannot be unloaded: with g++, those that have a static variable in an inline
  // function. Such a one keeps its descriptor, and with it its path, to the end.
  void* still_loaded = dlopen(path_of(file_).c_str(), RTLD_NOW | RTLD_NOLOAD);
  if (still_loaded != nullptr) {
    dlclose(still_loaded);
    return;
  }
  close(file_);
}

void* SharedObject::symbol(const std::string& name) const { return dlsym(handle_, name.c_str()); }

}  // namespace culet

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// Where the program that serves as worker is. The command-line program serves itself; a user's
// program may (culet/worker.h), and otherwise borrows the installed `culet`.
#include <dlfcn.h>
#include <fmt/format.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>

#include "base/env.h"
#include "base/subprocess.h"
#include "benchmark/worker_process.h"

namespace culet::benchmark {
namespace {

namespace fs = std::filesystem;

std::atomic<bool> serves{false};

WorkerProgram program_at(const std::string& path) { return {path, {path, kWorkerVerb}}; }

/// The program, or the shared library, that this code is in.
fs::path own_file() {
  Dl_info info{};
  std::error_code ignored;
  if (dladdr(reinterpret_cast<const void*>(&this_program_serves), &info) != 0 &&
      info.dli_fname != nullptr && info.dli_fname[0] == '/') {
    return fs::canonical(info.dli_fname, ignored);
  }
  return fs::read_symlink("/proc/self/exe", ignored);
}

}  // namespace

void this_program_serves() { serves = true; }

Result<WorkerProgram> find_worker_program() {
  if (const auto named = env("CULET_WORKER")) {
    const std::string path = find_program(*named);
    if (path.empty()) {
      return fail(ErrorCode::io, fmt::format("CULET_WORKER: there is no program '{}'", *named));
    }
    return program_at(path);
  }
  // By this name it is the file that runs, also where another has taken its place meanwhile.
  if (serves) return WorkerProgram{"/proc/self/exe", {"culet", kWorkerVerb}};
  std::error_code ignored;
  const fs::path program = fs::read_symlink("/proc/self/exe", ignored).parent_path();
  const fs::path library = own_file().parent_path();
  for (const fs::path& place : {program / "culet", library / ".." / "bin" / "culet"}) {
    const std::string path = find_program(place.lexically_normal().string());
    if (!path.empty()) return program_at(path);
  }
  const std::string path = find_program("culet");
  if (!path.empty()) return program_at(path);
  return fail(ErrorCode::io,
              "no program `culet` beside this one, beside the library or in PATH, and CULET_WORKER "
              "names none");
}

}  // namespace culet::benchmark

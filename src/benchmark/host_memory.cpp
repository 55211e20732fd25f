// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// Host memory straight from the system, so that nothing else shares its pages.
#include "benchmark/host_memory.h"

#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <fstream>
#include <limits>
#include <string>

namespace culet::benchmark {

Result<HostBlock> HostBlock::allocate(std::int64_t bytes) {
  HostBlock block;
  const auto size = static_cast<std::size_t>(bytes > 0 ? bytes : 1);
  void* memory = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) {
    return fail(ErrorCode::unsupported, fmt::format("cannot allocate {:.1f} MB of memory",
                                                    static_cast<double>(bytes) / 1e6));
  }
  block.data_ = static_cast<char*>(memory);
  block.bytes_ = static_cast<std::int64_t>(size);
  return block;
}

HostBlock::~HostBlock() {
  if (data_ != nullptr) munmap(data_, static_cast<std::size_t>(bytes_));
}

double available_memory() {
  std::ifstream file("/proc/meminfo");
  std::string key;
  double kilobytes = 0;
  while (file >> key >> kilobytes) {
    if (key == "MemAvailable:") return kilobytes * 1024;
    file.ignore(std::numeric_limits<std::streamsize>::max(), '\n');
  }
  return static_cast<double>(sysconf(_SC_AVPHYS_PAGES)) *
         static_cast<double>(sysconf(_SC_PAGESIZE));
}

}  // namespace culet::benchmark

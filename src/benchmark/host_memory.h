// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// Page-aligned memory on the host for operands, and how much of it there is.
#pragma once

#include <cstdint>
#include <utility>

#include "culet/error.h"

namespace culet::benchmark {

class HostBlock {
 public:
  HostBlock() = default;
  static Result<HostBlock> allocate(std::int64_t bytes);
  HostBlock(HostBlock&& other) noexcept { swap(other); }
  HostBlock& operator=(HostBlock&& other) noexcept {
    swap(other);
    return *this;
  }
  ~HostBlock();

  char* data() const { return data_; }
  std::int64_t bytes() const { return bytes_; }

 private:
  void swap(HostBlock& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
  }
  char* data_ = nullptr;
  std::int64_t bytes_ = 0;
};

/// Memory that could be allocated without swapping, in bytes.
double available_memory();

}  // namespace culet::benchmark

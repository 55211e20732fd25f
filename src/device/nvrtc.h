// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// NVRTC, CUDA's run-time compiler, loaded when first asked for. It needs no GPU and no driver.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "culet/error.h"

namespace culet {

class Nvrtc {
 public:
  struct Output {
    std::string cubin;
    std::string log;  ///< compiler's and ptxas' messages
  };

  virtual ~Nvrtc() = default;
  virtual int major() const = 0;
  virtual int minor() const = 0;
  /// "nvrtc 13.0"
  virtual std::string version() const = 0;
  virtual const std::string& path() const = 0;
  /// Whether it knows an architecture ("sm_90a"); the error names what it knows.
  virtual Result<void> knows(std::string_view architecture) const = 0;
  /// Compiles one self-contained source to machine code for the architecture. Thread-safe. Error:
  /// build_failed, the log in `detail`.
  virtual Result<Output> compile(const std::string& source, const std::string& name,
                                 std::string_view architecture,
                                 const std::vector<std::string>& options) const = 0;
};

/// The library, valid for the life of the process. Errors (ErrorCode::device): not found, or older
/// than 12.0, the first that can compile for Hopper's sm_90a.
Result<const Nvrtc*> nvrtc();

}  // namespace culet

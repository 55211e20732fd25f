// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// Shared libraries that are opened at run time, because culet is one binary for machines with and
// without them. A library that is missing is an ordinary answer, in one line, that says what was
// looked for.
#pragma once

#include <string>
#include <vector>

#include "culet/error.h"

namespace culet {

/// An open shared library. It stays open for the life of the process: its code may hold threads and
/// exit handlers.
class Library {
 public:
  Library() = default;

  /// Opens the first of `sonames` found: by the loader's own search, then in each of `folders`.
  /// `what` names it in the error, e.g. "no NVRTC (libnvrtc.so.13 or libnvrtc.so.12 not found)".
  static Result<Library> open(const std::string& what, const std::vector<std::string>& sonames,
                              const std::vector<std::string>& folders);

  /// A symbol's address, or null.
  void* symbol(const char* name) const;
  bool is_open() const { return handle_ != nullptr; }
  /// Where it was found, as the loader names it.
  const std::string& path() const { return path_; }

  /// Sets `*function` to the symbol's address; returns false, and leaves null, where it is missing.
  template <typename F>
  bool bind(F*& function, const char* name) const {
    function = reinterpret_cast<F*>(symbol(name));
    return function != nullptr;
  }

 private:
  void* handle_ = nullptr;
  std::string path_;
};

/// Folders in which CUDA's libraries are looked for after the loader's own search:
/// $CULET_CUDA_PATH (and lib64, lib, targets/x86_64-linux/lib in it), $CUDA_HOME and $CUDA_PATH,
/// /usr/local/cuda*, and the pip wheels' `site-packages/nvidia/*/lib` under $VIRTUAL_ENV,
/// $CONDA_PREFIX, $PYTHONPATH and the usual prefixes. Only existing folders, without repetition.
std::vector<std::string> cuda_library_folders();

}  // namespace culet

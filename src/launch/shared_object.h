// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// Machine code for the CPU, from memory into the process. Candidates compiled together share one
// file, which is loaded once.
#pragma once

#include <memory>
#include <string>

#include "culet/error.h"

namespace culet {

class SharedObject {
 public:
  /// Loads the bytes of a shared library; the same bytes, while loaded, give the same object.
  static Result<std::shared_ptr<SharedObject>> load(const std::string& bytes);
  ~SharedObject();
  SharedObject(const SharedObject&) = delete;
  SharedObject& operator=(const SharedObject&) = delete;

  /// A symbol's address, or null.
  void* symbol(const std::string& name) const;

 private:
  SharedObject() = default;
  Result<void> open(const std::string& bytes);

  void* handle_ = nullptr;
  int file_ = -1;
  std::string bytes_;  ///< what was loaded, to find it by
};

}  // namespace culet

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// The generated half of a CUDA translation unit: the constants of a configuration as a named
// struct, and the epilogue as a struct that device code calls (src/kernels/operands.cuh says what
// it must look like).
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "culet/candidate.h"
#include "culet/epilogue.h"

namespace culet {

/// Constants of a generated `struct Config`, written one a line in this order.
class ConfigStruct {
 public:
  ConfigStruct& add(std::string_view name, DType value);
  ConfigStruct& add(std::string_view name, std::int64_t value);
  ConfigStruct& add(std::string_view name, bool value);
  std::string text() const;

 private:
  std::string lines_;
};

/// A whole translation unit: the kernel file with its includes, the two structs, and the entry
/// point's text.
std::string cuda_translation_unit(std::string_view kernel_file, const ConfigStruct& config,
                                  const Epilogue& epilogue, std::string_view entry_text);

}  // namespace culet

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// Text of CUDA translation units: what is generated around the kernel files.
#include "codegen/cuda_source.h"

#include <fmt/format.h>

#include "codegen/codegen.h"
#include "codegen/cuda_epilogue.h"

namespace culet {

ConfigStruct& ConfigStruct::add(std::string_view name, DType value) {
  lines_ +=
      fmt::format("  static constexpr DType {} = DType::{};\n", name, device_dtype_name(value));
  return *this;
}
ConfigStruct& ConfigStruct::add(std::string_view name, std::int64_t value) {
  lines_ += fmt::format("  static constexpr int {} = {};\n", name, value);
  return *this;
}
ConfigStruct& ConfigStruct::add(std::string_view name, bool value) {
  lines_ += fmt::format("  static constexpr bool {} = {};\n", name, value);
  return *this;
}
std::string ConfigStruct::text() const { return fmt::format("struct Config {{\n{}}};\n", lines_); }

std::string cuda_translation_unit(std::string_view kernel_file, const ConfigStruct& config,
                                  const Epilogue& epilogue, std::string_view entry_text) {
  return fmt::format("{}\nusing namespace culet::kernels;\n\n{}\n// {}\n{}\n{}",
                     cuda_kernel_text(kernel_file, epilogue), config.text(), epilogue.text(),
                     cuda_epilogue_struct(epilogue), entry_text);
}

}  // namespace culet

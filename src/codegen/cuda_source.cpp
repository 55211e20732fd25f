// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// Text of CUDA translation units: what is generated around the kernel files.
#include "codegen/cuda_source.h"

#include <fmt/format.h>

#include "codegen/codegen.h"

namespace culet {
namespace {

std::string_view index_name(EpilogueIndex index) {
  switch (index) {
    case EpilogueIndex::scalar:
      return "scalar";
    case EpilogueIndex::row:
      return "row";
    case EpilogueIndex::column:
      return "column";
    case EpilogueIndex::full:
      return "full";
  }
  return "scalar";
}

}  // namespace

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

std::string cuda_epilogue(const Epilogue& epilogue) {
  std::string list;
  std::vector<std::string> values;
  for (const EpilogueOperand& operand : epilogue.operands()) {
    list += fmt::format("{}Operand<Index::{}, DType::{}>", list.empty() ? "" : ", ",
                        index_name(operand.index), device_dtype_name(operand.dtype));
    values.push_back(fmt::format("x[{}]", values.size()));
  }
  return fmt::format(
      "// {}\nstruct Epilogue {{\n  using Operands = OperandList<{}>;\n  static constexpr bool "
      "identity = {};\n"
      "  template <class T>\n  static CULET_DEVICE T apply(T acc, [[maybe_unused]] const T* x) "
      "{{\n{}  }}\n}};\n",
      epilogue.text(), list, epilogue.is_identity(), epilogue_statements(epilogue, values, "T"));
}

std::string cuda_translation_unit(std::string_view kernel_file, const ConfigStruct& config,
                                  const Epilogue& epilogue, std::string_view entry_text) {
  return fmt::format("{}{}\nusing namespace culet::kernels;\n\n{}\n{}\n{}",
                     flatten("epilogue_math.h"), flatten(kernel_file), config.text(),
                     cuda_epilogue(epilogue), entry_text);
}

std::string operand_parameters(const Epilogue& epilogue) {
  std::string text;
  for (std::size_t i = 0; i < epilogue.operands().size(); ++i)
    text += fmt::format(", const void* x{}", i);
  return text;
}

std::string operand_initializer(const Epilogue& epilogue) {
  std::string text;
  for (std::size_t i = 0; i < epilogue.operands().size(); ++i)
    text += fmt::format("{}x{}", i == 0 ? "" : ", ", i);
  return fmt::format("{{{}}}", text.empty() ? "nullptr" : text);
}

void add_operand_arguments(const Epilogue& epilogue, std::vector<LaunchArg>* args) {
  for (std::size_t i = 0; i < epilogue.operands().size(); ++i) {
    args->push_back(LaunchArg::pointer(Operand::extra, static_cast<int>(i)));
  }
}

}  // namespace culet

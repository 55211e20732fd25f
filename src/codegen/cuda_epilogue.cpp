// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// Epilogues as CUDA source: see the header.
#include "codegen/cuda_epilogue.h"

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

/// Of D with rows and columns exchanged.
EpilogueIndex turned_index(EpilogueIndex index) {
  if (index == EpilogueIndex::row) return EpilogueIndex::column;
  if (index == EpilogueIndex::column) return EpilogueIndex::row;
  return index;
}

}  // namespace

std::string cuda_epilogue_struct(const Epilogue& epilogue, bool turned) {
  const auto& operands = epilogue.operands();
  std::string types;
  std::vector<std::string> values;
  for (std::size_t i = 0; i < operands.size(); ++i) {
    types += fmt::format("{}Operand<Index::{}, DType::{}>", i == 0 ? "" : ", ",
                         index_name(turned ? turned_index(operands[i].index) : operands[i].index),
                         device_dtype_name(operands[i].dtype));
    values.push_back(fmt::format("x[{}]", i));
  }
  return fmt::format(
      "struct Epilogue {{\n"
      "  using Operands = OperandList<{}>;\n"
      "  static constexpr bool identity = {};\n"
      "  template <class T>\n"
      "  static CULET_DEVICE T apply(T acc, const T* x) {{\n"
      "    {}\n"
      "  }}\n"
      "}};\n",
      types, epilogue.is_identity(),
      epilogue.is_identity() ? "return acc;" : epilogue_statements(epilogue, values, "T"));
}

std::string cuda_epilogue_parameters(const Epilogue& epilogue) {
  std::string text;
  for (std::size_t i = 0; i < epilogue.operands().size(); ++i) {
    text += fmt::format(", const void* extra{}", i);
  }
  return text;
}

std::string cuda_epilogue_pointers(const Epilogue& epilogue) {
  std::string text;
  for (std::size_t i = 0; i < epilogue.operands().size(); ++i) {
    text += fmt::format("{}extra{}", i == 0 ? "" : ", ", i);
  }
  return text.empty() ? "{{nullptr}}" : "{{" + text + "}}";
}

void add_epilogue_arguments(const Epilogue& epilogue, LaunchSpec* spec) {
  for (std::size_t i = 0; i < epilogue.operands().size(); ++i) {
    spec->args.push_back(LaunchArg::pointer(Operand::extra, static_cast<int>(i)));
  }
}

std::string cuda_kernel_text(std::string_view kernel_file, const Epilogue& epilogue) {
  std::string text = flatten(kernel_file);
  if (!epilogue.is_identity()) text += flatten("epilogue_math.h");
  return text;
}

}  // namespace culet

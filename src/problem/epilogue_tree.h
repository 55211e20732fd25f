// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// The immutable tree behind Epilogue, and the pieces its parser and printer share.
#pragma once

#include <string_view>
#include <vector>

#include "culet/epilogue.h"

namespace culet {

struct Epilogue::Tree {
  std::vector<EpilogueNode> nodes;  ///< children first; equal subexpressions are one node
  std::vector<EpilogueOperand> operands;
};

/// Functions of the expression language with their number of arguments.
struct EpilogueFunction {
  std::string_view name;
  int arguments;
};
inline constexpr EpilogueFunction kEpilogueFunctions[] = {
    {"relu", 1}, {"gelu", 1}, {"gelu_tanh", 1}, {"silu", 1}, {"sigmoid", 1}, {"tanh", 1},
    {"exp", 1},  {"abs", 1},  {"sqrt", 1},      {"rcp", 1},  {"max", 2},     {"min", 2},
};
const EpilogueFunction* find_epilogue_function(std::string_view name);

/// Value of one operation in double precision.
double apply_unary(std::string_view op, double x);
double apply_binary(std::string_view op, double x, double y);

}  // namespace culet

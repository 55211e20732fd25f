// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// Turns kernel templates and epilogues into source text. Pure functions of data; nothing is
// compiled here.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "culet/backend.h"
#include "culet/epilogue.h"

namespace culet {

/// Text of a file under src/kernels, embedded at build time; empty if there is none of that name
/// ("sm90_dense.cuh", "cpu/tile.h").
std::string_view embedded_kernel(std::string_view name);
std::vector<std::string> embedded_kernel_names();

/// The file with every `#include "other"` of an embedded file replaced, once each, by its text.
/// `#pragma once` lines go.
std::string flatten(std::string_view name);
/// The same for a text that is no embedded file: a user's kernel that includes "layout.cuh", say.
std::string flatten_text(std::string_view text);

/// The epilogue as statements in the common subset of C++ and CUDA C++: from `float acc`, with
/// `operand_names[i]` (an expression of type float for the element's operand i), ending in `return
/// ...;`. Uses only the functions culet_relu, culet_gelu, culet_gelu_tanh, culet_silu,
/// culet_sigmoid, culet_tanh, culet_exp, culet_abs, culet_sqrt, culet_max, culet_min of
/// src/kernels/epilogue_math.h, which both kinds of kernels include.
/// `type` is the type it computes in: "float", or "double" or the name of a template parameter.
std::string epilogue_statements(const Epilogue& epilogue,
                                const std::vector<std::string>& operand_expressions,
                                std::string_view type = "float");

/// A name for the dtype in generated code: "bf16", "f32" ...; an enumerator of `enum class DType`
/// of kernels.
std::string_view device_dtype_name(DType dtype);

}  // namespace culet

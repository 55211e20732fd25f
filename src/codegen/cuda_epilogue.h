// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// An epilogue as CUDA kernels take it: the struct that src/kernels/operands.cuh describes, and its
// operands as parameters of a kernel's entry point. Shared by all kernel families.
#pragma once

#include <string>
#include <string_view>

#include "culet/candidate.h"
#include "culet/epilogue.h"

namespace culet {

/// `struct Epilogue { ... };`, for use inside namespace culet::kernels. `turned`: for a kernel that
/// takes D's columns for rows, so that what is indexed by n is called indexed by row.
std::string cuda_epilogue_struct(const Epilogue& epilogue, bool turned = false);

/// `, const void* extra0, const void* extra1`: parameters of the entry point for the operands.
std::string cuda_epilogue_parameters(const Epilogue& epilogue);

/// `{{extra0, extra1}}`: an initialiser of OperandPointers from those parameters.
std::string cuda_epilogue_pointers(const Epilogue& epilogue);

/// The launch arguments that go with those parameters.
void add_epilogue_arguments(const Epilogue& epilogue, LaunchSpec* spec);

/// The kernel file and, where the epilogue computes anything, the functions it may call.
std::string cuda_kernel_text(std::string_view kernel_file, const Epilogue& epilogue);

}  // namespace culet

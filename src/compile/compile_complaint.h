// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// What makes a CUDA kernel slow without making it wrong, read from ptxas' log.
#pragma once

#include <string>
#include <string_view>

namespace culet {

/// The first complaint in a ptxas log: a spill or stack frame, or a warning that WGMMA is
/// serialised or registers are moved (C7508 to C7511). Empty if there is none.
std::string compile_complaint(std::string_view log);

}  // namespace culet

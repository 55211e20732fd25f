// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// Kernels compiled into culet, by name. The backends that have some register them; loading looks
// them up.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "culet/host_kernel.h"

namespace culet {

struct HostBuiltin {
  std::string name;
  CuletHostKernel kernel = nullptr;
  CuletHostPack pack = nullptr;  ///< of kernels that read a packed B; found by the same name
};

/// Adds kernels; a name already known keeps its first meaning. Thread-safe.
void register_host_builtins(std::vector<HostBuiltin> builtins);

/// The kernel of an Artifact::entry, or null.
CuletHostKernel find_host_builtin(std::string_view entry);
/// The packing routine of a LaunchSpec::pack_entry, or null.
CuletHostPack find_host_builtin_pack(std::string_view entry);

}  // namespace culet

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// Library calls beside the vendors': culet's own code for the CPU that takes the problem as data
// rather than as generated source.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "launch/loaded_step.h"

namespace culet {

Result<std::unique_ptr<LoadedStep>> load_reference_step(const Problem&, const BuiltStep&,
                                                        const DeviceSpec&);
Result<std::unique_ptr<LoadedStep>> load_cpu_pointwise_step(const Problem&, const BuiltStep&,
                                                            const DeviceSpec&);

/// What a library call's artifact says beside its configuration, one `key=value` a line: the
/// library's version it was chosen for, checked again before use.
std::string library_attributes(std::string_view version);
/// An error where the attributes are of another version of the library than the one here.
Result<void> check_library_attributes(std::string_view attributes, std::string_view name,
                                      std::string_view version);

}  // namespace culet

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// Which sources this library was built from. Two builds of one version may differ in what they send
// each other, so a worker has to be of the same build.
#pragma once

#include <string_view>

namespace culet {

/// A hash of all sources, made when building (cmake/build_id.cmake): 16 hexadecimal digits.
std::string_view build_id();

}  // namespace culet

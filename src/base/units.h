// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// Quantities as people read them: three significant digits and a unit that fits.
#pragma once

#include <string>

namespace culet {

std::string format_seconds(double seconds);  ///< "12.3 us", "1.05 s"
std::string format_bytes(double bytes);      ///< "1.50 GiB", "64 B"
std::string format_ratio(double ratio);      ///< "1.08x"

}  // namespace culet

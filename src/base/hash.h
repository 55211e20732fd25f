// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// Stable hashes: the same bytes give the same value on every machine and in every version, because
// they are stored in caches.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace culet {

/// XXH3, 64 bits.
std::uint64_t hash64(std::string_view bytes);

/// XXH3, 128 bits, as 32 lower-case hexadecimal digits: the key of stored content.
std::string hash128_hex(std::string_view bytes);

}  // namespace culet

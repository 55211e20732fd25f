// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// How work is divided: a range in pieces of whole granules, and flat lists of items over threads.
#pragma once

#include <algorithm>
#include <cstdint>

namespace culet {

struct Range {
  std::int64_t begin = 0, end = 0;
  bool empty() const { return begin >= end; }
};

/// Piece `index` of `count` of [0, size), cut at multiples of `granularity`; pieces differ by at
/// most one granule and may be empty.
inline Range piece_of(std::int64_t size, std::int64_t granularity, std::int64_t count,
                      std::int64_t index) {
  const std::int64_t granules = (size + granularity - 1) / granularity;
  const std::int64_t begin = granules * index / count * granularity;
  const std::int64_t end = granules * (index + 1) / count * granularity;
  return {std::min(begin, size), std::min(end, size)};
}

/// Below about this many operations waking a thread takes longer than it saves.
inline constexpr double kInlineOperations = 2e5;

inline bool is_tiny(std::int64_t m, std::int64_t n, std::int64_t k, std::int64_t batch) {
  return 2.0 * static_cast<double>(m) * static_cast<double>(n) *
             static_cast<double>(std::max<std::int64_t>(k, 1)) * static_cast<double>(batch) <
         kInlineOperations;
}

/// The address of an element; null stays null (an operand that is not there, or has no elements).
inline const void* at_element(const void* base, std::int64_t bits_of_element, std::int64_t index) {
  if (base == nullptr) return nullptr;
  return static_cast<const unsigned char*>(base) + index * bits_of_element / 8;
}
inline void* at_element(void* base, std::int64_t bits_of_element, std::int64_t index) {
  return const_cast<void*>(at_element(static_cast<const void*>(base), bits_of_element, index));
}

}  // namespace culet

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// The table of element types.
#include "culet/dtype.h"

#include <fmt/format.h>

#include <array>

#include "base/text.h"

namespace culet {
namespace {

struct Row {
  std::string_view name;
  int bits;
  int significand;  ///< including the hidden bit; 0 for integers
  bool integer;
};

// In the order of enum DType.
constexpr std::array<Row, 12> kTable = {{
    {"f64", 64, 53, false},
    {"f32", 32, 24, false},
    {"tf32", 32, 11, false},
    {"f16", 16, 11, false},
    {"bf16", 16, 8, false},
    {"e4m3", 8, 4, false},
    {"e5m2", 8, 3, false},
    {"s8", 8, 0, true},
    {"u8", 8, 0, true},
    {"s32", 32, 0, true},
    {"e2m1", 4, 2, false},
    {"e8m0", 8, 1, false},
}};

const Row& row(DType dtype) { return kTable[static_cast<std::size_t>(dtype)]; }

}  // namespace

std::string_view to_string(DType dtype) { return row(dtype).name; }

Result<DType> parse_dtype(std::string_view text) {
  std::string known;
  for (std::size_t i = 0; i < kTable.size(); ++i) {
    if (kTable[i].name == text) return static_cast<DType>(i);
    known += known.empty() ? "" : " ";
    known += kTable[i].name;
  }
  return fail(ErrorCode::invalid_argument,
              fmt::format("unknown dtype '{}'; known: {}", shown(text), known));
}

int bits(DType dtype) { return row(dtype).bits; }

std::int64_t bytes(DType dtype, std::int64_t count) {
  const int width = row(dtype).bits;
  return width >= 8 ? count * (width / 8) : (count * width + 7) / 8;
}

bool is_integer(DType dtype) { return row(dtype).integer; }

int significand_bits(DType dtype) { return row(dtype).significand; }

}  // namespace culet

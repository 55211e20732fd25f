// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// See units.h.
#include "base/units.h"

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <string_view>

namespace culet {
namespace {

// Three significant digits of a value from 1 to below about 1000.
std::string three_digits(double value) {
  const double size = std::fabs(value);
  return fmt::format("{:.{}f}", value, size < 9.995 ? 2 : size < 99.95 ? 1 : 0);
}

}  // namespace

std::string format_seconds(double seconds) {
  struct Unit {
    double size;
    std::string_view name;
  };
  constexpr std::array<Unit, 4> kUnits = {{{1, "s"}, {1e-3, "ms"}, {1e-6, "us"}, {1e-9, "ns"}}};
  for (const Unit& unit : kUnits) {
    // 999.6 us would be shown as 1000 us: the next unit is better.
    if (std::fabs(seconds) >= 0.9995 * unit.size) {
      return fmt::format("{} {}", three_digits(seconds / unit.size), unit.name);
    }
  }
  return fmt::format("{} ns", three_digits(seconds * 1e9));
}

std::string format_bytes(double bytes) {
  constexpr std::array<std::string_view, 5> kUnits = {"B", "KiB", "MiB", "GiB", "TiB"};
  std::size_t unit = 0;
  while (unit + 1 < kUnits.size() && std::fabs(bytes) >= 1023.5) {
    bytes /= 1024;
    ++unit;
  }
  if (unit == 0) return fmt::format("{:.0f} B", bytes);
  return fmt::format("{} {}", three_digits(bytes), kUnits[unit]);
}

std::string format_ratio(double ratio) { return fmt::format("{}x", three_digits(ratio)); }

}  // namespace culet

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// Text tables for terminals: columns as wide as their widest cell, numbers to the right.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace culet {

/// Columns a text takes on a terminal: code points of UTF-8, escape sequences not counted.
std::size_t display_width(std::string_view text);

class TextTable {
 public:
  enum class Align : std::uint8_t { left, right };

  explicit TextTable(std::vector<std::string> header, std::vector<Align> align = {});
  /// Missing cells are empty; more cells than columns are not allowed.
  void add_row(std::vector<std::string> cells);
  /// A line of dashes.
  void add_rule();
  bool empty() const { return rows_.empty(); }

  /// The whole table, two spaces between columns, no spaces at the ends of lines.
  std::string text() const;

 private:
  std::string line(const std::vector<std::string>& cells,
                   const std::vector<std::size_t>& widths) const;

  std::vector<std::string> header_;
  std::vector<Align> align_;
  std::vector<std::vector<std::string>> rows_;  ///< an empty one is a rule
};

}  // namespace culet

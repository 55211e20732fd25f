// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// Text in aligned columns, for people at a terminal: numbers to the right, words to the left, the
// last column cut to the width of the page.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace culet {

enum class Shade : std::uint8_t { plain, bold, good, bad, dim };

/// The text in an ANSI colour, or as it is.
std::string shaded(std::string_view text, Shade shade, bool color);

/// On one line, control characters replaced, cut with "..." beyond `width`.
std::string clipped(std::string_view text, std::size_t width);

/// Broken at spaces so that no line but an unbreakable one is longer than `width`; further lines
/// start with `indent` spaces. `used` columns of the first line are taken.
std::string wrapped(std::string_view text, std::size_t width, std::size_t used, std::size_t indent);

class Columns {
 public:
  enum class Align : std::uint8_t { left, right };
  /// A column must be added before the first row; `limit` cuts longer cells (0: no limit).
  void column(std::string name, Align align = Align::right, std::size_t limit = 0);
  /// `whole`: the last cell goes on in further lines instead of being cut.
  void row(std::vector<std::string> cells, Shade shade = Shade::plain, bool whole = false);
  /// A line of its own below the last row, not in columns.
  void note(std::string text, Shade shade = Shade::plain);
  std::string text(std::size_t width, std::size_t indent, bool color) const;

 private:
  struct Column {
    std::string name;
    Align align;
    std::size_t limit;
  };
  struct Row {
    std::vector<std::string> cells;
    Shade shade;
    bool note;
    bool whole;
  };
  std::vector<Column> columns_;
  std::vector<Row> rows_;
};

}  // namespace culet

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// See table.h.
#include "base/table.h"

#include <algorithm>
#include <cassert>

namespace culet {

std::size_t display_width(std::string_view text) {
  std::size_t width = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    if (byte == 0x1b && i + 1 < text.size() && text[i + 1] == '[') {
      i = std::min(text.find('m', i), text.size() - 1);  // a colour: ESC [ ... m
      continue;
    }
    if ((byte & 0xc0) != 0x80) ++width;  // every byte but those that continue a code point
  }
  return width;
}

TextTable::TextTable(std::vector<std::string> header, std::vector<Align> align)
    : header_(std::move(header)), align_(std::move(align)) {
  align_.resize(header_.size(), Align::left);
}

void TextTable::add_row(std::vector<std::string> cells) {
  assert(cells.size() <= header_.size());
  cells.resize(header_.size());
  rows_.push_back(std::move(cells));
}

void TextTable::add_rule() { rows_.emplace_back(); }

std::string TextTable::line(const std::vector<std::string>& cells,
                            const std::vector<std::size_t>& widths) const {
  std::string out;
  for (std::size_t c = 0; c < cells.size(); ++c) {
    const std::string padding(widths[c] - display_width(cells[c]), ' ');
    if (c > 0) out += "  ";
    out += align_[c] == Align::right ? padding + cells[c] : cells[c] + padding;
  }
  out.erase(out.find_last_not_of(' ') + 1);
  return out + '\n';
}

std::string TextTable::text() const {
  std::vector<std::size_t> widths;
  for (const std::string& cell : header_) widths.push_back(display_width(cell));
  for (const auto& row : rows_) {
    for (std::size_t c = 0; c < row.size(); ++c) {
      widths[c] = std::max(widths[c], display_width(row[c]));
    }
  }
  std::vector<std::string> rule;
  for (const std::size_t width : widths) rule.emplace_back(width, '-');
  std::string out = line(header_, widths) + line(rule, widths);
  for (const auto& row : rows_) out += line(row.empty() ? rule : row, widths);
  return out;
}

}  // namespace culet

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// Layout of aligned text, see columns.h.
#include "report/columns.h"

#include <algorithm>

namespace culet {
namespace {

constexpr std::size_t kNoteIndent = 7;

}  // namespace

std::string shaded(std::string_view text, Shade shade, bool color) {
  if (!color || shade == Shade::plain) return std::string(text);
  const char* code = shade == Shade::bold   ? "1"
                     : shade == Shade::good ? "32"
                     : shade == Shade::bad  ? "31"
                                            : "2";
  return "\x1b[" + std::string(code) + "m" + std::string(text) + "\x1b[0m";
}

std::string clipped(std::string_view text, std::size_t width) {
  std::string line;
  for (const char c : text) line += static_cast<unsigned char>(c) < 0x20 || c == 0x7f ? ' ' : c;
  while (!line.empty() && line.back() == ' ') line.pop_back();
  if (line.size() > width) {
    line.resize(width > 3 ? width - 3 : 0);
    line += "...";
  }
  return line;
}

std::string wrapped(std::string_view text, std::size_t width, std::size_t used,
                    std::size_t indent) {
  const std::string line = clipped(text, text.size());
  std::string out;
  std::size_t column = used;
  std::size_t begin = 0;
  while (begin < line.size()) {
    std::size_t end = line.find(' ', begin);
    if (end == std::string::npos) end = line.size();
    const std::size_t length = end - begin;
    const bool first = out.empty();
    if (!first && column + 1 + length > width) {
      out += "\n" + std::string(indent, ' ');
      column = indent;
    } else if (!first) {
      out += ' ';
      ++column;
    }
    out.append(line, begin, length);
    column += length;
    begin = line.find_first_not_of(' ', end);
    if (begin == std::string::npos) break;
  }
  return out;
}

void Columns::column(std::string name, Align align, std::size_t limit) {
  columns_.push_back({std::move(name), align, limit});
}

void Columns::row(std::vector<std::string> cells, Shade shade, bool whole) {
  rows_.push_back({std::move(cells), shade, false, whole});
}

void Columns::note(std::string text, Shade shade) {
  rows_.push_back({{std::move(text)}, shade, true, false});
}

std::string Columns::text(std::size_t width, std::size_t indent, bool color) const {
  std::vector<std::size_t> widths;
  std::size_t last_begin = indent;
  for (std::size_t i = 0; i < columns_.size(); ++i) {
    std::size_t wide = columns_[i].name.size();
    for (const Row& row : rows_) {
      if (!row.note) wide = std::max(wide, row.cells[i].size());
    }
    if (columns_[i].limit > 0) wide = std::min(wide, columns_[i].limit);
    widths.push_back(wide);
    if (i + 1 < columns_.size()) last_begin += wide + 2;
  }
  const std::size_t last_width = width > last_begin + 8 ? width - last_begin : 8;
  const auto line = [&](const std::vector<std::string>& cells, bool whole) {
    std::string out(indent, ' ');
    for (std::size_t i = 0; i < cells.size(); ++i) {
      const bool last = i + 1 == cells.size();
      if (last && whole) {
        out += wrapped(cells[i], width, last_begin, last_begin);
        break;
      }
      const std::string cell = clipped(cells[i], last ? last_width : widths[i]);
      const std::string pad(widths[i] > cell.size() ? widths[i] - cell.size() : 0, ' ');
      out += columns_[i].align == Align::right ? pad + cell : last ? cell : cell + pad;
      if (!last) out += "  ";
    }
    return out;
  };
  std::vector<std::string> names;
  for (const Column& column : columns_) names.push_back(column.name);
  std::string out = shaded(line(names, false), Shade::dim, color) + "\n";
  for (const Row& row : rows_) {
    const std::string text = row.note ? std::string(indent + kNoteIndent, ' ') +
                                            clipped(row.cells[0], width - indent - kNoteIndent)
                                      : line(row.cells, row.whole);
    out += shaded(text, row.shade, color) + "\n";
  }
  return out;
}

}  // namespace culet

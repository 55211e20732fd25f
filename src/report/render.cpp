// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// From a format's name to its view, and from a view to a file.
#include <sys/stat.h>

#include <fstream>
#include <string>

#include "base/files.h"
#include "report/views.h"

namespace culet {

Result<ReportFormat> parse_report_format(std::string_view text) {
  if (text == "table") return ReportFormat::table;
  if (text == "json") return ReportFormat::json;
  if (text == "csv") return ReportFormat::csv;
  if (text == "md") return ReportFormat::md;
  return fail(ErrorCode::invalid_argument,
              "unknown format '" + std::string(text) + "'; known are table, json, csv, md");
}

std::string render(const std::vector<TuneReport>& reports, const Counts& counts,
                   ReportFormat format, const RenderOptions& options) {
  switch (format) {
    case ReportFormat::table:
      return render_table(reports, counts, options);
    case ReportFormat::json:
      return render_json(reports, counts, options);
    case ReportFormat::csv:
      return render_csv(reports, options);
    case ReportFormat::md:
      return render_markdown(reports, counts, options);
  }
  return {};
}

Result<void> save(const std::string& path, std::string_view text) {
  // Replacing a device or a pipe by a file would destroy it.
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0 || S_ISREG(info.st_mode)) {
    return write_file_atomically(path, text);
  }
  std::ofstream out(path, std::ios::binary);
  out << text << std::flush;
  if (!out) return fail(ErrorCode::io, "cannot write '" + path + "'");
  return {};
}

Result<std::string> load(const std::string& path) {
  constexpr std::size_t kMaxBytes = std::size_t{1} << 30;
  return read_file(path, kMaxBytes);
}

}  // namespace culet

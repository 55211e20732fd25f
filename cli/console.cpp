// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// Terminal output, see console.h.
#include "console.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include "culet/report.h"

namespace culet::cli {
namespace {

/// More often than this nobody can read.
constexpr auto kRedraw = std::chrono::milliseconds(100);

constexpr std::size_t kShown = 80;

/// Length of the UTF-8 character a text starts with; 0 where that is not valid UTF-8.
std::size_t utf8_length(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char first = byte(0);
  if (first < 0x80) return 1;
  const std::size_t length = first < 0xc2 ? 0 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
  if (length == 0 || first > 0xf4 || text.size() < length) return 0;
  for (std::size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return 0;
  }
  const unsigned char second = byte(1);
  // Longer than needed, a surrogate, or beyond the last character.
  if ((first == 0xe0 && second < 0xa0) || (first == 0xed && second > 0x9f)) return 0;
  if ((first == 0xf0 && second < 0x90) || (first == 0xf4 && second > 0x8f)) return 0;
  return length;
}

/// Nothing that is echoed may move the cursor, or be no text at all.
std::string one_line(std::string_view text) {
  std::string line;
  while (!text.empty()) {
    const std::size_t length = utf8_length(text);
    const auto c = static_cast<unsigned char>(text[0]);
    const bool c1 = c == 0xc2 && length == 2 && static_cast<unsigned char>(text[1]) < 0xa0;
    if (length == 0) {
      line += '?';
    } else if (c < 0x20 || c == 0x7f || c1) {
      line += ' ';
    } else {
      line += text.substr(0, length);
    }
    text.remove_prefix(std::max<std::size_t>(length, 1));
  }
  while (!line.empty() && line.back() == ' ') line.pop_back();
  return line;
}

std::size_t terminal_width() {
  winsize size{};
  if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col < 20) return 80;
  return size.ws_col;
}

std::string duration(double seconds) {
  const auto whole = static_cast<long long>(seconds + 0.5);
  if (whole < 60) return fmt::format("{} s", whole);
  if (whole < 3600) return fmt::format("{} min {:02} s", whole / 60, whole % 60);
  return fmt::format("{} h {:02} min", whole / 3600, whole / 60 % 60);
}

}  // namespace

int report_error(const Error& error) {
  fmt::print(stderr, "culet: error: {}\n", one_line(error.message));
  std::string_view detail = error.detail;
  while (!detail.empty()) {
    const std::size_t end = std::min(detail.find('\n'), detail.size());
    if (end > 0) fmt::print(stderr, "  {}\n", one_line(detail.substr(0, end)));
    detail.remove_prefix(std::min(end + 1, detail.size()));
  }
  return exit_status(error.code);
}

void warn(std::string_view text) { fmt::print(stderr, "culet: warning: {}\n", one_line(text)); }

std::vector<std::string> warn_from(Cache& cache) {
  std::vector<std::string> all;
  for (std::string text = cache.take_warning(); !text.empty(); text = cache.take_warning()) {
    warn(text);
    all.push_back(std::move(text));
  }
  return all;
}

std::string columns(const std::vector<std::vector<std::string>>& rows) {
  std::vector<std::size_t> widths;
  for (const auto& row : rows) {
    widths.resize(std::max(widths.size(), row.size()));
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  std::string out;
  for (const auto& row : rows) {
    std::string line;
    for (std::size_t i = 0; i < row.size(); ++i) {
      line += fmt::format("{:<{}}  ", one_line(row[i]), widths[i]);
    }
    while (!line.empty() && line.back() == ' ') line.pop_back();
    out += line + "\n";
  }
  return out;
}

std::string shown(std::string_view text) {
  if (text.size() <= kShown) return one_line(text);
  std::size_t end = kShown;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xc0) == 0x80) --end;
  return one_line(text.substr(0, end > 0 ? end : kShown)) + "...";
}

std::string shell_quoted(std::string_view text) {
  constexpr std::string_view kPlain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./:=,+-";
  if (!text.empty() && text.find_first_not_of(kPlain) == std::string_view::npos) {
    return std::string(text);
  }
  std::string out = "'";
  for (const char c : text) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + "'";
}

Result<void> deliver(const std::string& text, const std::string& file) {
  if (!file.empty()) return save(file, text);
  if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size() || std::fflush(stdout) != 0) {
    return fail(ErrorCode::io, "cannot write to standard output");
  }
  return {};
}

int print(const std::string& text) {
  const auto delivered = deliver(text, {});
  return delivered ? 0 : report_error(delivered.error());
}

ProgressLine::ProgressLine(int problems)
    : terminal_(isatty(STDERR_FILENO) == 1), problems_(problems) {}

ProgressLine::~ProgressLine() { clear(); }

void ProgressLine::start(int number, const Problem& problem) {
  number_ = number;
  problem_ = problem.text();
  begin_ = Clock::now();
  shown_ = {};
}

void ProgressLine::finished(const TuneReport& report) {
  if (report.from_cache) return;
  measured_seconds_ += std::chrono::duration<double>(Clock::now() - begin_).count();
  ++measured_;
}

void ProgressLine::clear() {
  if (visible_) fmt::print(stderr, "\r\x1b[K");
  visible_ = false;
}

std::string ProgressLine::eta() const {
  if (measured_ == 0) return {};
  const double each = measured_seconds_ / measured_;
  const double spent = std::chrono::duration<double>(Clock::now() - begin_).count();
  return fmt::format("  {} left",
                     duration(std::max(each - spent, 0.0) + each * (problems_ - number_)));
}

void ProgressLine::progress(const Progress& progress) {
  const auto now = Clock::now();
  if (!terminal_ || now - shown_ < kRedraw) return;
  shown_ = now;
  std::string line = fmt::format("[{}/{}] {}  {}", number_, problems_, problem_, progress.phase);
  if (progress.total > 0) line += fmt::format(" {}/{}", progress.done, progress.total);
  if (progress.best_seconds > 0) {
    line += fmt::format("  best {:.2f} us {}", progress.best_seconds * 1e6, progress.best_name);
  }
  line += eta();
  const std::size_t width = terminal_width() - 1;
  if (line.size() > width) line.resize(width);
  fmt::print(stderr, "\r{}\x1b[K", line);
  std::fflush(stderr);
  visible_ = true;
}

void ProgressLine::trial(const Problem& problem, const Trial& trial) {
  // A kernel that computes something else is a bug, of ours or of a vendor's: never silent.
  if (trial.outcome != Outcome::wrong) return;
  warning(fmt::format("{}: wrong result of {}, left out: {}", problem.text(),
                      trial.candidate.text(), trial.reason));
}

void ProgressLine::warning(std::string_view text) {
  clear();
  warn(text);
}

}  // namespace culet::cli

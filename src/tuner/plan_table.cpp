// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// Plans for a range of m. The range is cut where the best kernel usually changes: at powers of two
// and one and a half of them, because tiles are as high as these. Each piece is tuned at its
// largest m, which no m of it is far from, and neighbours that chose the same are joined.
#include <fmt/format.h>

#include <algorithm>

#include "culet/tuner.h"

namespace culet {
namespace {

/// 1, 2, 3, 4, 6, 8, 12, 16, 24 ...
std::int64_t next_cut(std::int64_t cut) {
  if (cut == 1) return 2;
  return cut % 3 == 0 ? cut / 3 * 4 : cut / 2 * 3;
}

/// [low, high] cut after each of these.
std::vector<MRange> pieces(MRange range) {
  std::vector<MRange> result;
  std::int64_t low = std::max<std::int64_t>(range.low, 1);
  for (std::int64_t top = 1; low <= range.high; top = next_cut(top)) {
    if (top < low) continue;
    result.push_back({low, std::min(top, range.high)});
    low = top + 1;
  }
  return result;
}

}  // namespace

Result<PlanTable> Tuner::plan_table(const Problem& unchecked, Observer* observer) {
  const auto problem = unchecked.validated();
  if (!problem) return tl::unexpected(problem.error());
  struct Piece {
    Problem problem;
    Candidate candidate;
  };
  std::vector<Problem> parts;
  for (const MRange& range : pieces(problem->m_range)) {
    parts.push_back(*problem);
    parts.back().m = range.high;
    parts.back().m_range = range;
  }
  std::vector<Piece> chosen;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    auto report = tune(parts[i], observer, i + 1 < parts.size() ? &parts[i + 1] : nullptr);
    if (!report) return tl::unexpected(report.error());
    if (report->choice() == nullptr) {
      return fail(ErrorCode::no_candidate,
                  fmt::format("{}: {}", report->problem.text(), report->why));
    }
    Piece piece{report->problem, report->choice()->candidate};
    if (!chosen.empty() && chosen.back().candidate == piece.candidate) {
      piece.problem.m_range.low = chosen.back().problem.m_range.low;
      chosen.back() = std::move(piece);
    } else {
      chosen.push_back(std::move(piece));
    }
  }
  std::vector<PlanTable::Interval> intervals;
  for (const Piece& piece : chosen) {
    auto loaded = plan(piece.problem, piece.candidate);
    if (!loaded) return tl::unexpected(loaded.error());
    intervals.push_back({piece.problem.m_range, std::move(*loaded)});
  }
  return PlanTable::make(std::move(intervals));
}

}  // namespace culet

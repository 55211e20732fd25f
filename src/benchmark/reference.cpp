// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// Computes exact sums on the host, and compares.
#include "benchmark/reference.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/parallel.h"

namespace culet::benchmark {
namespace {

constexpr std::int64_t kDepth = 256;   ///< of k, summed from one decoded panel
constexpr std::int64_t kColumns = 16;  ///< of one vector step
constexpr std::int64_t kPanel = 64;    ///< columns of B generated at once
constexpr std::int64_t kRows = 256;    ///< rows of one job

using Vector = double __attribute__((vector_size(64)));
using Mask = long long __attribute__((vector_size(64)));
/// The same in memory. How a Vector itself is aligned depends on the instruction set a function is
/// compiled for, so none is ever stored. A type of its own, since an alias with less alignment has
/// it back behind `auto` (GCC), or at once (clang).
struct __attribute__((packed, aligned(8))) Stored {
  Vector v;
};
static_assert(alignof(Stored) == alignof(double) && sizeof(Stored) == sizeof(Vector));
/// In containers: a type of this file's own. Other files have vectors of the same name but less
/// alignment, and the linker keeps only one std::vector of them.
struct Lanes {
  Vector v;
};
constexpr std::int64_t kLanes = 8;
static_assert(kColumns == 2 * kLanes);

#if defined(__x86_64__) && !defined(__SANITIZE_THREAD__) && !defined(__SANITIZE_ADDRESS__)
#define CULET_CLONES __attribute__((target_clones("default", "avx2", "avx512f")))
#else
#define CULET_CLONES
#endif

/// sums[i][j] += a[i][l] * b[l][j] for two rows i, magnitudes alike. The clones let the same text
/// use what the machine has.
CULET_CLONES
void accumulate(const double* a, const double* b, std::int64_t depth, double* sums,
                double* magnitudes) {
  const Mask positive = {INT64_MAX, INT64_MAX, INT64_MAX, INT64_MAX,
                         INT64_MAX, INT64_MAX, INT64_MAX, INT64_MAX};
  const auto* panel = reinterpret_cast<const Stored*>(b);
  auto* s = reinterpret_cast<Stored*>(sums);
  auto* t = reinterpret_cast<Stored*>(magnitudes);
  Vector s00 = s[0].v, s01 = s[1].v, s10 = s[2].v, s11 = s[3].v;
  Vector t00 = t[0].v, t01 = t[1].v, t10 = t[2].v, t11 = t[3].v;
  for (std::int64_t l = 0; l < depth; ++l) {
    const Vector b0 = panel[2 * l].v, b1 = panel[2 * l + 1].v;
    const Vector p00 = a[l] * b0, p01 = a[l] * b1;
    const Vector p10 = a[kDepth + l] * b0, p11 = a[kDepth + l] * b1;
    s00 += p00;
    s01 += p01;
    s10 += p10;
    s11 += p11;
    t00 += reinterpret_cast<Vector>(reinterpret_cast<Mask>(p00) & positive);
    t01 += reinterpret_cast<Vector>(reinterpret_cast<Mask>(p01) & positive);
    t10 += reinterpret_cast<Vector>(reinterpret_cast<Mask>(p10) & positive);
    t11 += reinterpret_cast<Vector>(reinterpret_cast<Mask>(p11) & positive);
  }
  s[0].v = s00, s[1].v = s01, s[2].v = s10, s[3].v = s11;
  t[0].v = t00, t[1].v = t01, t[2].v = t10, t[3].v = t11;
}

/// Rows (from..) x one panel of columns of one block.
class PanelJob {
 public:
  PanelJob(const SetLayout& layout, const std::vector<verify::u64>& keys, const SampleBlock& block)
      : layout_(layout), keys_(keys), block_(block) {}

  void run(std::int64_t row0, std::int64_t column0, double* sums, double* magnitudes) const {
    const Problem& p = layout_.problem;
    const auto all_rows = static_cast<std::int64_t>(block_.rows.size());
    const auto all_columns = static_cast<std::int64_t>(block_.columns.size());
    const std::int64_t rows = std::min(kRows, all_rows - row0);
    const std::int64_t columns = std::min(kPanel, all_columns - column0);
    const std::int64_t steps = (columns + kColumns - 1) / kColumns;
    std::vector<double> a(2 * kDepth, 0.0), b(kDepth * kPanel, 0.0), line(kDepth);
    // By pair of rows, then by step of columns, then the two rows.
    std::vector<double> s(static_cast<std::size_t>((rows + 1) / 2 * steps * 2 * kColumns), 0.0);
    std::vector<double> t = s;
    for (std::int64_t k0 = 0; k0 < p.k; k0 += kDepth) {
      const std::int64_t depth = std::min(kDepth, p.k - k0);
      for (std::int64_t j = 0; j < columns; ++j) {
        b_values(column0 + j, k0, depth, line.data());
        double* to = &b[static_cast<std::size_t>(j / kColumns * kDepth * kColumns + j % kColumns)];
        for (std::int64_t l = 0; l < depth; ++l)
          to[l * kColumns] = line[static_cast<std::size_t>(l)];
      }
      for (std::int64_t i = 0; i < rows; i += 2) {
        a_values(row0 + i, k0, depth, a.data());
        if (i + 1 < rows) a_values(row0 + i + 1, k0, depth, a.data() + kDepth);
        for (std::int64_t step = 0; step < steps; ++step) {
          const auto at = static_cast<std::size_t>((i / 2 * steps + step) * 2 * kColumns);
          accumulate(a.data(), &b[static_cast<std::size_t>(step * kDepth * kColumns)], depth,
                     &s[at], &t[at]);
        }
      }
    }
    for (std::int64_t i = 0; i < rows; ++i) {
      for (std::int64_t j = 0; j < columns; ++j) {
        const auto at = static_cast<std::size_t>((i / 2 * steps + j / kColumns) * 2 * kColumns +
                                                 i % 2 * kColumns + j % kColumns);
        sums[(row0 + i) * all_columns + column0 + j] = s[at];
        magnitudes[(row0 + i) * all_columns + column0 + j] = t[at];
      }
    }
  }

 private:
  void a_values(std::int64_t row, std::int64_t k0, std::int64_t count, double* to) const {
    const std::int64_t i = block_.rows[static_cast<std::size_t>(row)];
    const std::int64_t first = layout_.offset_a(block_.batch, i, k0);
    const std::int64_t step = layout_.offset_a(block_.batch, i, k0 + 1) - first;
    generate(layout_.problem.a, keys_[kA], first, step, count, to);
  }
  void b_values(std::int64_t column, std::int64_t k0, std::int64_t count, double* to) const {
    const std::int64_t j = block_.columns[static_cast<std::size_t>(column)];
    const std::int64_t first = layout_.offset_b(block_.batch, k0, j);
    const std::int64_t step = layout_.offset_b(block_.batch, k0 + 1, j) - first;
    generate(layout_.problem.b, keys_[kB], first, step, count, to);
  }

  const SetLayout& layout_;
  const std::vector<verify::u64>& keys_;
  const SampleBlock& block_;
};

std::vector<std::int64_t> all_of(std::int64_t count) {
  std::vector<std::int64_t> all(static_cast<std::size_t>(count));
  for (std::int64_t i = 0; i < count; ++i) all[static_cast<std::size_t>(i)] = i;
  return all;
}

/// First and last, and random ones in between, at most `count`, ascending.
std::vector<std::int64_t> some_of(std::int64_t size, std::int64_t count, std::uint64_t seed) {
  if (count >= size) return all_of(size);
  std::vector<std::int64_t> chosen = {0, size - 1};
  for (std::int64_t i = 2; i < count; ++i)
    chosen.push_back(static_cast<std::int64_t>(
        verify::mix(seed + static_cast<std::uint64_t>(i) * verify::kGolden) %
        static_cast<std::uint64_t>(size)));
  std::sort(chosen.begin(), chosen.end());
  chosen.erase(std::unique(chosen.begin(), chosen.end()), chosen.end());
  return chosen;
}

/// Work of a block in multiply-adds. Generating a value costs about thirty of them (10 ns and 0.3
/// ns on one core of 2 GHz with AVX-512).
double work_of(double rows, double columns, double k) {
  const double generated = columns * std::ceil(rows / kRows) + rows * std::ceil(columns / kPanel);
  return k * (rows * columns + 30 * generated);
}

class SamplePlanner {
 public:
  SamplePlanner(const Problem& problem, std::uint64_t seed) : p_(problem), seed_(seed) {}

  void edges(std::int64_t batch, double budget) {
    // Two rows and two columns in full, thinned out where that is too much.
    const double k = std::max<double>(1, static_cast<double>(p_.k));
    const double row_work = work_of(2, static_cast<double>(p_.n), k);
    const double column_work = work_of(static_cast<double>(p_.m), 2, k);
    const double share = std::min(1.0, budget / (row_work + column_work));
    const auto thinned = [&](std::int64_t size) {
      return some_of(
          size,
          std::max<std::int64_t>(2, static_cast<std::int64_t>(static_cast<double>(size) * share)),
          seed_ + 1);
    };
    plan_.blocks.push_back({batch, some_of(p_.m, 2, 0), thinned(p_.n)});
    plan_.blocks.push_back({batch, thinned(p_.m), some_of(p_.n, 2, 0)});
  }

  void tiles(std::int64_t batch, double budget) {
    const double k = std::max<double>(1, static_cast<double>(p_.k));
    std::int64_t tile = 64;
    const auto count = [&] {
      return static_cast<double>((p_.m + tile - 1) / tile) *
             static_cast<double>((p_.n + tile - 1) / tile);
    };
    while (count() * work_of(1, 1, k) > budget && tile < p_.m + p_.n) tile *= 2;
    for (std::int64_t i = 0; i < p_.m; i += tile) {
      for (std::int64_t j = 0; j < p_.n; j += tile) {
        const std::uint64_t r = verify::mix(seed_ + static_cast<std::uint64_t>(i * p_.n + j));
        const auto row =
            i + static_cast<std::int64_t>(r % static_cast<std::uint64_t>(std::min(tile, p_.m - i)));
        const auto column =
            j + static_cast<std::int64_t>((r >> 32) %
                                          static_cast<std::uint64_t>(std::min(tile, p_.n - j)));
        plan_.blocks.push_back({batch, {row}, {column}});
      }
    }
  }

  void grid(std::int64_t batch, double budget) {
    const double k = std::max<double>(1, static_cast<double>(p_.k));
    double rows = 48, columns = 192;
    while (work_of(rows, columns, k) > budget && rows > 2) {
      rows /= 2;
      columns /= 2;
    }
    plan_.blocks.push_back({batch, some_of(p_.m, static_cast<std::int64_t>(rows), seed_ + 2),
                            some_of(p_.n, static_cast<std::int64_t>(columns), seed_ + 3)});
  }

  SamplePlan take() { return std::move(plan_); }

 private:
  const Problem& p_;
  std::uint64_t seed_;
  SamplePlan plan_;
};

}  // namespace

std::int64_t SamplePlan::elements() const {
  std::int64_t count = 0;
  for (const SampleBlock& block : blocks)
    count += static_cast<std::int64_t>(block.rows.size() * block.columns.size());
  return count;
}

SamplePlan plan_samples(const Problem& p, double budget, std::uint64_t seed) {
  SamplePlan plan;
  if (p.is_empty()) {
    plan.complete = true;
    return plan;
  }
  const double per_entry = work_of(static_cast<double>(p.m), static_cast<double>(p.n),
                                   std::max<double>(1, static_cast<double>(p.k)));
  if (per_entry * static_cast<double>(p.batch) <= budget) {
    plan.complete = true;
    for (std::int64_t b = 0; b < p.batch; ++b) plan.blocks.push_back({b, all_of(p.m), all_of(p.n)});
    return plan;
  }
  const std::vector<std::int64_t> entries = some_of(p.batch, 8, seed + 4);
  SamplePlanner planner(p, seed);
  const double share = budget / static_cast<double>(entries.size());
  for (const std::int64_t b : entries) {
    planner.edges(b, share / 2);
    planner.tiles(b, share / 4);
    planner.grid(b, share / 4);
  }
  return planner.take();
}

std::string Comparison::complaint() const {
  if (wrong == 0) return {};
  return fmt::format("{}; {} of {} elements checked are wrong", first, wrong, checked);
}

std::string describe_wrong(std::int64_t batch, std::int64_t row, std::int64_t column, double got,
                           verify::Bounded wanted) {
  return fmt::format("D[{},{}] of batch {} is {:.9g}, should be {:.9g} (tolerance {:.3g})", row,
                     column, batch, got, wanted.value, wanted.error);
}

HostReference::HostReference(const SetLayout& layout, const SetSeed& seed, SamplePlan plan,
                             DeviceKind device)
    : layout_(layout),
      seed_(seed),
      plan_(std::move(plan)),
      tolerance_(Tolerance::of(layout.problem, device)) {
  for (const OperandPlace& place : layout_.places) keys_.push_back(seed_.key(place.id));
  struct Job {
    std::size_t block;
    std::int64_t row0, column0;
  };
  std::vector<Job> jobs;
  for (std::size_t i = 0; i < plan_.blocks.size(); ++i) {
    const SampleBlock& block = plan_.blocks[i];
    sums_.emplace_back(block.rows.size() * block.columns.size(), 0.0);
    magnitudes_.push_back(sums_.back());
    for (std::int64_t r = 0; r < static_cast<std::int64_t>(block.rows.size()); r += kRows)
      for (std::int64_t c = 0; c < static_cast<std::int64_t>(block.columns.size()); c += kPanel)
        jobs.push_back({i, r, c});
  }
  parallel_for(static_cast<int>(jobs.size()), jobs.size() > 1 ? 0 : 1, [&](int index) {
    const Job& job = jobs[static_cast<std::size_t>(index)];
    PanelJob(layout_, keys_, plan_.blocks[job.block])
        .run(job.row0, job.column0, sums_[job.block].data(), magnitudes_[job.block].data());
  });
}

verify::Bounded HostReference::finish(std::int64_t batch, std::int64_t row, std::int64_t column,
                                      double sum, double magnitude) const {
  const Problem& p = layout_.problem;
  const std::size_t count = p.epilogue.operands().size();
  double small[16] = {};
  std::vector<double> large(count > 16 ? count : 0);
  double* operands = large.empty() ? small : large.data();
  for (std::size_t i = 0; i < count; ++i) {
    const auto at = layout_.offset_extra(static_cast<int>(i), batch, row, column);
    operands[i] = verify::random_value(format_of(p.epilogue.operands()[i].dtype), keys_[kExtra + i],
                                       static_cast<verify::u64>(at));
  }
  const verify::Bounded result =
      evaluate(p.epilogue, tolerance_.accumulator(sum, magnitude), operands, tolerance_.epilogue);
  return verify::stored(result, format_of(p.d), tolerance_.half_ulps);
}

Comparison HostReference::compare(const void* block) const {
  const Problem& p = layout_.problem;
  const verify::Format format = format_of(p.d);
  const int width = verify::bytes_of(format);
  const char* d = static_cast<const char*>(block) + layout_.place(kD).begin;
  Comparison result;
  for (std::size_t i = 0; i < plan_.blocks.size(); ++i) {
    const SampleBlock& chosen = plan_.blocks[i];
    std::size_t at = 0;
    for (const std::int64_t row : chosen.rows) {
      for (const std::int64_t column : chosen.columns) {
        std::uint64_t code = 0;
        std::memcpy(&code, d + layout_.offset_d(chosen.batch, row, column) * width,
                    static_cast<std::size_t>(width));
        const double got = verify::decode(format, code);
        const auto wanted = finish(chosen.batch, row, column, sums_[i][at], magnitudes_[i][at]);
        ++at;
        const double ratio = verify::error_ratio(got, wanted, format);
        ++result.checked;
        result.error = std::max(result.error, ratio);
        if (ratio <= 1) continue;
        if (result.wrong++ == 0) {
          result.first = describe_wrong(chosen.batch, row, column, got, wanted);
        }
      }
    }
  }
  return result;
}

verify::Bounded HostReference::wanted(std::int64_t batch, std::int64_t row,
                                      std::int64_t column) const {
  SampleBlock block{batch, {row}, {column}};
  double sum = 0, magnitude = 0;
  PanelJob(layout_, keys_, block).run(0, 0, &sum, &magnitude);
  return finish(batch, row, column, sum, magnitude);
}

}  // namespace culet::benchmark

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// The reference: any dtype, layout and stride, summed in double in order of k (exact for 8-bit
// integers), the epilogue evaluated in double. Slow on purpose only where speed would cost
// clarity: operands are converted once per block.
#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "launch/element.h"
#include "launch/extra_operands.h"
#include "launch/free_list.h"
#include "launch/library_steps.h"
#include "launch/split.h"
#include "launch/thread_pool.h"

namespace culet {

namespace {

constexpr std::int64_t kRows = 32;     // of A in a block
constexpr std::int64_t kColumns = 64;  // of B in a block
constexpr std::int64_t kDepth = 256;   // of k in a block

struct Blocks {
  double a[kRows * kDepth];
  double b[kDepth * kColumns];
  double sum[kRows * kColumns];
};

struct RunMemory {
  std::vector<Blocks> blocks;                 ///< one a thread
  std::vector<std::vector<double>> operands;  ///< values of one element's epilogue operands
};

class ReferenceStep final : public LoadedStep {
 public:
  ReferenceStep(const Problem& problem, int threads)
      : problem_(problem), threads_(threads), memory_([this]() -> std::unique_ptr<RunMemory> {
          auto memory = std::make_unique<RunMemory>();
          const auto count = static_cast<std::size_t>(threads_);
          memory->blocks.resize(count);
          memory->operands.assign(count, std::vector<double>(problem_.epilogue.operands().size()));
          return memory;
        }) {
    memory_.prime();
    ThreadPool::shared().reserve(threads);
  }

  Result<void> run(const StepPointers& pointers) const override;

 private:
  void compute(const StepPointers& pointers, std::int64_t entry, std::int64_t row,
               std::int64_t column, Blocks& blocks, std::vector<double>& operands) const;
  void multiply(const StepPointers& pointers, std::int64_t entry, std::int64_t row,
                std::int64_t column, std::int64_t rows, std::int64_t columns, Blocks& blocks) const;
  double finish(double sum, const void* const* extra, std::int64_t row, std::int64_t column,
                std::vector<double>& operands) const;

  Problem problem_;
  int threads_;
  mutable FreeList<RunMemory> memory_;
};

/// One block's sums over all of k.
void ReferenceStep::multiply(const StepPointers& pointers, std::int64_t entry, std::int64_t row,
                             std::int64_t column, std::int64_t rows, std::int64_t columns,
                             Blocks& blocks) const {
  const Problem& p = problem_;
  const std::int64_t a_row = p.a_order == Order::row_major ? p.lda : 1;
  const std::int64_t a_column = p.a_order == Order::row_major ? 1 : p.lda;
  const std::int64_t b_row = p.b_order == Order::row_major ? p.ldb : 1;
  const std::int64_t b_column = p.b_order == Order::row_major ? 1 : p.ldb;
  std::fill_n(blocks.sum, kRows * kColumns, 0.0);
  for (std::int64_t k0 = 0; k0 < p.k; k0 += kDepth) {
    const std::int64_t depth = std::min(kDepth, p.k - k0);
    for (std::int64_t i = 0; i < rows; ++i) {
      for (std::int64_t k = 0; k < depth; ++k) {
        blocks.a[i * kDepth + k] = load_element(
            p.a, pointers.a, entry * p.stride_a + (row + i) * a_row + (k0 + k) * a_column);
      }
    }
    for (std::int64_t k = 0; k < depth; ++k) {
      for (std::int64_t j = 0; j < columns; ++j) {
        blocks.b[k * kColumns + j] = load_element(
            p.b, pointers.b, entry * p.stride_b + (k0 + k) * b_row + (column + j) * b_column);
      }
    }
    for (std::int64_t i = 0; i < rows; ++i) {
      double* sum = blocks.sum + i * kColumns;
      for (std::int64_t k = 0; k < depth; ++k) {
        const double a = blocks.a[i * kDepth + k];
        const double* b = blocks.b + k * kColumns;
        for (std::int64_t j = 0; j < columns; ++j) sum[j] += a * b[j];
      }
    }
  }
}

double ReferenceStep::finish(double sum, const void* const* extra, std::int64_t row,
                             std::int64_t column, std::vector<double>& operands) const {
  const auto& described = problem_.epilogue.operands();
  for (std::size_t i = 0; i < described.size(); ++i) {
    std::int64_t index = 0;
    switch (described[i].index) {
      case EpilogueIndex::scalar:
        break;
      case EpilogueIndex::row:
        index = row;
        break;
      case EpilogueIndex::column:
        index = column;
        break;
      case EpilogueIndex::full:
        index = row * problem_.ldd + column;
        break;
    }
    operands[i] = load_element(described[i].dtype, extra[i], index);
  }
  return problem_.epilogue.evaluate(sum, operands);
}

void ReferenceStep::compute(const StepPointers& pointers, std::int64_t entry, std::int64_t row,
                            std::int64_t column, Blocks& blocks,
                            std::vector<double>& operands) const {
  const Problem& p = problem_;
  const std::int64_t rows = std::min(kRows, pointers.m - row);
  const std::int64_t columns = std::min(kColumns, p.n - column);
  multiply(pointers, entry, row, column, rows, columns, blocks);
  ExtraOperands of_entry;
  const void* const* extra = of_entry.entry(p, pointers.extra, entry);
  const bool identity = p.epilogue.is_identity();
  for (std::int64_t i = 0; i < rows; ++i) {
    for (std::int64_t j = 0; j < columns; ++j) {
      double value = blocks.sum[i * kColumns + j];
      if (!identity) value = finish(value, extra, row + i, column + j, operands);
      store_element(p.d, pointers.d, entry * p.stride_d + (row + i) * p.ldd + column + j, value);
    }
  }
}

Result<void> ReferenceStep::run(const StepPointers& pointers) const {
  const auto memory = memory_.take();
  const Problem& p = problem_;
  const std::int64_t block_rows = (pointers.m + kRows - 1) / kRows;
  const std::int64_t block_columns = (p.n + kColumns - 1) / kColumns;
  const std::int64_t blocks = p.batch * block_rows * block_columns;
  const std::int64_t threads =
      std::min<std::int64_t>(is_tiny(pointers.m, p.n, p.k, p.batch) ? 1 : threads_, blocks);
  ThreadPool::shared().run(static_cast<int>(threads), [&](int thread) {
    const Range mine = piece_of(blocks, 1, threads, thread);
    for (std::int64_t block = mine.begin; block < mine.end; ++block) {
      const std::int64_t entry = block / (block_rows * block_columns);
      const std::int64_t within = block % (block_rows * block_columns);
      const auto slot = static_cast<std::size_t>(thread);
      compute(pointers, entry, within / block_columns * kRows, within % block_columns * kColumns,
              memory->blocks[slot], memory->operands[slot]);
    }
  });
  return {};
}

}  // namespace

Result<std::unique_ptr<LoadedStep>> load_reference_step(const Problem& problem,
                                                        const BuiltStep& step,
                                                        const DeviceSpec& device) {
  if (device.is_cuda()) return fail(ErrorCode::device, "the reference runs on the CPU");
  if (step.artifact.bytes != problem.text()) {
    return fail(ErrorCode::build_failed,
                fmt::format("made for the problem {}", step.artifact.bytes));
  }
  if (!ExtraOperands::fits(problem)) {
    return fail(ErrorCode::build_failed,
                fmt::format("more than {} epilogue operands", ExtraOperands::kMax));
  }
  return std::make_unique<ReferenceStep>(problem, std::max(1, device.threads));
}

}  // namespace culet

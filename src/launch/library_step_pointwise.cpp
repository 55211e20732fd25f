// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// The epilogue step on the CPU: rows, or columns where there are few rows, over the threads.
#include <fmt/format.h>

#include <algorithm>

#include "launch/extra_operands.h"
#include "launch/free_list.h"
#include "launch/library_steps.h"
#include "launch/pointwise.h"
#include "launch/split.h"
#include "launch/thread_pool.h"

namespace culet {

namespace {

class PointwiseStep final : public LoadedStep {
 public:
  PointwiseStep(const Problem& problem, int threads)
      : problem_(problem),
        gemm_(problem_of(problem, Part::gemm)),
        pointwise_(problem, gemm_.d),
        threads_(threads),
        bytes_per_thread_((pointwise_.scratch_bytes() + 63) / 64 * 64),
        memory_([this]() -> std::unique_ptr<AlignedBuffer> {
          auto buffer = std::make_unique<AlignedBuffer>(bytes_per_thread_ *
                                                        static_cast<std::size_t>(threads_));
          return buffer->data() == nullptr ? nullptr : std::move(buffer);
        }) {}

  bool prepare() {
    ThreadPool::shared().reserve(threads_);
    return memory_.prime();
  }

  Result<void> run(const StepPointers& pointers) const override {
    const auto memory = memory_.take();
    if (!memory) return fail(ErrorCode::device, "no memory for an epilogue's scratch");
    const Problem& p = problem_;
    // An element is worth some ten operations of a GEMM.
    const bool tiny = is_tiny(pointers.m, p.n, 5, p.batch);
    const std::int64_t threads = tiny ? 1 : threads_;
    ThreadPool::shared().run(static_cast<int>(threads), [&](int thread) {
      for (std::int64_t entry = 0; entry < p.batch; ++entry) {
        run_part(pointers, entry, threads, thread, memory->data());
      }
    });
    return {};
  }

 private:
  void run_part(const StepPointers& pointers, std::int64_t entry, std::int64_t threads,
                std::int64_t thread, unsigned char* memory) const {
    const Problem& p = problem_;
    const bool by_rows = pointers.m >= threads;
    const Range rows = by_rows ? piece_of(pointers.m, 1, threads, thread) : Range{0, pointers.m};
    const Range columns = by_rows ? Range{0, p.n} : piece_of(p.n, 64, threads, thread);
    ExtraOperands extra;
    Pointwise::Part part;
    part.accumulator = at_element(pointers.temporary, bits(gemm_.d), entry * gemm_.stride_d);
    part.d = at_element(pointers.d, bits(p.d), entry * p.stride_d);
    part.extra = extra.entry(p, pointers.extra, entry);
    part.m_begin = rows.begin;
    part.m_end = rows.end;
    part.n_begin = columns.begin;
    part.n_end = columns.end;
    pointwise_.run(part, memory + static_cast<std::size_t>(thread) * bytes_per_thread_);
  }

  Problem problem_;
  Problem gemm_;  ///< of the step before, whose D is read here
  Pointwise pointwise_;
  int threads_;
  std::size_t bytes_per_thread_;
  mutable FreeList<AlignedBuffer> memory_;
};

}  // namespace

Result<std::unique_ptr<LoadedStep>> load_cpu_pointwise_step(const Problem& problem,
                                                            const BuiltStep& step,
                                                            const DeviceSpec& device) {
  if (device.is_cuda()) return fail(ErrorCode::device, "this epilogue step runs on the CPU");
  if (step.step.part != Part::epilogue) {
    return fail(ErrorCode::build_failed, "cpu_pointwise computes epilogue steps only");
  }
  if (step.artifact.bytes != problem.text()) {
    return fail(ErrorCode::build_failed,
                fmt::format("made for the problem {}", step.artifact.bytes));
  }
  if (!ExtraOperands::fits(problem)) {
    return fail(ErrorCode::build_failed,
                fmt::format("more than {} epilogue operands", ExtraOperands::kMax));
  }
  auto loaded = std::make_unique<PointwiseStep>(problem, std::max(1, device.threads));
  if (!loaded->prepare()) return fail(ErrorCode::device, "no memory for an epilogue's scratch");
  return loaded;
}

}  // namespace culet

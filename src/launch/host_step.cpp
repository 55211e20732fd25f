// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// Kernels on the CPU, compiled in or loaded: divides the problem over threads and batch entries and
// calls the kernel for each part.
#include <fmt/format.h>

#include <algorithm>
#include <atomic>

#include "culet/host_kernel.h"
#include "launch/extra_operands.h"
#include "launch/free_list.h"
#include "launch/host_builtin.h"
#include "launch/loaded_step.h"
#include "launch/pointwise.h"
#include "launch/shared_object.h"
#include "launch/split.h"
#include "launch/thread_pool.h"

namespace culet {

namespace {

/// Memory of one run: per thread the kernel's scratch, then, for a k split, partial sums.
struct RunMemory {
  AlignedBuffer buffer;
};

std::int64_t round_up(std::int64_t value, std::int64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

class HostStep final : public LoadedStep {
 public:
  static Result<std::unique_ptr<LoadedStep>> make(const Problem& problem, const BuiltStep& step);

  Result<void> run(const StepPointers& pointers) const override;
  Result<void> pack(const void* b, void* packed, Stream stream) const override;

 private:
  using Split = HostLaunch::Split;

  explicit HostStep(const Problem& problem, const BuiltStep& step)
      : problem_(problem),
        host_(step.launch.host),
        packed_bytes_(step.launch.packed_b_bytes),
        temporary_stride_(problem_of(problem, Part::gemm).stride_d),
        pointwise_(problem, accumulator()) {}

  DType accumulator() const {
    return problem_.accumulate == Accumulate::s32   ? DType::s32
           : problem_.accumulate == Accumulate::f64 ? DType::f64
                                                    : DType::f32;
  }
  Result<void> find_entries(const BuiltStep& step);
  void size_memory();
  CuletHostKernelArgs arguments(const StepPointers& pointers, std::int64_t batch) const;
  /// Part `part` of `parts` of one batch entry, on thread `thread`.
  void call(const StepPointers& pointers, std::int64_t batch, std::int64_t parts, std::int64_t part,
            std::int64_t thread, unsigned char* memory) const;
  /// Sums the partials of one batch entry into the first, then applies the epilogue.
  void reduce(const StepPointers& pointers, std::int64_t batch, std::int64_t parts,
              std::int64_t threads, unsigned char* memory) const;
  unsigned char* partial(unsigned char* memory, std::int64_t index) const {
    return memory + partials_at_ + index * partial_bytes_;
  }

  Problem problem_;
  HostLaunch host_;
  std::int64_t packed_bytes_;
  std::int64_t temporary_stride_;
  Pointwise pointwise_;
  std::shared_ptr<SharedObject> object_;
  CuletHostKernel kernel_ = nullptr;
  CuletHostPack pack_ = nullptr;

  std::int64_t scratch_per_thread_ = 0;  ///< kernel's, rounded up to cache lines
  std::int64_t partials_at_ = 0;
  std::int64_t partial_bytes_ = 0;  ///< of one partial result; only with a k split
  std::int64_t reduce_scratch_at_ = 0;
  std::int64_t reduce_scratch_bytes_ = 0;
  std::unique_ptr<FreeList<RunMemory>> memory_;
};

Result<void> HostStep::find_entries(const BuiltStep& step) {
  const Artifact& artifact = step.artifact;
  const std::string& pack_entry = step.launch.pack_entry;
  if (artifact.kind == ArtifactKind::host_builtin) {
    kernel_ = find_host_builtin(artifact.entry);
    if (packed_bytes_ > 0) pack_ = find_host_builtin_pack(pack_entry);
  } else if (artifact.kind == ArtifactKind::host_so) {
    auto object = SharedObject::load(artifact.bytes);
    if (!object) return tl::unexpected(object.error());
    object_ = *object;
    kernel_ = reinterpret_cast<CuletHostKernel>(object_->symbol(artifact.entry));
    if (packed_bytes_ > 0) {
      pack_ = reinterpret_cast<CuletHostPack>(object_->symbol(pack_entry));
    }
  } else {
    return fail(ErrorCode::build_failed, "not a kernel for the CPU");
  }
  if (kernel_ == nullptr) {
    return fail(ErrorCode::build_failed, fmt::format("no kernel named '{}'", artifact.entry));
  }
  if (packed_bytes_ > 0 && pack_ == nullptr) {
    return fail(ErrorCode::build_failed, fmt::format("no packing routine named '{}'", pack_entry));
  }
  return {};
}

void HostStep::size_memory() {
  constexpr std::int64_t kLine = AlignedBuffer::kAlign;
  scratch_per_thread_ = round_up(host_.scratch_bytes_per_thread, kLine);
  partials_at_ = scratch_per_thread_ * host_.threads;
  std::int64_t total = partials_at_;
  if (host_.split == Split::k) {
    const std::int64_t rows = std::max(problem_.m, problem_.m_range.high);
    partial_bytes_ = round_up(bytes(accumulator(), rows * problem_.n), kLine);
    reduce_scratch_at_ = partials_at_ + partial_bytes_ * host_.threads;
    reduce_scratch_bytes_ = round_up(static_cast<std::int64_t>(pointwise_.scratch_bytes()), kLine);
    total = reduce_scratch_at_ + reduce_scratch_bytes_ * host_.threads;
  }
  memory_ = std::make_unique<FreeList<RunMemory>>([total]() -> std::unique_ptr<RunMemory> {
    auto memory = std::make_unique<RunMemory>();
    if (total == 0) return memory;
    memory->buffer = AlignedBuffer(static_cast<std::size_t>(total));
    if (memory->buffer.data() == nullptr) return nullptr;
    return memory;
  });
}

Result<std::unique_ptr<LoadedStep>> HostStep::make(const Problem& problem, const BuiltStep& step) {
  const HostLaunch& host = step.launch.host;
  if (host.threads < 1 || host.granularity < 1 || host.scratch_bytes_per_thread < 0) {
    return fail(ErrorCode::build_failed, "a kernel's launch has no threads or no granularity");
  }
  if (!ExtraOperands::fits(problem)) {
    return fail(ErrorCode::build_failed,
                fmt::format("more than {} epilogue operands", ExtraOperands::kMax));
  }
  if (host.split == Split::k && step.step.part == Part::epilogue) {
    return fail(ErrorCode::build_failed, "an epilogue step has no k to split");
  }
  std::unique_ptr<HostStep> loaded(new HostStep(problem, step));
  if (auto found = loaded->find_entries(step); !found) return tl::unexpected(found.error());
  loaded->size_memory();
  if (!loaded->memory_->prime()) return fail(ErrorCode::device, "no memory for a kernel's scratch");
  ThreadPool::shared().reserve(host.threads);
  return loaded;
}

CuletHostKernelArgs HostStep::arguments(const StepPointers& pointers, std::int64_t batch) const {
  const Problem& p = problem_;
  CuletHostKernelArgs args{};
  args.a = at_element(pointers.a, bits(p.a), batch * p.stride_a);
  // A packed buffer holds one B per batch entry, unless all share it.
  const bool shared_b = p.batch == 1 || p.stride_b == 0;
  args.b = packed_bytes_ == 0 ? at_element(pointers.b, bits(p.b), batch * p.stride_b)
           : shared_b         ? pointers.packed_b
                              : at_element(pointers.packed_b, 8, batch * (packed_bytes_ / p.batch));
  args.d = at_element(pointers.d, bits(p.d), batch * p.stride_d);
  if (pointers.temporary != nullptr) {
    args.temporary = at_element(pointers.temporary, bits(accumulator()), batch * pointers.m * p.n);
  }
  args.m = pointers.m;
  args.n = p.n;
  args.k = p.k;
  args.lda = p.lda;
  args.ldb = p.ldb;
  args.ldd = p.ldd;
  args.m_end = pointers.m;
  args.n_end = p.n;
  args.k_end = p.k;
  return args;
}

void HostStep::call(const StepPointers& pointers, std::int64_t batch, std::int64_t parts,
                    std::int64_t part, std::int64_t thread, unsigned char* memory) const {
  CuletHostKernelArgs args = arguments(pointers, batch);
  ExtraOperands extra;
  args.extra = extra.entry(problem_, pointers.extra, batch);
  args.scratch = memory + thread * scratch_per_thread_;
  if (host_.split == Split::m) {
    const Range range = piece_of(args.m, host_.granularity, parts, part);
    args.m_begin = range.begin;
    args.m_end = range.end;
    if (range.empty()) return;
  } else if (host_.split == Split::n) {
    const Range range = piece_of(args.n, host_.granularity, parts, part);
    args.n_begin = range.begin;
    args.n_end = range.end;
    if (range.empty()) return;
  } else if (host_.split == Split::k) {
    const Range range = piece_of(args.k, host_.granularity, parts, part);
    args.k_begin = range.begin;
    args.k_end = range.end;
    args.d = partial(memory, part);
    args.ldd = args.n;
    args.extra = nullptr;
  }
  kernel_(&args);
}

template <typename T>
void add_partials(unsigned char* first, std::int64_t partial_bytes, std::int64_t parts,
                  std::int64_t begin, std::int64_t end) {
  T* sum = reinterpret_cast<T*>(first);
  for (std::int64_t part = 1; part < parts; ++part) {
    const T* other = reinterpret_cast<const T*>(first + part * partial_bytes);
    for (std::int64_t i = begin; i < end; ++i) sum[i] += other[i];
  }
}

void HostStep::reduce(const StepPointers& pointers, std::int64_t batch, std::int64_t parts,
                      std::int64_t threads, unsigned char* memory) const {
  const CuletHostKernelArgs args = arguments(pointers, batch);
  ThreadPool::shared().run(static_cast<int>(threads), [&](int thread) {
    // Rows where there are enough of them, else columns.
    const bool by_rows = args.m >= threads;
    const Range rows = by_rows ? piece_of(args.m, 1, threads, thread) : Range{0, args.m};
    const Range columns = by_rows ? Range{0, args.n} : piece_of(args.n, 16, threads, thread);
    unsigned char* first = partial(memory, 0);
    for (std::int64_t row = rows.begin; row < rows.end; ++row) {
      const std::int64_t begin = row * args.n + columns.begin;
      const std::int64_t end = row * args.n + columns.end;
      switch (accumulator()) {
        case DType::s32:
          add_partials<std::int32_t>(first, partial_bytes_, parts, begin, end);
          break;
        case DType::f64:
          add_partials<double>(first, partial_bytes_, parts, begin, end);
          break;
        default:
          add_partials<float>(first, partial_bytes_, parts, begin, end);
          break;
      }
    }
    ExtraOperands extra;
    Pointwise::Part part;
    part.accumulator = first;
    part.d = args.d;
    part.extra = extra.entry(problem_, pointers.extra, batch);
    part.m_begin = rows.begin;
    part.m_end = rows.end;
    part.n_begin = columns.begin;
    part.n_end = columns.end;
    pointwise_.run(part, memory + reduce_scratch_at_ + thread * reduce_scratch_bytes_);
  });
}

Result<void> HostStep::run(const StepPointers& pointers) const {
  const auto memory = memory_->take();
  if (!memory) return fail(ErrorCode::device, "no memory for a kernel's scratch");
  unsigned char* base = memory->buffer.data();
  const std::int64_t batch = problem_.batch;
  const std::int64_t threads =
      is_tiny(pointers.m, problem_.n, problem_.k, batch) ? 1 : host_.threads;

  if (host_.split == Split::k) {
    // Batch entries one after the other: the partials of one are all the memory there is.
    const std::int64_t granules = (problem_.k + host_.granularity - 1) / host_.granularity;
    const std::int64_t parts = std::clamp<std::int64_t>(granules, 1, threads);
    for (std::int64_t entry = 0; entry < batch; ++entry) {
      ThreadPool::shared().run(static_cast<int>(parts),
                               [&](int part) { call(pointers, entry, parts, part, part, base); });
      reduce(pointers, entry, parts, threads, base);
    }
    return {};
  }

  // Whole batch entries where they divide evenly, else parts of entries.
  const bool whole_entries = host_.split == Split::none || threads == 1 || batch % threads == 0;
  const std::int64_t parts = whole_entries ? 1 : threads;
  const std::int64_t items = batch * parts;
  const std::int64_t used = std::min(threads, items);
  if (used == 1) {
    for (std::int64_t item = 0; item < items; ++item) {
      call(pointers, item / parts, parts, item % parts, 0, base);
    }
    return {};
  }
  ThreadPool::shared().run(static_cast<int>(used), [&](int thread) {
    const Range mine = piece_of(items, 1, used, thread);
    for (std::int64_t item = mine.begin; item < mine.end; ++item) {
      call(pointers, item / parts, parts, item % parts, thread, base);
    }
  });
  return {};
}

Result<void> HostStep::pack(const void* b, void* packed, Stream) const {
  if (pack_ == nullptr) return fail(ErrorCode::unsupported, "this kernel reads B as it is");
  const bool shared_b = problem_.batch == 1 || problem_.stride_b == 0;
  const std::int64_t entries = shared_b ? 1 : problem_.batch;
  StepPointers pointers;
  pointers.m = problem_.m;
  for (std::int64_t entry = 0; entry < entries; ++entry) {
    CuletHostKernelArgs args = arguments(pointers, 0);
    args.b = at_element(b, bits(problem_.b), entry * problem_.stride_b);
    pack_(&args, at_element(packed, 8, entry * (packed_bytes_ / entries)));
  }
  return {};
}

}  // namespace

Result<std::unique_ptr<LoadedStep>> load_host_step(const Problem& problem, const BuiltStep& step,
                                                   const DeviceSpec& device) {
  if (device.is_cuda()) return fail(ErrorCode::device, "a kernel for the CPU on a CUDA device");
  return HostStep::make(problem, step);
}

}  // namespace culet

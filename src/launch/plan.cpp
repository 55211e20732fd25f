// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// Plan: loaded steps in order, and the layout of the workspace they share. Everything that can be
// checked is checked before the first step starts, so that an error leaves nothing launched.
#include "culet/plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "launch/loaded_step.h"

namespace culet {

namespace {

constexpr std::size_t kMaxSteps = 8;
constexpr std::int64_t kTemporaryAlign = 256;
constexpr std::int64_t kPackedAlign = 64;

std::int64_t round_up(std::int64_t value, std::int64_t align) {
  return (value + align - 1) / align * align;
}

/// Of epilogue operands on a GPU, whose kernels read them in pieces of up to 16 bytes.
constexpr std::int64_t kOperandAlign = 16;

bool is_aligned(const void* pointer, std::int64_t align) {
  return reinterpret_cast<std::uintptr_t>(pointer) % static_cast<std::uintptr_t>(align) == 0;
}

/// Where everything lies in the workspace, for one m.
struct Layout {
  std::int64_t temporary = 0;
  std::array<std::int64_t, kMaxSteps> scratch{};
  Workspace whole;
};

tl::unexpected<Error> wrong(std::string message) {
  return fail(ErrorCode::invalid_argument, std::move(message));
}

}  // namespace

struct Plan::Impl {
  Problem problem;
  Problem gemm;  ///< of a gemm step: problem_of(problem, Part::gemm)
  Candidate candidate;
  bool on_cpu = true;
  bool has_temporary = false;
  std::int64_t packed_bytes = 0;
  struct LaunchedStep {
    Part part = Part::all;
    MValue workspace_bytes;
    std::int64_t align = 1;
    std::int64_t zeroed_prefix = 0;
    bool packed = false;
    std::unique_ptr<LoadedStep> loaded;
  };
  std::vector<LaunchedStep> steps;

  Result<void> add_step(const BuiltStep& built, const DeviceSpec& device);
  Result<void> check_order() const;
  Layout layout(std::int64_t m) const;
  Result<void> check_m(std::int64_t m) const;
  Result<void> check_operands(const Arguments& arguments) const;
  Result<void> check_memory(const Arguments& arguments, const Layout& layout) const;
  Result<void> check_pointer(const char* name, const void* pointer, std::int64_t align) const;
};

Result<void> Plan::Impl::add_step(const BuiltStep& built, const DeviceSpec& device) {
  const bool is_gemm = built.step.part == Part::gemm;
  auto loaded = load_step(is_gemm ? gemm : problem, built, device);
  if (!loaded) {
    Error error = loaded.error();
    error.message = fmt::format("{}: {}", built.step.backend, error.message);
    return tl::unexpected(std::move(error));
  }
  const LaunchSpec& launch = built.launch;
  if (launch.packed_b_bytes > 0 && packed_bytes > 0) {
    return fail(ErrorCode::build_failed, "two steps of a candidate pack B");
  }
  packed_bytes = std::max(packed_bytes, launch.packed_b_bytes);
  steps.push_back({built.step.part, launch.workspace_bytes,
                   std::max<std::int64_t>(launch.workspace_align, 1), launch.zeroed_prefix,
                   launch.packed_b_bytes > 0, std::move(*loaded)});
  return {};
}

/// One step that does all, or a gemm step and the epilogue step that finishes it.
Result<void> Plan::Impl::check_order() const {
  const bool one = steps.size() == 1 && steps[0].part == Part::all;
  const bool two =
      steps.size() == 2 && steps[0].part == Part::gemm && steps[1].part == Part::epilogue;
  if (one || two) return {};
  return fail(ErrorCode::build_failed,
              fmt::format("'{}' is neither one whole step nor a gemm and an epilogue step",
                          candidate.text()));
}

/// Scratch with a zeroed prefix comes first, because its place must not depend on m; then the
/// temporary; then all other scratch.
Layout Plan::Impl::layout(std::int64_t m) const {
  Layout layout;
  std::int64_t end = 0;
  std::int64_t align = kTemporaryAlign;
  const std::int64_t high = problem.m_range.high;
  for (std::size_t i = 0; i < steps.size(); ++i) {
    const LaunchedStep& step = steps[i];
    align = std::max(align, step.align);
    if (step.zeroed_prefix <= 0) continue;
    layout.scratch[i] = round_up(end, step.align);
    layout.whole.zeroed_prefix = layout.scratch[i] + step.zeroed_prefix;
    // What follows may be another zeroed prefix: it moves only if this one's size follows m.
    end = layout.scratch[i] + std::max(step.workspace_bytes.at(m), step.zeroed_prefix);
    const bool last = std::none_of(steps.begin() + static_cast<std::ptrdiff_t>(i) + 1, steps.end(),
                                   [](const LaunchedStep& s) { return s.zeroed_prefix > 0; });
    if (!last) end = std::max(end, layout.scratch[i] + step.workspace_bytes.at(high));
  }
  if (has_temporary) {
    layout.temporary = round_up(end, kTemporaryAlign);
    const std::int64_t elements =
        m == 0 || gemm.batch == 0 ? 0 : (gemm.batch - 1) * gemm.stride_d + m * gemm.n;
    end = layout.temporary + bytes(gemm.d, elements);
  }
  for (std::size_t i = 0; i < steps.size(); ++i) {
    if (steps[i].zeroed_prefix > 0) continue;
    const std::int64_t size = steps[i].workspace_bytes.at(m);
    if (size <= 0) continue;
    layout.scratch[i] = round_up(end, steps[i].align);
    end = layout.scratch[i] + size;
  }
  layout.whole.bytes = end;
  layout.whole.align = align;
  return layout;
}

Result<void> Plan::Impl::check_m(std::int64_t m) const {
  if (m >= problem.m_range.low && m <= problem.m_range.high) return {};
  return wrong(fmt::format("m: {} is outside {}..{}, which this plan is for", m,
                           problem.m_range.low, problem.m_range.high));
}

Result<void> Plan::Impl::check_pointer(const char* name, const void* pointer,
                                       std::int64_t align) const {
  if (pointer == nullptr) return wrong(fmt::format("{}: a null pointer", name));
  if (on_cpu && !is_aligned(pointer, align)) {
    return wrong(fmt::format("{}: {} is not aligned to {} bytes, as the problem promises", name,
                             pointer, align));
  }
  return {};
}

Result<void> Plan::Impl::check_operands(const Arguments& arguments) const {
  Result<void> good = check_pointer("d", arguments.d, problem.align_d);
  if (good && problem.k > 0) {
    good = check_pointer("a", arguments.a, problem.align_a);
    if (good && packed_bytes == 0) good = check_pointer("b", arguments.b, problem.align_b);
  }
  const auto& operands = problem.epilogue.operands();
  if (!good || operands.empty()) return good;
  if (arguments.extra == nullptr) {
    return wrong(fmt::format("extra: null, but the epilogue has {} operands", operands.size()));
  }
  for (std::size_t i = 0; i < operands.size(); ++i) {
    if (arguments.extra[i] == nullptr)
      return wrong(fmt::format("extra[{}] ('{}'): a null pointer", i, operands[i].name));
    const std::int64_t align = operands[i].index == EpilogueIndex::full
                                   ? std::min<std::int64_t>(problem.align_d, kOperandAlign)
                                   : kOperandAlign;
    if (!on_cpu && !is_aligned(arguments.extra[i], align)) {
      return wrong(fmt::format("extra[{}] ('{}'): {} is not aligned to {} bytes", i,
                               operands[i].name, arguments.extra[i], align));
    }
  }
  return {};
}

Result<void> Plan::Impl::check_memory(const Arguments& arguments, const Layout& layout) const {
  if (layout.whole.bytes > 0) {
    if (arguments.workspace == nullptr) {
      return wrong(
          fmt::format("workspace: null, but this plan needs {} bytes", layout.whole.bytes));
    }
    if (!is_aligned(arguments.workspace, layout.whole.align)) {
      return wrong(fmt::format("workspace: {} is not aligned to {} bytes", arguments.workspace,
                               layout.whole.align));
    }
  }
  if (packed_bytes == 0) return {};
  const PackedOperand* packed = arguments.packed_b;
  if (packed == nullptr || packed->data == nullptr) {
    return wrong("packed_b: missing; this plan reads B from what Plan::prepare() made");
  }
  if (packed->bytes < packed_bytes) {
    return wrong(
        fmt::format("packed_b: {} bytes, but this plan's has {}", packed->bytes, packed_bytes));
  }
  return {};
}

Result<Plan> Plan::load(const Problem& problem, const BuiltCandidate& built,
                        const DeviceSpec& device) {
  const Result<Problem> valid = problem.validated();
  if (!valid) return tl::unexpected(valid.error());
  if (built.steps.empty() || built.steps.size() > kMaxSteps) {
    return fail(ErrorCode::build_failed,
                fmt::format("a candidate of {} steps", built.steps.size()));
  }
  auto impl = std::make_shared<Impl>();
  impl->problem = *valid;
  impl->gemm = problem_of(*valid, Part::gemm);
  impl->candidate = built.candidate;
  impl->on_cpu = !device.is_cuda();
  for (const BuiltStep& step : built.steps) {
    if (auto added = impl->add_step(step, device); !added) return tl::unexpected(added.error());
  }
  if (auto good = impl->check_order(); !good) return tl::unexpected(good.error());
  impl->has_temporary = impl->steps.size() == 2;
  Plan plan;
  plan.impl_ = std::move(impl);
  return plan;
}

const Problem& Plan::problem() const { return impl_->problem; }
const Candidate& Plan::candidate() const { return impl_->candidate; }
std::int64_t Plan::packed_bytes() const { return impl_->packed_bytes; }

Workspace Plan::workspace(std::int64_t m) const {
  return impl_->layout(m < 0 ? impl_->problem.m : m).whole;
}

Result<PackedOperand> Plan::prepare(const void* b, void* memory, Stream stream) const {
  if (impl_->packed_bytes == 0) {
    return wrong("prepare: this plan reads B as it is (packed_bytes() is 0)");
  }
  const Problem& p = impl_->problem;
  const bool has_elements = p.n > 0 && p.k > 0 && p.batch > 0;
  if (has_elements) {
    if (auto good = impl_->check_pointer("b", b, p.align_b); !good) {
      return tl::unexpected(good.error());
    }
  }
  if (memory == nullptr) return wrong("prepare: memory is a null pointer");
  if (!is_aligned(memory, kPackedAlign)) {
    return wrong(
        fmt::format("prepare: memory {} is not aligned to {} bytes", memory, kPackedAlign));
  }
  for (const auto& step : impl_->steps) {
    if (!step.packed || !has_elements) continue;
    if (auto packed = step.loaded->pack(b, memory, stream); !packed) {
      return tl::unexpected(packed.error());
    }
  }
  return PackedOperand{memory, impl_->packed_bytes};
}

Result<void> Plan::run(const Arguments& arguments, const RunOptions& options) const {
  const Impl& impl = *impl_;
  const Problem& p = impl.problem;
  const std::int64_t m = arguments.m < 0 ? p.m : arguments.m;
  if (auto good = impl.check_m(m); !good) return good;
  if (m == 0 || p.n == 0 || p.batch == 0) return {};
  if (auto good = impl.check_operands(arguments); !good) return good;
  const Layout layout = impl.layout(m);
  if (auto good = impl.check_memory(arguments, layout); !good) return good;

  auto* workspace = static_cast<unsigned char*>(arguments.workspace);
  for (std::size_t i = 0; i < impl.steps.size(); ++i) {
    const auto& step = impl.steps[i];
    StepPointers pointers;
    pointers.a = arguments.a;
    pointers.b = arguments.b;
    pointers.d = step.part == Part::gemm ? workspace + layout.temporary : arguments.d;
    pointers.extra = arguments.extra;
    if (step.part == Part::epilogue) pointers.temporary = workspace + layout.temporary;
    if (workspace != nullptr) pointers.scratch = workspace + layout.scratch[i];
    if (step.packed) pointers.packed_b = arguments.packed_b->data;
    pointers.m = m;
    pointers.stream = options.stream;
    // Only the first step may start before what the caller launched earlier has ended.
    pointers.pdl = options.pdl && i == 0;
    if (auto good = step.loaded->run(pointers); !good) return good;
  }
  return {};
}

}  // namespace culet

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// D = A*B in one call. Plans are kept per process, by a key made of numbers only, so that a
// repeated call costs a hash look-up under a shared lock; making a plan (the store, the vendor's
// default, the model, or a tuning run) happens once.
#include "culet/matmul.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <mutex>
#include <shared_mutex>
#include <unordered_map>

#include "base/hash.h"
#include "culet/settings.h"
#include "culet/tuner.h"
#include "device/cuda.h"
#include "device/find_device.h"

namespace culet {
namespace {

/// Everything that selects a plan. Texts are part of it through their hashes.
struct Key {
  std::array<std::int64_t, 20> words{};
  bool operator==(const Key&) const = default;
};

struct KeyHash {
  std::size_t operator()(const Key& key) const {
    std::uint64_t h = 0x9e3779b97f4a7c15u;
    for (std::int64_t word : key.words)
      h = (h ^ static_cast<std::uint64_t>(word)) * 0xff51afd7ed558ccdu, h ^= h >> 32;
    return static_cast<std::size_t>(h);
  }
};

/// Alignment of a pointer in bytes, 16 at most: what plans are made for.
int alignment(const void* pointer) {
  const auto address = reinterpret_cast<std::uintptr_t>(pointer);
  int align = 16;
  while (align > 1 && address % static_cast<std::uintptr_t>(align) != 0) align /= 2;
  return align;
}

void add_view(const MatrixView& view, Key* key, std::size_t* at) {
  key->words[(*at)++] = view.rows;
  key->words[(*at)++] = view.columns;
  key->words[(*at)++] = view.row_stride;
  key->words[(*at)++] = view.column_stride;
  key->words[(*at)++] =
      view.batch * 4096 + static_cast<int>(view.dtype) * 64 + alignment(view.data);
  key->words[(*at)++] = view.batch_stride;
}

Key make_key(const MatrixView& a, const MatrixView& b, const MatrixView& d,
             const MatmulOptions& options) {
  Key key;
  std::size_t at = 0;
  add_view(a, &key, &at);
  add_view(b, &key, &at);
  add_view(d, &key, &at);
  key.words[at++] =
      static_cast<std::int64_t>(hash64(options.device) ^ (hash64(options.epilogue) * 3));
  key.words[at++] =
      static_cast<std::int64_t>(hash64(options.cache)) ^ static_cast<std::int64_t>(options.on_miss);
  return key;
}

struct Operator {
  Plan plan;
  DeviceKind kind = DeviceKind::cpu;
  Workspace workspace;
};

bool capturing(Stream stream) {
  auto driver = cuda_driver();
  int status = 0;
  if (!driver || (*driver)->stream_is_capturing == nullptr) return false;
  (*driver)->stream_is_capturing(static_cast<cuda::CUstream>(stream), &status);
  return status != 0;
}

/// Scratch memory of matmul(), one owner per thread. On a GPU a buffer belongs to one stream, whose
/// order keeps its uses apart; a grown buffer's predecessors stay until the thread ends, since
/// earlier work may still use them.
class Scratch {
 public:
  Result<void*> get(const Operator& op, Stream stream) {
    if (op.workspace.bytes == 0) return nullptr;
    return op.kind == DeviceKind::cpu ? host(op.workspace) : device(op.workspace, stream);
  }

 private:
  Result<void*> host(const Workspace& wanted) {
    constexpr std::uintptr_t kPage = 4096;
    const auto bytes = static_cast<std::size_t>(wanted.bytes) + kPage;
    if (host_.size() < bytes) host_.resize(bytes);
    const auto address =
        (reinterpret_cast<std::uintptr_t>(host_.data()) + kPage - 1) & ~(kPage - 1);
    std::memset(reinterpret_cast<void*>(address), 0,
                static_cast<std::size_t>(wanted.zeroed_prefix));
    return reinterpret_cast<void*>(address);
  }

  Result<void*> device(const Workspace& wanted, Stream stream) {
    auto& buffers = device_[stream];
    if (buffers.empty() || buffers.back().bytes() < wanted.bytes) {
      if (capturing(stream)) {
        return fail(
            ErrorCode::device,
            "matmul needs more workspace during stream capture; run it once before capturing");
      }
      auto buffer = cuda::DeviceBuffer::allocate(wanted.bytes);
      if (!buffer) return tl::unexpected(buffer.error());
      buffers.push_back(std::move(*buffer));
    }
    if (wanted.zeroed_prefix > 0) {  // another plan may have used the buffer since
      auto driver = cuda_driver();
      if (!driver) return tl::unexpected(driver.error());
      const auto code = (*driver)->memset_d8_async(buffers.back().address(), 0,
                                                   static_cast<std::size_t>(wanted.zeroed_prefix),
                                                   static_cast<cuda::CUstream>(stream));
      if (auto ok = cuda::check(code, "cuMemsetD8Async"); !ok) return tl::unexpected(ok.error());
    }
    return buffers.back().data();
  }

  std::vector<char> host_;
  std::map<Stream, std::vector<cuda::DeviceBuffer>> device_;
};

class Operators {
 public:
  const Operator* find(const Key& key) const {
    const std::shared_lock lock(mutex_);
    const auto at = map_.find(key);
    return at == map_.end() ? nullptr : at->second.get();
  }
  const Operator* add(const Key& key, Operator op) {
    const std::unique_lock lock(mutex_);
    auto& slot = map_[key];
    if (!slot) slot = std::make_unique<Operator>(std::move(op));
    return slot.get();
  }

 private:
  mutable std::shared_mutex mutex_;
  std::unordered_map<Key, std::unique_ptr<Operator>, KeyHash> map_;
};

Operators& operators() {
  static auto* all =
      new Operators;  // never destroyed: calls may come from other static destructors
  return *all;
}

/// The candidate for a miss in the store.
Result<Candidate> on_miss(Tuner& tuner, const Problem& problem, OnMiss policy) {
  if (policy == OnMiss::error) {
    return fail(ErrorCode::no_candidate,
                fmt::format("{}: not tuned (run `culet tune '{}'`, or use another on_miss)",
                            problem.text(), problem.text()));
  }
  if (policy == OnMiss::tune) {
    auto report = tuner.tune(problem);
    if (!report) return tl::unexpected(report.error());
    if (report->choice() == nullptr) return fail(ErrorCode::no_candidate, report->why);
    return report->choice()->candidate;
  }
  const auto found = tuner.registry().discover(problem, tuner.device(), tuner.options().backends);
  const auto allowed = [&](const RankedCandidate& item) {
    return tuner.options().overrides.denied(item.candidate).empty();
  };
  for (const RankedCandidate& item : found) {
    if (item.vendor == (policy == OnMiss::vendor) && allowed(item)) return item.candidate;
  }
  const auto first = std::find_if(found.begin(), found.end(), allowed);
  if (first != found.end()) return first->candidate;
  return fail(ErrorCode::no_candidate,
              fmt::format("{}: no backend can compute it", problem.text()));
}

/// What was chosen before: what the user pinned, where it was found correct here, else the newest
/// selection, unless it is denied.
std::optional<Candidate> known_choice(Tuner& tuner, const Problem& problem) {
  const Overrides& overrides = tuner.options().overrides;
  const Candidate* pinned = overrides.pinned(problem, tuner.device().kind);
  if (pinned != nullptr && overrides.denied(*pinned).empty()) {
    const auto trial = tuner.stored_trial(problem, *pinned);
    if (trial && trial->outcome == Outcome::measured) return *pinned;
  }
  auto selected = tuner.cache().find_any_selection(problem, tuner.device().identity());
  if (selected && !overrides.denied(*selected).empty()) return std::nullopt;
  return selected;
}

Result<Operator> make_operator(const Problem& problem, const MatmulOptions& options) {
  auto device = identify_device(options.device);
  if (!device) return tl::unexpected(device.error());
  if (device->is_cuda() && capturing(options.stream)) {
    return fail(
        ErrorCode::device,
        fmt::format(
            "{}: first call during stream capture; call it once before capturing, so that its "
            "plan is loaded",
            problem.text()));
  }
  auto cache = open_cache(options.cache);
  if (!cache) return tl::unexpected(cache.error());
  Registry registry = Registry::standard();
  auto tuning = options_from_environment(registry);
  if (!tuning) return tl::unexpected(tuning.error());
  auto overrides = load_overrides(options.cache);
  if (!overrides) return tl::unexpected(overrides.error());
  tuning->overrides = std::move(*overrides);
  {
    Tuner tuner(registry, *device, *tuning, *cache);
    if (const auto known = known_choice(tuner, problem)) {
      if (auto plan = tuner.plan(problem, *known)) {
        return Operator{*plan, device->kind, plan->workspace()};
      }  // a selection that no longer builds (another library version) is a miss
    }
  }
  rate_device(&*device);
  Tuner tuner(std::move(registry), *device, std::move(*tuning), *cache);
  auto candidate = on_miss(tuner, problem, options.on_miss);
  if (!candidate) return tl::unexpected(candidate.error());
  auto plan = tuner.plan(problem, *candidate);
  if (!plan) return tl::unexpected(plan.error());
  return Operator{*plan, device->kind, plan->workspace()};
}

/// Order and leading dimension of a view; the view's name is for the message.
Result<std::pair<Order, std::int64_t>> order_of(const MatrixView& view, std::string_view name) {
  if (view.column_stride == 1 && (view.row_stride >= view.columns || view.rows <= 1)) {
    return std::pair(Order::row_major, std::max(view.row_stride, view.columns));
  }
  if (view.row_stride == 1 && (view.column_stride >= view.rows || view.columns <= 1)) {
    return std::pair(Order::col_major, std::max(view.column_stride, view.rows));
  }
  return fail(ErrorCode::invalid_argument,
              fmt::format("{}: strides {} and {} of a {}x{} matrix; one must be 1 and the other at "
                          "least the row (or column) "
                          "length",
                          name, view.row_stride, view.column_stride, view.rows, view.columns));
}

/// Kernels on a GPU read epilogue operands in pieces of 16 bytes.
Result<void> check_extra(const Operator& op, const void* const* extra) {
  const auto& operands = op.plan.problem().epilogue.operands();
  if (operands.empty()) return {};
  if (extra == nullptr) {
    return fail(ErrorCode::invalid_argument,
                fmt::format("the epilogue has {} operands, but MatmulOptions::extra is null",
                            operands.size()));
  }
  for (std::size_t i = 0; op.kind == DeviceKind::cuda && i < operands.size(); ++i) {
    if (alignment(extra[i]) < 16) {
      return fail(
          ErrorCode::invalid_argument,
          fmt::format("epilogue operand '{}' must be aligned to 16 bytes", operands[i].name));
    }
  }
  return {};
}

}  // namespace

Result<Problem> problem_of(const MatrixView& a, const MatrixView& b, const MatrixView& d,
                           std::string_view epilogue) {
  if (a.columns != b.rows || a.rows != d.rows || b.columns != d.columns) {
    return fail(ErrorCode::invalid_argument,
                fmt::format("shapes do not fit: A is {}x{}, B {}x{}, D {}x{}", a.rows, a.columns,
                            b.rows, b.columns, d.rows, d.columns));
  }
  if ((a.batch != d.batch && a.batch != 1) || (b.batch != d.batch && b.batch != 1)) {
    return fail(ErrorCode::invalid_argument,
                fmt::format("batches do not fit: A {}, B {}, D {} (A and B may also be 1)", a.batch,
                            b.batch, d.batch));
  }
  const auto a_order = order_of(a, "A");
  const auto b_order = order_of(b, "B");
  const auto d_order = order_of(d, "D");
  if (!a_order) return tl::unexpected(a_order.error());
  if (!b_order) return tl::unexpected(b_order.error());
  if (!d_order) return tl::unexpected(d_order.error());
  if (d_order->first == Order::col_major && d.rows > 1 && d.columns > 1) {
    return fail(ErrorCode::unsupported,
                "D is column-major: compute the transposed product, D' = B' * A', instead");
  }
  Problem problem;
  problem.m = d.rows;
  problem.n = d.columns;
  problem.k = a.columns;
  problem.batch = d.batch;
  problem.a = a.dtype;
  problem.b = b.dtype;
  problem.d = d.dtype;
  problem.a_order = a_order->first;
  problem.b_order = b_order->first;
  problem.lda = a_order->second;
  problem.ldb = b_order->second;
  problem.ldd = std::max(d.row_stride, d.columns);
  if (d.batch > 1) {
    problem.stride_a = a.batch == 1 ? 0 : a.batch_stride;
    problem.stride_b = b.batch == 1 ? 0 : b.batch_stride;
    problem.stride_d = d.batch_stride;
  }
  problem.align_a = alignment(a.data);
  problem.align_b = alignment(b.data);
  problem.align_d = alignment(d.data);
  problem.accumulate = is_integer(a.dtype)     ? Accumulate::s32
                       : a.dtype == DType::f64 ? Accumulate::f64
                                               : Accumulate::f32;
  if (!epilogue.empty()) {
    auto parsed = Epilogue::parse(epilogue, d.dtype);
    if (!parsed) return tl::unexpected(parsed.error());
    problem.epilogue = *parsed;
  }
  return problem.validated();
}

Result<void> matmul(const MatrixView& a, const MatrixView& b, const MatrixView& d,
                    const MatmulOptions& options) {
  const Key key = make_key(a, b, d, options);
  const Operator* op = operators().find(key);
  if (op == nullptr) {
    auto problem = problem_of(a, b, d, options.epilogue);
    if (!problem) return tl::unexpected(problem.error());
    if (problem->is_empty()) return {};
    auto made = make_operator(*problem, options);
    if (!made) return tl::unexpected(made.error());
    op = operators().add(key, std::move(*made));
  }
  if (auto ok = check_extra(*op, options.extra); !ok) return ok;
  thread_local Scratch scratch;
  auto workspace = scratch.get(*op, options.stream);
  if (!workspace) return tl::unexpected(workspace.error());
  Arguments arguments;
  arguments.a = a.data;
  arguments.b = b.data;
  arguments.d = d.data;
  arguments.extra = options.extra;
  arguments.workspace = *workspace;
  RunOptions run;
  run.stream = options.stream;
  return op->plan.run(arguments, run);
}

}  // namespace culet

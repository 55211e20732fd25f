// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// Verifies and times candidates on a CUDA device, in this process. Where kernels can be compiled
// the checking runs on the device, over every element; without NVRTC the host checks samples.
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <map>
#include <optional>

#include "benchmark/cuda_entrant.h"
#include "benchmark/cuda_kernels.h"
#include "benchmark/host_memory.h"
#include "benchmark/race.h"
#include "benchmark/reference.h"
#include "benchmark/runners.h"

namespace culet::benchmark {
namespace {

using Clock = std::chrono::steady_clock;

/// Operations the reference on the device may take: a second or less on a data-centre GPU.
constexpr double kFullFlops = 2e12, kSampleFlops = 5e10;

/// What a launch may take on the host beside: waits for the device end by themselves, so this is
/// for a launch that does not return.
constexpr double kHostSlack = 20;

constexpr const char* kHangs = "an earlier candidate never ended and still occupies the device";

/// Set once and for all: nothing on that device will ever be done, and waiting for it never ends.
std::atomic<bool> device_hangs = false;

template <typename T>
tl::unexpected<Error> failed(const Result<T>& result) {
  return tl::unexpected<Error>(result.error());
}

struct DeviceCase {
  CheckCase check;
  cuda::DeviceBuffer block;
  std::unique_ptr<DeviceReference> full, sampled;
  // Without NVRTC:
  HostBlock mirror;
  std::unique_ptr<HostReference> host;
};

class CudaRunner : public TrialRunner {
 public:
  CudaRunner(const Problem& problem, const DeviceSpec& device, const RunnerOptions& options)
      : TrialRunner(problem, device, options) {}
  ~CudaRunner() override;

  Result<void> allocate();

  Verification verify(const BuiltCandidate& candidate, bool full) override;
  Result<double> sample(const BuiltCandidate& candidate, double settle_seconds) override;
  void leave(const BuiltCandidate& candidate) override;
  bool usable() const override { return broken_.empty(); }

 private:
  Result<void> fill(const SetLayout& layout, const SetSeed& seed, cuda::DeviceBuffer& block);
  Result<void> make_cases();
  Result<void> make_copies();

  Result<Verification> run_case(const Plan& plan, const DeviceScratch& scratch, DeviceCase& on,
                                bool second_run, bool full, const cuda::DeviceBuffer* saved);
  Result<Verification> verify_all(const Plan& plan, bool full);
  Result<bool> run_once(const Plan& plan, const DeviceScratch& scratch, DeviceCase& on);
  Result<Verification> check_on_device(DeviceCase& on, std::uint32_t poison, bool full,
                                       const cuda::DeviceBuffer* saved);
  Result<Verification> check_on_host(DeviceCase& on, std::uint32_t poison);
  Result<const DeviceReference*> reference(DeviceCase& on, bool full);
  Result<std::string> describe(const DeviceCase& on, verify::u64 index);
  std::string surface_complaint(const DeviceCase& on, const verify::SurfaceResult& found) const;
  Result<void> enter_race(std::unique_ptr<CudaEntrant>& entrant, const BuiltCandidate& candidate);
  void watch(double seconds) const {
    if (options_.watch) options_.watch(seconds);
  }

  Verification verdict_of(const Error& error);
  void note_if_broken(const Error& error);
  void note_failure(const Error& error);
  bool must_repeat_bitwise() const { return problem_.deterministic || is_integer(problem_.d); }

  double memory_left_ = 0, rotate_bytes_ = 0;
  cuda::Stream stream_;
  std::unique_ptr<CheckKernels> kernels_;  ///< null without NVRTC
  std::vector<DeviceCase> cases_;
  std::vector<cuda::DeviceBuffer> copies_;
  std::vector<SetPointers> sets_;
  std::map<const BuiltCandidate*, std::unique_ptr<CudaEntrant>> entrants_;
  std::string broken_;    ///< why the context can no longer be used
  bool hanging_ = false;  ///< a kernel never ended: freeing anything would wait for it
};

CudaRunner::~CudaRunner() {
  if (!hanging_) return;
  // Left to the end of the process on purpose.
  (void)new std::vector<DeviceCase>(std::move(cases_));
  (void)new std::vector<cuda::DeviceBuffer>(std::move(copies_));
  (void)new cuda::Stream(std::move(stream_));
  (void)kernels_.release();
  (void)new auto(std::move(entrants_));
}

Result<void> CudaRunner::fill(const SetLayout& layout, const SetSeed& seed,
                              cuda::DeviceBuffer& block) {
  auto buffer = cuda::DeviceBuffer::allocate(layout.block_bytes);
  if (!buffer) return failed(buffer);
  block = std::move(*buffer);
  if (kernels_ != nullptr) return kernels_->fill(layout, seed, block.data(), stream_.get());
  auto host = HostBlock::allocate(layout.block_bytes);
  if (!host) return failed(host);
  fill_set(layout, seed, host->data());
  return block.upload(host->data(), layout.block_bytes);
}

Result<void> CudaRunner::make_cases() {
  auto checks = check_cases(problem_, options_.seed);
  if (!checks) return failed(checks);
  double needed = 0;
  for (const CheckCase& check : *checks) needed += static_cast<double>(check.layout.block_bytes);
  if (needed > memory_left_) {
    return fail(ErrorCode::unsupported,
                fmt::format("the operands take {:.2f} GB to verify, {:.2f} GB are allowed",
                            needed * 1e-9, memory_left_ * 1e-9));
  }
  memory_left_ -= needed;
  for (CheckCase& check : *checks) {
    DeviceCase on;
    if (auto ok = fill(check.layout, check.seed, on.block); !ok) return ok;
    on.check = std::move(check);
    cases_.push_back(std::move(on));
  }
  return {};
}

Result<void> CudaRunner::make_copies() {
  const SetLayout& layout = cases_.front().check.layout;
  rotate_bytes_ = options_.policy.rotate_bytes > 0
                      ? static_cast<double>(options_.policy.rotate_bytes)
                      : 3.0 * static_cast<double>(device_.l2_bytes);
  const auto block_bytes = static_cast<double>(layout.block_bytes);
  // Half of what is left is for the reference, packed weights and workspaces.
  const int copies =
      std::max(1, rotation_copies(layout, rotate_bytes_, memory_left_ / 2 + block_bytes));
  sets_.push_back(pointers_into(layout, cases_.front().block.data()));
  for (int copy = 1; copy < copies; ++copy) {
    cuda::DeviceBuffer block;
    if (auto ok = fill(layout, {options_.seed, static_cast<std::uint64_t>(copy)}, block); !ok)
      return ok;
    sets_.push_back(pointers_into(layout, block.data()));
    copies_.push_back(std::move(block));
    memory_left_ -= block_bytes;
  }
  return stream_.synchronize();
}

Result<void> CudaRunner::allocate() {
  if (device_hangs) return fail(ErrorCode::device, kHangs);
  auto context = cuda::Context::enter(device_.ordinal);
  if (!context) return failed(context);
  auto stream = cuda::Stream::create();
  if (!stream) return failed(stream);
  stream_ = std::move(*stream);
  auto memory = cuda::memory_info();
  if (!memory) return failed(memory);
  memory_left_ = static_cast<double>(memory->free_bytes) / 2;
  if (options_.max_memory_bytes > 0)
    memory_left_ =
        std::min(options_.max_memory_bytes, 0.95 * static_cast<double>(memory->free_bytes));
  auto kernels = CheckKernels::load(problem_, device_);
  if (kernels) kernels_ = std::move(*kernels);
  if (auto ok = make_cases(); !ok) return ok;
  return make_copies();
}

/// A device that no longer answers stays so for this process: every later candidate would only
/// repeat it.
void CudaRunner::note_if_broken(const Error& error) {
  if (!broken_.empty() || hanging_) return;
  if (auto ok = cuda::synchronize(); !ok)
    broken_ = fmt::format("the CUDA context is lost since an earlier candidate failed: {}",
                          error.message);
}

/// The same for a race, where a candidate that did not end reports out_of_budget.
void CudaRunner::note_failure(const Error& error) {
  if (error.code == ErrorCode::out_of_budget) {
    hanging_ = device_hangs = true;
    broken_ = kHangs;
  } else {
    note_if_broken(error);
  }
}

Verification CudaRunner::verdict_of(const Error& error) {
  note_if_broken(error);
  return {outcome_of(error), error.message, 0};
}

/// False: it did not end in the time a trial may take.
Result<bool> CudaRunner::run_once(const Plan& plan, const DeviceScratch& scratch, DeviceCase& on) {
  SetPointers set = pointers_into(on.check.layout, on.block.data());
  set.arguments.workspace = scratch.data();
  cuda::DeviceBuffer memory;
  PackedOperand packed;
  if (plan.packed_bytes() > 0) {
    auto buffer = cuda::DeviceBuffer::allocate(plan.packed_bytes());
    if (!buffer) return failed(buffer);
    memory = std::move(*buffer);
    if (auto ok = memory.fill(kPadding, stream_.get()); !ok) return failed(ok);
    auto prepared = plan.prepare(set.arguments.b, memory.data(), stream_.get());
    if (!prepared) return failed(prepared);
    packed = *prepared;
    set.arguments.packed_b = &packed;
  }
  if (auto ran = plan.run(set.arguments, {stream_.get(), false}); !ran) return failed(ran);
  // In a process of its own it need not be waited for longer than a trial may take. Elsewhere only
  // what is not slow but stuck is given up, since that loses the device to this process.
  const double trial = options_.policy.trial_seconds;
  auto done = wait_for(stream_.get(), options_.watch ? trial : 2 * trial + 5);
  if (done && !*done) {
    hanging_ = device_hangs = true;
    broken_ = kHangs;
    (void)new cuda::DeviceBuffer(std::move(memory));
  }
  return done;
}

Result<const DeviceReference*> CudaRunner::reference(DeviceCase& on, bool full) {
  std::unique_ptr<DeviceReference>& wanted = full ? on.full : on.sampled;
  if (on.full != nullptr) return on.full.get();
  if (wanted != nullptr) return wanted.get();
  const Problem& p = on.check.layout.problem;
  constexpr double kElements = double{verify::kTile} * verify::kTile;
  const double flops = 2 * kElements * static_cast<double>(std::max<std::int64_t>(p.k, 1));
  const double bytes = 12 * kElements;
  const double most =
      std::min({(full ? kFullFlops : kSampleFlops) / flops, memory_left_ / 4 / bytes, 1e6});
  auto made = kernels_->reference(on.check.layout, on.check.seed,
                                  std::max<std::int64_t>(8, static_cast<std::int64_t>(most)),
                                  stream_.get());
  if (!made) return failed(made);
  memory_left_ -= bytes * static_cast<double>((*made)->tiles.size());
  wanted = std::move(*made);
  return wanted.get();
}

std::string CudaRunner::surface_complaint(const DeviceCase& on,
                                          const verify::SurfaceResult& found) const {
  const SetLayout& layout = on.check.layout;
  const OperandPlace& d = layout.place(kD);
  const int width = verify::bytes_of(format_of(d.dtype));
  const std::int64_t guard = kGuardBytes / width;
  SurfaceCheck check;
  check.unwritten = static_cast<std::int64_t>(found.unwritten);
  check.nan = static_cast<std::int64_t>(found.nan);
  check.damaged = static_cast<std::int64_t>(found.damaged);
  check.first_damaged = (static_cast<std::int64_t>(found.first_damaged) - guard) * width;
  const auto place = [&](verify::u64 slot, std::int64_t(&at)[3]) {
    locate(layout, static_cast<std::int64_t>(slot) - guard, at);
  };
  if (found.unwritten > 0) place(found.first_unwritten, check.first_unwritten);
  if (found.nan > 0) place(found.first_nan, check.first_nan);
  std::string complaint = check.complaint(may_produce_nan(layout.problem.epilogue));
  if (!complaint.empty() || found.differs == 0) return complaint;
  std::int64_t at[3];
  place(found.first_differs, at);
  return fmt::format("D[{},{}] of batch {} differs from run to run, or was not written", at[1],
                     at[2], at[0]);
}

/// The line about a wrong element, with the value that it should have recomputed on the host.
Result<std::string> CudaRunner::describe(const DeviceCase& on, verify::u64 index) {
  const SetLayout& layout = on.check.layout;
  const Problem& p = layout.problem;
  const auto i = static_cast<std::int64_t>(index);
  const std::int64_t batch = i / (p.m * p.n), row = i / p.n % p.m, column = i % p.n;
  const HostReference exact(layout, on.check.seed, {}, DeviceKind::cuda);
  const int width = verify::bytes_of(format_of(p.d));
  verify::u64 code = 0;
  const std::int64_t at = layout.place(kD).begin + layout.offset_d(batch, row, column) * width;
  if (auto ok = on.block.download(&code, width, at); !ok) return failed(ok);
  return describe_wrong(batch, row, column, verify::decode(format_of(p.d), code),
                        exact.wanted(batch, row, column));
}

Result<Verification> CudaRunner::check_on_device(DeviceCase& on, std::uint32_t poison, bool full,
                                                 const cuda::DeviceBuffer* saved) {
  auto surface = kernels_->surface(on.check.layout, poison, on.block.data(),
                                   saved == nullptr ? nullptr : saved->data(), stream_.get());
  if (!surface) return failed(surface);
  if (std::string complaint = surface_complaint(on, *surface); !complaint.empty())
    return Verification{Outcome::wrong, complaint, 0};
  auto exact = reference(on, full && on.check.main);
  if (!exact) return failed(exact);
  auto found =
      kernels_->compare(on.check.layout, on.check.seed, **exact, on.block.data(),
                        Tolerance::of(on.check.layout.problem, DeviceKind::cuda), stream_.get());
  if (!found) return failed(found);
  Verification verdict;
  verdict.error = verify::double_of(found->largest_ratio);
  if (found->wrong == 0) return verdict;
  auto line = describe(on, found->first);
  if (!line) return failed(line);
  verdict.outcome = Outcome::wrong;
  verdict.reason = fmt::format("{}; {} elements are wrong{}", *line, found->wrong,
                               (*exact)->complete ? "" : " of those checked");
  return verdict;
}

Result<Verification> CudaRunner::check_on_host(DeviceCase& on, std::uint32_t poison) {
  const SetLayout& layout = on.check.layout;
  if (on.mirror.data() == nullptr) {
    auto mirror = HostBlock::allocate(layout.block_bytes);
    if (!mirror) return failed(mirror);
    on.mirror = std::move(*mirror);
    on.host = std::make_unique<HostReference>(
        layout, on.check.seed, plan_samples(layout.problem, kSampleBudget, on.check.seed.key(kD)),
        DeviceKind::cuda);
  }
  auto ok = on.block.download(on.mirror.data() + layout.guard_begin(),
                              layout.guard_end() - layout.guard_begin(), layout.guard_begin());
  if (!ok) return failed(ok);
  std::string complaint = check_surface(layout, poison, on.mirror.data())
                              .complaint(may_produce_nan(layout.problem.epilogue));
  if (!complaint.empty()) return Verification{Outcome::wrong, complaint, 0};
  const Comparison comparison = on.host->compare(on.mirror.data());
  complaint = comparison.complaint();
  return Verification{complaint.empty() ? Outcome::measured : Outcome::wrong, complaint,
                      comparison.error};
}

Result<Verification> CudaRunner::run_case(const Plan& plan, const DeviceScratch& scratch,
                                          DeviceCase& on, bool second_run, bool full,
                                          const cuda::DeviceBuffer* saved) {
  const SetLayout& layout = on.check.layout;
  const std::uint32_t poison = poison_of(problem_.d, second_run);
  auto driver = cuda_driver();
  if (!driver) return failed(driver);
  auto ok = cuda::check(
      (*driver)->memset_d32_async(
          on.block.address() + static_cast<cuda::CUdeviceptr>(layout.guard_begin()), poison,
          static_cast<std::size_t>(layout.guard_end() - layout.guard_begin()) / 4, stream_.get()),
      "cuMemsetD32Async");
  if (ok) ok = stream_.synchronize();
  if (!ok) return failed(ok);
  watch(run_limit(options_.policy) + kHostSlack);
  const auto begin = Clock::now();
  auto ended = run_once(plan, scratch, on);
  watch(0);
  if (!ended) return failed(ended);
  const double took = std::chrono::duration<double>(Clock::now() - begin).count();
  if (!*ended || took > options_.policy.trial_seconds) {
    return Verification{Outcome::timed_out,
                        fmt::format("{} {:.3g} s; a trial may take {:.3g} s",
                                    *ended ? "one run takes" : "a run did not end in", took,
                                    options_.policy.trial_seconds),
                        0};
  }
  auto scratched = scratch.complaint();
  if (!scratched) return failed(scratched);
  Result<Verification> verdict = Verification{Outcome::wrong, *scratched, 0};
  if (scratched->empty())
    verdict =
        kernels_ != nullptr ? check_on_device(on, poison, full, saved) : check_on_host(on, poison);
  if (verdict && verdict->outcome == Outcome::wrong && layout.problem.m != problem_.m)
    verdict->reason += fmt::format(" (at m={})", layout.problem.m);
  return verdict;
}

Result<Verification> CudaRunner::verify_all(const Plan& plan, bool full) {
  Verification verdict;
  std::optional<DeviceScratch> main_scratch;
  cuda::DeviceBuffer saved;
  for (std::size_t i = 0; i < cases_.size(); ++i) {
    DeviceCase& on = cases_[i];
    auto scratch = DeviceScratch::make(plan.workspace(on.check.layout.problem.m), stream_.get());
    if (!scratch) return failed(scratch);
    auto one = run_case(plan, *scratch, on, false, full, nullptr);
    if (hanging_) (void)new DeviceScratch(std::move(*scratch));
    if (!one || one->outcome != Outcome::measured) return one;
    verdict.error = std::max(verdict.error, one->error);
    if (i > 0) continue;
    main_scratch = std::move(*scratch);
    const OperandPlace& d = on.check.layout.place(kD);
    if (!must_repeat_bitwise()) continue;
    auto copy = cuda::DeviceBuffer::allocate(d.bytes());
    if (!copy) return failed(copy);
    saved = std::move(*copy);
    auto driver = cuda_driver();
    auto ok = cuda::check(
        (*driver)->memcpy_dtod_async(saved.address(),
                                     on.block.address() + static_cast<cuda::CUdeviceptr>(d.begin),
                                     static_cast<std::size_t>(d.bytes()), stream_.get()),
        "cuMemcpyDtoDAsync");
    if (!ok) return failed(ok);
  }
  // The main case once more: by now the scratch is used, and an integer D is poisoned differently.
  auto again = run_case(plan, *main_scratch, cases_.front(), true, full,
                        must_repeat_bitwise() ? &saved : nullptr);
  if (hanging_) (void)new DeviceScratch(std::move(*main_scratch));
  if (again) again->error = std::max(verdict.error, again->error);
  return again;
}

Verification CudaRunner::verify(const BuiltCandidate& candidate, bool full) {
  if (!broken_.empty()) return {Outcome::crashed, broken_, 0};
  if (problem_.is_empty()) return {};
  auto context = cuda::Context::enter(device_.ordinal);
  if (!context) return {Outcome::crashed, context.error().message, 0};
  watch(kLoadSeconds);
  auto plan = Plan::load(problem_, candidate, device_);
  watch(0);
  if (!plan) {
    Verification verdict = verdict_of(plan.error());
    if (broken_.empty()) verdict.outcome = Outcome::build_failed;
    return verdict;
  }
  auto verdict = verify_all(*plan, full);
  if (hanging_) (void)new Plan(std::move(*plan));
  return verdict ? *verdict : verdict_of(verdict.error());
}

Result<void> CudaRunner::enter_race(std::unique_ptr<CudaEntrant>& entrant,
                                    const BuiltCandidate& candidate) {
  auto plan = Plan::load(problem_, candidate, device_);
  if (!plan) {
    note_if_broken(plan.error());
    return fail(broken_.empty() ? ErrorCode::build_failed : ErrorCode::device,
                plan.error().message);
  }
  auto made = CudaEntrant::make(std::move(*plan), sets_, rotate_bytes_, memory_left_,
                                options_.policy, stream_.get());
  if (!made) {
    note_failure(made.error());
    return failed(made);
  }
  entrant = std::move(*made);
  memory_left_ -= entrant->bytes();
  return {};
}

Result<double> CudaRunner::sample(const BuiltCandidate& candidate, double settle_seconds) {
  if (!broken_.empty()) return fail(ErrorCode::device, broken_);
  auto context = cuda::Context::enter(device_.ordinal);
  if (!context) return failed(context);
  auto& entrant = entrants_[&candidate];
  if (entrant == nullptr) {
    watch(entry_limit(options_.policy) + kHostSlack);
    const auto entered = enter_race(entrant, candidate);
    watch(0);
    if (!entered) return failed(entered);
  }
  const double expected = entrant->round_seconds(options_.policy) + settle_seconds;
  watch(round_limit(options_.policy, expected) + kHostSlack);
  auto seconds = entrant->sample(options_.policy, settle_seconds, stream_.get());
  watch(0);
  if (!seconds) note_failure(seconds.error());
  if (hanging_) (void)entrant.release();
  return seconds;
}

void CudaRunner::leave(const BuiltCandidate& candidate) {
  const auto at = entrants_.find(&candidate);
  if (at == entrants_.end()) return;
  auto context = cuda::Context::enter(device_.ordinal);
  if (at->second != nullptr) memory_left_ += at->second->bytes();
  if (hanging_) (void)at->second.release();
  entrants_.erase(at);
}

}  // namespace

Result<std::unique_ptr<TrialRunner>> make_cuda_runner(const Problem& problem,
                                                      const DeviceSpec& device,
                                                      const RunnerOptions& options) {
  auto runner = std::make_unique<CudaRunner>(problem, device, options);
  if (auto allocated = runner->allocate(); !allocated) return failed(allocated);
  return runner;
}

}  // namespace culet::benchmark

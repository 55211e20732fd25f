// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// Verifies and times candidates on the CPU, in this process.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <map>
#include <optional>

#include "benchmark/host_memory.h"
#include "benchmark/race.h"
#include "benchmark/reference.h"
#include "benchmark/runners.h"
#include "culet/plan.h"
#include "launch/thread_pool.h"

namespace culet::benchmark {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

/// Each sample is at least this long, so that reading the clock (some 25 ns) does not count.
constexpr double kSampleSeconds = 50e-6;

/// Bytes to rotate over: three times the last-level cache. What a virtual machine reports as its
/// L3 is the host's (300 MB and 500 MB have been seen where a guest's share acts like 32 to 64 MB),
/// and some report none.
double rotate_bytes(const MeasurePolicy& policy, const DeviceSpec& device) {
  if (policy.rotate_bytes > 0) return static_cast<double>(policy.rotate_bytes);
  const std::int64_t reported = std::max(device.l3_bytes, device.l2_bytes);
  return 3.0 * static_cast<double>(std::clamp<std::int64_t>(reported, 8 << 20, 64 << 20));
}

/// A candidate's scratch: poisoned behind its zeroed prefix, guarded at its end.
class Scratch {
 public:
  static Result<Scratch> make(const Workspace& workspace) {
    Scratch scratch;
    scratch.spec_ = workspace;
    auto block = HostBlock::allocate(workspace.bytes + workspace.align + kWorkspaceGuard);
    if (!block) return tl::unexpected(block.error());
    scratch.block_ = std::move(*block);
    const auto address = reinterpret_cast<std::uintptr_t>(scratch.block_.data());
    const auto align = static_cast<std::uintptr_t>(std::max<std::int64_t>(workspace.align, 1));
    scratch.offset_ = static_cast<std::int64_t>((align - address % align) % align);
    std::memset(scratch.data(), 0, static_cast<std::size_t>(workspace.zeroed_prefix));
    std::memset(
        scratch.data() + workspace.zeroed_prefix, kPadding,
        static_cast<std::size_t>(workspace.bytes - workspace.zeroed_prefix + kWorkspaceGuard));
    return scratch;
  }

  char* data() const { return block_.data() + offset_; }

  std::string complaint() const {
    const auto at = [&](std::int64_t i) { return static_cast<unsigned char>(data()[i]); };
    for (std::int64_t i = 0; i < spec_.zeroed_prefix; ++i)
      if (at(i) != 0) return fmt::format("byte {} of its zeroed workspace was not left zero", i);
    for (std::int64_t i = 0; i < kWorkspaceGuard; ++i)
      if (at(spec_.bytes + i) != kPadding)
        return fmt::format("it wrote beyond its {} bytes of workspace", spec_.bytes);
    return {};
  }

 private:
  Workspace spec_;
  HostBlock block_;
  std::int64_t offset_ = 0;
};

struct HostCase {
  CheckCase check;
  HostBlock block;
  std::unique_ptr<HostReference> sampled, full;

  HostReference& reference(bool want_full) {
    if (want_full && full == nullptr) full = make(kFullBudget);
    if (full != nullptr) return *full;
    if (sampled == nullptr) sampled = make(kSampleBudget);
    return *sampled;
  }

 private:
  std::unique_ptr<HostReference> make(double budget) const {
    return std::make_unique<HostReference>(
        check.layout, check.seed, plan_samples(check.layout.problem, budget, check.seed.key(kD)),
        DeviceKind::cpu);
  }
};

/// A candidate loaded for timing.
struct Entrant {
  explicit Entrant(Plan p) : plan(std::move(p)) {}
  Plan plan;
  std::optional<Scratch> scratch;
  std::vector<HostBlock> packed_memory;
  std::vector<PackedOperand> packed;
  std::size_t next = 0;  ///< set of the next run
  double estimate = 0;   ///< seconds of one run
};

class CpuRunner : public TrialRunner {
 public:
  CpuRunner(const Problem& problem, const DeviceSpec& device, const RunnerOptions& options)
      : TrialRunner(problem, device, options) {}

  Result<void> allocate();

  Verification verify(const BuiltCandidate& candidate, bool full) override;
  Result<double> sample(const BuiltCandidate& candidate, double settle_seconds) override;
  void leave(const BuiltCandidate& candidate) override;

 private:
  void watch(double seconds) const {
    if (options_.watch) options_.watch(seconds);
  }
  Result<Plan> load_plan(const BuiltCandidate& candidate) const;
  Verification run_case(const Plan& plan, const Scratch& scratch, HostCase& on, bool second_run,
                        bool full);
  Result<void> run_once(const Plan& plan, const Scratch& scratch, HostCase& on);
  std::string compare_repeated(const HostCase& on, const std::string& first_d) const;

  Result<std::unique_ptr<Entrant>> load(const BuiltCandidate& candidate);
  Result<double> one_round(Entrant& entrant);
  Result<double> timed_runs(Entrant& entrant, std::int64_t count);

  double rotate_bytes_ = 0, memory_left_ = 0;
  std::vector<HostCase> cases_;
  std::vector<HostBlock> copies_;  ///< blocks of the rotation beside the main case's
  std::vector<SetPointers> sets_;  ///< all of the rotation
  std::map<const BuiltCandidate*, std::unique_ptr<Entrant>> entrants_;
};

Result<void> CpuRunner::allocate() {
  memory_left_ = options_.max_memory_bytes > 0 ? options_.max_memory_bytes : available_memory() / 2;
  auto cases = check_cases(problem_, options_.seed);
  if (!cases) return tl::unexpected(cases.error());
  double needed = 0;
  for (const CheckCase& check : *cases) needed += static_cast<double>(check.layout.block_bytes);
  if (needed > memory_left_) {
    return fail(ErrorCode::unsupported,
                fmt::format("the operands take {:.2f} GB to verify, {:.2f} GB are allowed",
                            needed * 1e-9, memory_left_ * 1e-9));
  }
  memory_left_ -= needed;
  for (CheckCase& check : *cases) {
    HostCase host;
    auto block = HostBlock::allocate(check.layout.block_bytes);
    if (!block) return tl::unexpected(block.error());
    host.block = std::move(*block);
    fill_set(check.layout, check.seed, host.block.data());
    host.check = std::move(check);
    cases_.push_back(std::move(host));
  }
  const SetLayout& layout = cases_.front().check.layout;
  rotate_bytes_ = rotate_bytes(options_.policy, device_);
  // Half of what is left is for packed weights and workspaces.
  const int copies =
      std::max(1, rotation_copies(layout, rotate_bytes_,
                                  memory_left_ / 2 + static_cast<double>(layout.block_bytes)));
  sets_.push_back(pointers_into(layout, cases_.front().block.data()));
  for (int copy = 1; copy < copies; ++copy) {
    auto block = HostBlock::allocate(layout.block_bytes);
    if (!block) return tl::unexpected(block.error());
    fill_set(layout, {options_.seed, static_cast<std::uint64_t>(copy)}, block->data());
    sets_.push_back(pointers_into(layout, block->data()));
    copies_.push_back(std::move(*block));
    memory_left_ -= static_cast<double>(layout.block_bytes);
  }
  return {};
}

Result<void> CpuRunner::run_once(const Plan& plan, const Scratch& scratch, HostCase& on) {
  SetPointers set = pointers_into(on.check.layout, on.block.data());
  set.arguments.workspace = scratch.data();
  HostBlock memory;
  PackedOperand packed;
  if (plan.packed_bytes() > 0) {
    auto block = HostBlock::allocate(plan.packed_bytes());
    if (!block) return tl::unexpected(block.error());
    memory = std::move(*block);
    std::memset(memory.data(), kPadding, static_cast<std::size_t>(memory.bytes()));
    auto prepared = plan.prepare(set.arguments.b, memory.data());
    if (!prepared) return tl::unexpected(prepared.error());
    packed = *prepared;
    set.arguments.packed_b = &packed;
  }
  return plan.run(set.arguments);
}

Verification CpuRunner::run_case(const Plan& plan, const Scratch& scratch, HostCase& on,
                                 bool second_run, bool full) {
  const SetLayout& layout = on.check.layout;
  const std::uint32_t poison = poison_of(problem_.d, second_run);
  poison_d(layout, poison, on.block.data());
  watch(run_limit(options_.policy));
  const auto begin = Clock::now();
  const auto ran = run_once(plan, scratch, on);
  const double took = seconds_since(begin);
  watch(0);
  if (!ran) return {outcome_of(ran.error()), ran.error().message, 0};
  if (took > options_.policy.trial_seconds) {
    return {Outcome::timed_out,
            fmt::format("one run takes {:.3g} s, more than the {:.3g} s a trial may", took,
                        options_.policy.trial_seconds),
            0};
  }
  std::string reason = scratch.complaint();
  if (reason.empty())
    reason = check_surface(layout, poison, on.block.data())
                 .complaint(may_produce_nan(layout.problem.epilogue));
  Comparison comparison;
  if (reason.empty()) {
    comparison = on.reference(full && on.check.main).compare(on.block.data());
    reason = comparison.complaint();
  }
  if (reason.empty()) return {Outcome::measured, {}, comparison.error};
  if (layout.problem.m != problem_.m) reason += fmt::format(" (at m={})", layout.problem.m);
  return {Outcome::wrong, reason, comparison.error};
}

/// What a second run on the same operands, with other poison, must have in common with the first:
/// everything where order=deterministic is demanded or D is integer.
std::string CpuRunner::compare_repeated(const HostCase& on, const std::string& first_d) const {
  const SetLayout& layout = on.check.layout;
  const OperandPlace& d = layout.place(kD);
  if (!problem_.deterministic && !is_integer(problem_.d)) return {};
  const int width = verify::bytes_of(format_of(d.dtype));
  const char* now = on.block.data() + d.begin;
  for (std::int64_t b = 0; b < d.batches; ++b) {
    for (std::int64_t row = 0; row < d.lines; ++row) {
      for (std::int64_t column = 0; column < d.length; ++column) {
        const auto at = static_cast<std::size_t>(layout.offset_d(b, row, column) * width);
        if (std::memcmp(now + at, first_d.data() + at, static_cast<std::size_t>(width)) == 0)
          continue;
        return fmt::format("D[{},{}] of batch {} differs from run to run, or was not written", row,
                           column, b);
      }
    }
  }
  return {};
}

Result<Plan> CpuRunner::load_plan(const BuiltCandidate& candidate) const {
  watch(kLoadSeconds);
  auto plan = Plan::load(problem_, candidate, device_);
  watch(0);
  return plan;
}

Verification CpuRunner::verify(const BuiltCandidate& candidate, bool full) {
  if (problem_.is_empty()) return {};
  auto plan = load_plan(candidate);
  if (!plan) return {Outcome::build_failed, plan.error().message, 0};
  Verification verdict;
  std::string first_d;
  // The main case comes last as well: by then the scratch is used, and D poisoned differently.
  std::vector<std::size_t> order;
  for (std::size_t i = 0; i < cases_.size(); ++i) order.push_back(i);
  order.push_back(0);
  std::optional<Scratch> main_scratch;
  for (std::size_t step = 0; step < order.size(); ++step) {
    HostCase& on = cases_[order[step]];
    const bool repeated = step + 1 == order.size();
    if (!repeated) {
      auto scratch = Scratch::make(plan->workspace(on.check.layout.problem.m));
      if (!scratch) return {Outcome::crashed, scratch.error().message, 0};
      const Verification one = run_case(*plan, *scratch, on, false, full);
      if (one.outcome != Outcome::measured) return one;
      verdict.error = std::max(verdict.error, one.error);
      if (step == 0) {
        const OperandPlace& d = on.check.layout.place(kD);
        if (problem_.deterministic || is_integer(problem_.d))
          first_d.assign(on.block.data() + d.begin, static_cast<std::size_t>(d.bytes()));
        main_scratch = std::move(*scratch);
      }
      continue;
    }
    const Verification one = run_case(*plan, *main_scratch, on, true, full);
    if (one.outcome != Outcome::measured) return one;
    verdict.error = std::max(verdict.error, one.error);
    if (std::string reason = compare_repeated(on, first_d); !reason.empty())
      return {Outcome::wrong, reason, verdict.error};
  }
  return verdict;
}

Result<std::unique_ptr<Entrant>> CpuRunner::load(const BuiltCandidate& candidate) {
  auto plan = Plan::load(problem_, candidate, device_);
  if (!plan) return tl::unexpected(plan.error());
  auto entrant = std::make_unique<Entrant>(std::move(*plan));
  auto scratch = Scratch::make(entrant->plan.workspace());
  if (!scratch) return tl::unexpected(scratch.error());
  entrant->scratch = std::move(*scratch);
  const std::int64_t bytes = entrant->plan.packed_bytes();
  if (bytes > 0) {
    // As many packed copies as it takes to rotate over the same number of bytes.
    const auto wanted =
        static_cast<std::size_t>(std::ceil(rotate_bytes_ / static_cast<double>(bytes)));
    const std::size_t copies = std::clamp<std::size_t>(wanted, 1, sets_.size());
    if (static_cast<double>(copies) * static_cast<double>(bytes) > memory_left_) {
      return fail(
          ErrorCode::unsupported,
          fmt::format("{} packed copies of B of {:.1f} MB each are beyond the memory allowed",
                      copies, static_cast<double>(bytes) / 1e6));
    }
    for (std::size_t i = 0; i < copies; ++i) {
      auto block = HostBlock::allocate(bytes);
      if (!block) return tl::unexpected(block.error());
      auto packed = entrant->plan.prepare(sets_[i].arguments.b, block->data());
      if (!packed) return tl::unexpected(packed.error());
      entrant->packed.push_back(*packed);
      entrant->packed_memory.push_back(std::move(*block));
      memory_left_ -= static_cast<double>(bytes);
    }
  }
  auto first = timed_runs(*entrant, 1);
  if (!first) return tl::unexpected(first.error());
  entrant->estimate = *first;
  if (*first < 1e-3) {  // the first run was cold in every respect
    auto second =
        timed_runs(*entrant, std::max<std::int64_t>(1, static_cast<std::int64_t>(1e-4 / *first)));
    if (!second) return tl::unexpected(second.error());
    entrant->estimate = std::min(*first, *second);
  }
  return entrant;
}

/// Seconds of one run, on average over `count` of them, each on the next set.
Result<double> CpuRunner::timed_runs(Entrant& entrant, std::int64_t count) {
  const Plan& plan = entrant.plan;
  const auto begin = Clock::now();
  for (std::int64_t i = 0; i < count; ++i) {
    const std::size_t set = entrant.next;
    entrant.next = set + 1 == sets_.size() ? 0 : set + 1;
    Arguments arguments = sets_[set].arguments;
    arguments.workspace = entrant.scratch->data();
    if (!entrant.packed.empty()) arguments.packed_b = &entrant.packed[set % entrant.packed.size()];
    if (auto ran = plan.run(arguments); !ran) return tl::unexpected(ran.error());
  }
  return seconds_since(begin) / static_cast<double>(count);
}

/// One round of one candidate: after a warm-up, the fastest of as many short samples as fit into
/// the policy's time.
Result<double> CpuRunner::one_round(Entrant& entrant) {
  if (device_.threads > 1) wait_until_pools_park();
  const double target = options_.policy.target_seconds;
  const double one = std::max(entrant.estimate, 1e-9);
  const auto runs = std::max<std::int64_t>(1, std::llround(kSampleSeconds / one));
  // Long runs need no warm-up of their own: what is cold at their start is a small part of them.
  if (one < target / 2) {
    if (auto warm = timed_runs(entrant, runs); !warm) return warm;
  }
  const double sample_seconds = one * static_cast<double>(runs);
  const auto samples = std::clamp<std::int64_t>(std::llround(target / sample_seconds), 1, 2000);
  double best = 0;
  for (std::int64_t i = 0; i < samples; ++i) {
    auto seconds = timed_runs(entrant, runs);
    if (!seconds) return seconds;
    best = i == 0 ? *seconds : std::min(best, *seconds);
    if (options_.stop != nullptr && options_.stop->load()) break;
  }
  entrant.estimate = std::min(entrant.estimate, best);
  return best;
}

Result<double> CpuRunner::sample(const BuiltCandidate& candidate, double /*settle_seconds*/) {
  auto& entrant = entrants_[&candidate];
  if (entrant == nullptr) {
    watch(entry_limit(options_.policy));
    auto loaded = load(candidate);
    watch(0);
    if (!loaded) return tl::unexpected(loaded.error());
    entrant = std::move(*loaded);
  }
  watch(round_limit(options_.policy, options_.policy.target_seconds + 3 * entrant->estimate));
  auto seconds = one_round(*entrant);
  watch(0);
  return seconds;
}

void CpuRunner::leave(const BuiltCandidate& candidate) {
  const auto at = entrants_.find(&candidate);
  if (at == entrants_.end()) return;
  if (at->second != nullptr) {
    for (const HostBlock& block : at->second->packed_memory)
      memory_left_ += static_cast<double>(block.bytes());
  }
  entrants_.erase(at);
}

}  // namespace

Result<std::unique_ptr<TrialRunner>> make_cpu_runner(const Problem& problem,
                                                     const DeviceSpec& device,
                                                     const RunnerOptions& options) {
  auto runner = std::make_unique<CpuRunner>(problem, device, options);
  if (auto allocated = runner->allocate(); !allocated) return tl::unexpected(allocated.error());
  return runner;
}

}  // namespace culet::benchmark

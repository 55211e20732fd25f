// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// Times one candidate on a CUDA device with graphs, so that neither the host nor the launch gap of
// a stream decides.
#include "benchmark/cuda_entrant.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <thread>

#include "benchmark/statistics.h"

namespace culet::benchmark {
namespace {

using Clock = std::chrono::steady_clock;

/// A replay lasts about this long, so that the gap between two graphs (some microseconds) is below
/// a thousandth of it.
constexpr double kReplaySeconds = 2e-3;
constexpr int kMostLaunches = 2048;
constexpr int kMostReplays = 64;

template <typename T>
tl::unexpected<Error> failed(const Result<T>& result) {
  return tl::unexpected<Error>(result.error());
}

}  // namespace

Result<bool> wait_for(cuda::CUstream stream, double seconds) {
  auto event = cuda::Event::create();
  if (!event) return failed(event);
  if (auto recorded = event->record(stream); !recorded) return failed(recorded);
  const auto begin = Clock::now();
  for (int spins = 0;; ++spins) {
    auto done = event->done();
    if (!done || *done) return done;
    const double waited = std::chrono::duration<double>(Clock::now() - begin).count();
    if (waited > seconds) return false;
    if (waited > 1e-3) std::this_thread::sleep_for(std::chrono::microseconds(100));
  }
}

Result<DeviceScratch> DeviceScratch::make(const Workspace& workspace, cuda::CUstream stream) {
  DeviceScratch scratch;
  scratch.spec_ = workspace;
  auto buffer = cuda::DeviceBuffer::allocate(workspace.bytes + workspace.align + kWorkspaceGuard);
  if (!buffer) return failed(buffer);
  scratch.buffer_ = std::move(*buffer);
  const auto align = static_cast<cuda::CUdeviceptr>(std::max<std::int64_t>(workspace.align, 1));
  scratch.offset_ = static_cast<std::int64_t>((align - scratch.buffer_.address() % align) % align);
  if (auto ok = scratch.buffer_.fill(kPadding, stream); !ok) return failed(ok);
  if (workspace.zeroed_prefix == 0) return scratch;
  auto driver = cuda_driver();
  if (!driver) return failed(driver);
  const auto at = reinterpret_cast<cuda::CUdeviceptr>(scratch.data());
  auto ok = cuda::check(
      (*driver)->memset_d8_async(at, 0, static_cast<std::size_t>(workspace.zeroed_prefix), stream),
      "cuMemsetD8Async");
  if (!ok) return failed(ok);
  return scratch;
}

Result<std::string> DeviceScratch::complaint() const {
  std::vector<unsigned char> bytes(
      static_cast<std::size_t>(std::max<std::int64_t>(spec_.zeroed_prefix, kWorkspaceGuard)));
  if (spec_.zeroed_prefix > 0) {
    if (auto ok = buffer_.download(bytes.data(), spec_.zeroed_prefix, offset_); !ok)
      return failed(ok);
    for (std::int64_t i = 0; i < spec_.zeroed_prefix; ++i)
      if (bytes[static_cast<std::size_t>(i)] != 0)
        return fmt::format("byte {} of its zeroed workspace was not left zero", i);
  }
  if (auto ok = buffer_.download(bytes.data(), kWorkspaceGuard, offset_ + spec_.bytes); !ok)
    return failed(ok);
  for (std::int64_t i = 0; i < kWorkspaceGuard; ++i)
    if (bytes[static_cast<std::size_t>(i)] != kPadding)
      return fmt::format("it wrote beyond its {} bytes of workspace", spec_.bytes);
  return std::string();
}

Result<std::unique_ptr<CudaEntrant>> CudaEntrant::make(Plan plan,
                                                       const std::vector<SetPointers>& sets,
                                                       double rotate_bytes, double memory_left,
                                                       const MeasurePolicy& policy,
                                                       cuda::CUstream stream) {
  std::unique_ptr<CudaEntrant> entrant(new CudaEntrant(std::move(plan)));
  const Workspace workspace = entrant->plan_.workspace();
  if (static_cast<double>(workspace.bytes) > memory_left) {
    return fail(ErrorCode::unsupported,
                fmt::format("its workspace of {:.1f} MB is beyond the memory allowed",
                            static_cast<double>(workspace.bytes) * 1e-6));
  }
  auto scratch = DeviceScratch::make(workspace, stream);
  if (!scratch) return failed(scratch);
  entrant->scratch_ = std::move(*scratch);
  entrant->bytes_ = static_cast<double>(entrant->scratch_.bytes());
  auto packed = entrant->pack(sets, rotate_bytes, memory_left - entrant->bytes_, stream);
  if (!packed) return failed(packed);
  auto calibrated = entrant->calibrate(sets, policy, stream);
  if (!calibrated) {
    // Freeing anything would wait for a kernel that does not end.
    if (calibrated.error().code == ErrorCode::out_of_budget) (void)entrant.release();
    return failed(calibrated);
  }
  auto graph = cuda::Graph::capture(
      stream, [&] { return entrant->enqueue(sets, 0, entrant->launches_, stream); });
  if (!graph) return failed(graph);
  entrant->graph_ = std::move(*graph);
  return entrant;
}

Result<void> CudaEntrant::pack(const std::vector<SetPointers>& sets, double rotate_bytes,
                               double memory_left, cuda::CUstream stream) {
  const std::int64_t bytes = plan_.packed_bytes();
  if (bytes <= 0) return {};
  const auto wanted = std::ceil(rotate_bytes / static_cast<double>(bytes));
  const std::size_t copies =
      std::clamp<std::size_t>(static_cast<std::size_t>(wanted), 1, sets.size());
  const double all = static_cast<double>(copies) * static_cast<double>(bytes);
  if (all > memory_left) {
    return fail(ErrorCode::unsupported,
                fmt::format("{} packed copies of B of {:.1f} MB each are beyond the memory allowed",
                            copies, static_cast<double>(bytes) * 1e-6));
  }
  for (std::size_t i = 0; i < copies; ++i) {
    auto memory = cuda::DeviceBuffer::allocate(bytes);
    if (!memory) return failed(memory);
    auto packed = plan_.prepare(sets[i].arguments.b, memory->data(), stream);
    if (!packed) return failed(packed);
    packed_.push_back(*packed);
    packed_memory_.push_back(std::move(*memory));
  }
  bytes_ += all;
  return {};
}

Result<void> CudaEntrant::enqueue(const std::vector<SetPointers>& sets, int first, int count,
                                  cuda::CUstream stream) const {
  for (int i = first; i < first + count; ++i) {
    const std::size_t set = static_cast<std::size_t>(i) % sets.size();
    Arguments arguments = sets[set].arguments;
    arguments.workspace = scratch_.data();
    if (!packed_.empty()) arguments.packed_b = &packed_[set % packed_.size()];
    if (auto ran = plan_.run(arguments, {stream, false}); !ran) return ran;
  }
  return {};
}

/// Finds the time of one run, and from it how many make a graph: enough to last, and whole walks
/// through the sets.
Result<void> CudaEntrant::calibrate(const std::vector<SetPointers>& sets,
                                    const MeasurePolicy& policy, cuda::CUstream stream) {
  constexpr int kProbes = 8;
  for (int i = 0; i <= kMostReplays; ++i) {
    auto event = cuda::Event::create();
    if (!event) return failed(event);
    events_.push_back(std::move(*event));
  }
  double best = 0;
  // The first run loads code and wakes the device; it decides only whether more probes are
  // bearable.
  for (const int probes : {1, kProbes}) {
    if (auto ok = events_[0].record(stream); !ok) return ok;
    if (auto ok = enqueue(sets, 0, probes, stream); !ok) return ok;
    if (auto ok = events_[1].record(stream); !ok) return ok;
    auto done = wait_for(stream, policy.trial_seconds + 5);
    if (!done) return failed(done);
    if (!*done) return fail(ErrorCode::out_of_budget, "a run did not end");
    auto seconds = events_[1].seconds_since(events_[0]);
    if (!seconds) return failed(seconds);
    best = std::max(*seconds / probes, 1e-7);
    if (best > policy.target_seconds) break;
  }
  estimate_ = best;
  const int walk = static_cast<int>(std::min<std::size_t>(sets.size(), kMostLaunches));
  const double wanted = std::min(std::ceil(kReplaySeconds / best), double{kMostLaunches});
  const int walks = std::max(1, static_cast<int>(wanted) / walk);
  launches_ = walk * walks;
  return {};
}

double CudaEntrant::replay_seconds() const { return std::max(estimate_, 1e-7) * launches_; }

int CudaEntrant::replays(const MeasurePolicy& policy) const {
  return static_cast<int>(
      std::clamp(std::round(policy.target_seconds / replay_seconds()), 1.0, double{kMostReplays}));
}

double CudaEntrant::round_seconds(const MeasurePolicy& policy) const {
  return replay_seconds() * (replays(policy) + 1);
}

Result<double> CudaEntrant::sample(const MeasurePolicy& policy, double settle_seconds,
                                   cuda::CUstream stream) {
  const int replays = this->replays(policy);
  // What ran before has left clocks, caches and queues in its own state. And while these replays
  // run, the host gets ahead, so that starting a graph of many launches costs no device time.
  int first = estimate_ < policy.target_seconds / 2 ? 1 : 0;
  first = std::max(first, static_cast<int>(std::ceil(settle_seconds / replay_seconds())));
  for (int i = 0; i < first; ++i) {
    if (auto ok = graph_.launch(stream); !ok) return failed(ok);
  }
  if (auto ok = events_[0].record(stream); !ok) return failed(ok);
  for (int i = 0; i < replays; ++i) {
    if (auto ok = graph_.launch(stream); !ok) return failed(ok);
    if (auto ok = events_[static_cast<std::size_t>(i) + 1].record(stream); !ok) return failed(ok);
  }
  auto done = wait_for(stream, round_limit(policy, round_seconds(policy) + settle_seconds));
  if (!done) return failed(done);
  if (!*done) return fail(ErrorCode::out_of_budget, "a run did not end");
  std::vector<double> seconds;
  for (int i = 0; i < replays; ++i) {
    auto one = events_[static_cast<std::size_t>(i) + 1].seconds_since(
        events_[static_cast<std::size_t>(i)]);
    if (!one) return failed(one);
    seconds.push_back(*one / launches_);
  }
  estimate_ = median_of(seconds);
  return estimate_;
}

}  // namespace culet::benchmark

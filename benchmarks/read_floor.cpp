// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// How far decode kernels are from the time of reading their weights. The floor of a problem is the
// fastest of some kernels that only read as many bytes as its operands and D have, in plain loads
// of 16 bytes, no sum, no store; beside it run cuBLASLt's default and culet's fastest own
// candidates, all as graphs of launches over more than a gigabyte of operands, in turns.
//
//     bench_read_floor [--candidates N] [--rounds N] [--m LIST] [--shapes FILE] [PROBLEM...]
//
// prints a line of JSON for each problem, and one for each class of weights: 100 MB and more, 30 to
// 52 MB. `over_floor`: time / floor, so 1 is as fast as reading alone.
#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "cuda_memory.h"
#include "culet/culet.h"
#include "layer_options.h"

namespace {

using bench::must;
using bench::stop;
using culet::Plan;
using culet::Problem;

constexpr int kFewestCopies = 2, kMostCopies = 400, kFewestLaunches = 20;

/// Reads the bytes of a problem from where its B is said to be.
class Reader final : public culet::KernelFamily {
 public:
  std::string_view name() const override { return "reader"; }
  std::string version() const override { return "1"; }
  culet::DeviceKind device_kind() const override { return culet::DeviceKind::cuda; }
  culet::Support supports(const Problem&, const culet::DeviceSpec&) const override {
    return culet::Support::can();
  }
  std::vector<culet::Config> configs(const Problem&, const culet::DeviceSpec&) const override {
    std::vector<culet::Config> all;
    for (const int blocks : {1, 2, 4, 8, 16}) {
      for (const int threads : {256, 512}) {
        all.push_back(culet::Config().set("blocks", blocks).set("threads", threads));
      }
    }
    return all;
  }
  std::optional<culet::Features> features(const Problem&, const culet::Config&,
                                          const culet::DeviceSpec&) const override {
    return culet::Features{};
  }
  culet::Result<culet::Source> source(const Problem&, const culet::Step&,
                                      const culet::DeviceSpec&) const override {
    culet::Source source;
    source.language = culet::SourceLanguage::cuda;
    source.entry = "read_all";
    // The sum keeps the loads alive; no data make it that number but by chance.
    source.text = R"(
struct Four {
  unsigned x, y, z, w;
};
static __device__ __forceinline__ Four load(const char* from, unsigned long long word) {
  Four four;
  asm volatile("ld.global.cs.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(four.x), "=r"(four.y), "=r"(four.z), "=r"(four.w)
               : "l"(from + 16 * word));
  return four;
}
extern "C" __global__ void read_all(const char* from, unsigned long long words, unsigned* never) {
  unsigned sum = 0;
  const unsigned long long step = static_cast<unsigned long long>(gridDim.x) * blockDim.x;
  unsigned long long i = static_cast<unsigned long long>(blockIdx.x) * blockDim.x + threadIdx.x;
  for (; i + 3 * step < words; i += 4 * step) {
    Four four[4];
#pragma unroll
    for (int j = 0; j < 4; ++j) four[j] = load(from, i + j * step);
#pragma unroll
    for (int j = 0; j < 4; ++j) sum ^= four[j].x ^ four[j].y ^ four[j].z ^ four[j].w;
  }
  for (; i < words; i += step) {
    const Four four = load(from, i);
    sum ^= four.x ^ four.y ^ four.z ^ four.w;
  }
  if (sum == 0x9E3779B9u) *never = sum;
}
)";
    return source;
  }
  culet::Result<culet::LaunchSpec> launch(const Problem& p, const culet::Step& step,
                                          const culet::DeviceSpec& device) const override {
    culet::LaunchSpec spec;
    spec.grid[0] = step.config.get_int("blocks", 1) * device.units;
    spec.block[0] = static_cast<std::uint32_t>(step.config.get_int("threads", 256));
    spec.args = {culet::LaunchArg::pointer(culet::Operand::b),
                 culet::LaunchArg::i64(static_cast<std::int64_t>(p.compulsory_bytes() / 16)),
                 culet::LaunchArg::pointer(culet::Operand::d)};
    return spec;
  }
};

/// A candidate, as a graph of launches that each take another copy of the operands.
struct Entry : bench::Racer {
  std::string text;
  bool vendor = false, floor = false;
  Plan plan;
};

/// Copies of a problem's operands, more of them than L2 holds.
class Copies {
 public:
  explicit Copies(const Problem& p) {
    const double bytes = p.compulsory_bytes();
    const int copies = bench::rotating_copies(bytes, kFewestCopies, kMostCopies);
    const auto a_bytes = static_cast<std::size_t>(culet::bytes(p.a, p.span_a()));
    const auto d_bytes = static_cast<std::size_t>(culet::bytes(p.d, p.span_d()));
    // B, or, since a reader takes all bytes from here, all.
    const auto b_bytes = std::max(static_cast<std::size_t>(culet::bytes(p.b, p.span_b())),
                                  static_cast<std::size_t>(bytes));
    const auto values = bench::random_bf16(std::max(a_bytes, b_bytes) / 2 + 1, 1, 1);
    for (int i = 0; i < copies; ++i) {
      a_.emplace_back(a_bytes);
      b_.emplace_back(b_bytes);
      d_.emplace_back(d_bytes);
      a_.back().upload(values.data(), a_bytes);
      b_.back().upload(values.data(), b_bytes);
    }
  }

  int launches() const {
    return static_cast<int>(a_.size()) * std::max(1, kFewestLaunches / static_cast<int>(a_.size()));
  }

  bench::Graph capture(const Plan& plan, void* stream) {
    const auto bytes = static_cast<std::size_t>(std::max<std::int64_t>(plan.workspace().bytes, 1));
    workspace_.emplace_back(bytes);
    workspace_.back().fill(0);
    return bench::Graph(stream, [&] {
      for (int i = 0; i < launches(); ++i) {
        const auto copy = static_cast<std::size_t>(i) % a_.size();
        culet::Arguments arguments;
        arguments.a = a_[copy].data();
        arguments.b = b_[copy].data();
        arguments.d = d_[copy].data();
        arguments.workspace = workspace_.back().data();
        must(plan.run(arguments, {stream, false}));
      }
    });
  }

 private:
  std::vector<bench::Memory> a_, b_, d_, workspace_;
};

/// Ratios to the floor, by the class of weights.
struct Class {
  const char* name;
  double least, most;
  std::vector<double> ratios;
};

void measure(const Problem& p, culet::Tuner& tuner, culet::Tuner& readers, void* stream,
             const bench::LayerOptions& options, std::vector<Class>* classes) {
  const culet::TuneReport report = must(tuner.tune(p));
  Copies copies(p);
  std::vector<Entry> entries;
  const auto add = [&](culet::Tuner& from, const culet::Candidate& candidate, bool vendor,
                       bool floor) {
    Plan plan = must(from.plan(p, candidate));
    bench::Graph graph = copies.capture(plan, stream);
    entries.push_back({{std::move(graph), {}}, candidate.text(), vendor, floor, plan});
  };
  for (const culet::Config& config : Reader().configs(p, readers.device())) {
    add(readers, culet::Candidate{{{"reader", config, culet::Part::all}}}, false, true);
  }
  if (report.vendor_default() != nullptr)
    add(tuner, report.vendor_default()->candidate, true, false);
  int own = 0;
  for (const culet::Trial& trial : report.trials) {  // the fastest first
    if (trial.vendor || trial.fallback || trial.outcome != culet::Outcome::measured) continue;
    if (own++ < options.candidates) add(tuner, trial.candidate, false, false);
  }
  if (own == 0) stop("no own candidate was measured for " + p.text(), 3);
  bench::race(entries, options.rounds);
  const int launches = copies.launches();
  const Entry *floor = nullptr, *best = nullptr, *vendor = nullptr;
  for (const Entry& entry : entries) {
    const Entry*& place = entry.floor ? floor : entry.vendor ? vendor : best;
    if (place == nullptr || entry.median(launches) < place->median(launches)) place = &entry;
  }
  const double floor_us = floor->median(launches) * 1e6, own_us = best->median(launches) * 1e6;
  std::printf(
      "{\"problem\": \"%s\", \"bytes\": %.0f, \"floor_us\": %.3f, \"floor_bytes_per_s\": %.3e, "
      "\"floor\": \"%s\", \"own_us\": %.3f, \"own\": \"%s\", \"over_floor\": %.4f",
      p.text().c_str(), p.compulsory_bytes(), floor_us, p.compulsory_bytes() / floor_us * 1e6,
      floor->text.c_str(), own_us, best->text.c_str(), own_us / floor_us);
  if (vendor != nullptr) {
    std::printf(", \"cublaslt_default_us\": %.3f", vendor->median(launches) * 1e6);
  }
  std::printf("}\n");
  std::fflush(stdout);
  const double weights = static_cast<double>(p.n * p.k) * static_cast<double>(culet::bits(p.b)) / 8;
  for (Class& of : *classes) {
    if (weights >= of.least && weights <= of.most) of.ratios.push_back(own_us / floor_us);
  }
}

}  // namespace

int main(int argc, char** argv) {
  const bench::LayerOptions options = bench::parse_options(argc, argv, "bench_read_floor", 3);
  const std::vector<Problem> problems = options.problems();
  for (const Problem& p : problems) {
    if (p.batch != 1 || p.is_empty()) stop(p.text() + ": one product that is not empty", 2);
  }
  const auto device = culet::find_device("cuda");
  if (bench::skipped(device)) return 0;
  void* const stream = bench::open_device(device->ordinal);
  culet::TuneOptions tuning;
  tuning.isolation = culet::Isolation::none;
  culet::Tuner tuner(culet::Registry::standard(), *device, tuning, must(culet::open_cache("none")));
  culet::Registry registry;
  must(registry.add(std::make_shared<Reader>()));
  culet::Tuner readers(registry, *device, tuning, must(culet::open_cache("none")));
  std::vector<Class> classes = {{"weights of 100 MB and more", 100e6, INFINITY, {}},
                                {"weights of 30 to 52 MB", 30e6, 52e6, {}}};
  for (const Problem& p : problems) measure(p, tuner, readers, stream, options, &classes);
  for (const Class& of : classes) {
    if (of.ratios.empty()) continue;
    double sum = 0;
    for (const double ratio : of.ratios) sum += std::log(ratio);
    std::printf("{\"class\": \"%s\", \"problems\": %zu, \"over_floor\": %.4f}\n", of.name,
                of.ratios.size(), std::exp(sum / static_cast<double>(of.ratios.size())));
  }
  return 0;
}

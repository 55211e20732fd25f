// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// A decode step as a chain: layer after layer, each layer's D the next one's A, every layer with
// weights of its own, more of them than L2 holds, all in one CUDA graph. culet's kernels are
// chained by programmatic dependent launch and, since weights are constant (`const=b`), read them
// before the layer before them has finished. cuBLASLt's chain is of plain launches: it offers no
// other.
//
// Where n and k differ, D takes the first n elements of a row of max(n, k), and the next layer
// reads the first k. Every layer keeps its D, so that afterwards each can be recomputed from the
// chain's own A by cuBLASLt in a plain launch and compared: before the replay that is checked, all
// of them are NaN, so that what was read too early shows.
//
//     bench_chain [--candidates N] [--rounds N] [--m LIST] [--shapes FILE] [PROBLEM...]
//
// prints a line of JSON for each problem. Ratios above 1: culet's chain is the faster one.
#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "common.h"
#include "cuda_memory.h"
#include "culet/culet.h"
#include "layer_options.h"

namespace {

using bench::must;
using bench::stop;
using culet::Plan;
using culet::Problem;

constexpr int kFewestLayers = 8, kMostLayers = 200;

/// The layer as it stands in the chain.
Problem chained(const Problem& p) {
  const std::string row = std::to_string(std::max(p.n, p.k));
  const std::string text = std::to_string(p.m) + "x" + std::to_string(p.n) + "x" +
                           std::to_string(p.k) + ":bf16:lda=" + row + ":ldd=" + row + ":const=b";
  return must(Problem::parse(text));
}

/// Weights and activations of a chain of one kind of layer.
class Chain {
 public:
  Chain(const Problem& p, void* stream)
      : p_(p), stream_(stream), activation_bytes_(static_cast<std::size_t>(p.m * p.lda) * 2) {
    const double layer_bytes = 2.0 * static_cast<double>(p.n * p.k);
    const int layers = bench::rotating_copies(layer_bytes, kFewestLayers, kMostLayers);
    const auto count = static_cast<std::size_t>(p.n * p.k);
    // Layers take the same numbers from different places on.
    const auto values = bench::random_bf16(count + 64 * static_cast<std::size_t>(layers),
                                           1.0 / static_cast<double>(p.k), 1);
    for (int layer = 0; layer < layers; ++layer) {
      weights_.emplace_back(count * 2);
      weights_.back().upload(values.data() + 64 * layer, count * 2);
      activations_.emplace_back(activation_bytes_);
    }
    activations_.emplace_back(activation_bytes_);
    start_ = bench::random_bf16(activation_bytes_ / 2, 1, 2);
    reset(false);
  }

  int layers() const { return static_cast<int>(weights_.size()); }

  bench::Graph capture(const Plan& plan, bool pdl) {
    need_workspace(plan);
    return bench::Graph(stream_, [&] {
      for (int layer = 0; layer < layers(); ++layer) run(plan, layer, activations_[layer + 1], pdl);
    });
  }

  /// Replays once from NaN and compares every layer with what `reference` makes of its A. The
  /// largest difference, in roundings of a bf16 of that size; NaN and all that is far off give a
  /// large number.
  double check(const bench::Graph& graph, const Plan& reference) {
    reset(true);
    graph.run();
    need_workspace(reference);
    const bench::Memory wanted(activation_bytes_);
    std::vector<std::uint16_t> got(activation_bytes_ / 2), exact(activation_bytes_ / 2);
    double worst = 0;
    for (int layer = 0; layer < layers(); ++layer) {
      run(reference, layer, wanted, false);
      bench::driver().call("cuStreamSynchronize", stream_);
      wanted.download(exact.data(), activation_bytes_);
      activations_[layer + 1].download(got.data(), activation_bytes_);
      for (std::int64_t row = 0; row < p_.m; ++row) {
        for (std::int64_t n = 0; n < p_.n; ++n) {
          const auto at = static_cast<std::size_t>(row * p_.ldd + n);
          const double want = bench::from_bf16(exact[at]);
          const double difference = bench::from_bf16(got[at]) - want;
          const double rounding = std::max(std::fabs(want), 1.0 / 16) / 256;
          worst =
              std::max(worst, std::isfinite(difference) ? std::fabs(difference) / rounding : 1e9);
        }
      }
    }
    return worst;
  }

 private:
  void need_workspace(const Plan& plan) {
    const auto bytes = static_cast<std::size_t>(std::max<std::int64_t>(plan.workspace().bytes, 1));
    if (workspace_.empty() || workspace_.back().bytes() < bytes) workspace_.emplace_back(bytes);
    workspace_.back().fill(0);
  }

  void run(const Plan& plan, int layer, const bench::Memory& d, bool pdl) const {
    culet::Arguments arguments;
    arguments.a = activations_[static_cast<std::size_t>(layer)].data();
    arguments.b = weights_[static_cast<std::size_t>(layer)].data();
    arguments.d = d.data();
    arguments.workspace = workspace_.back().data();
    must(plan.run(arguments, {stream_, pdl}));
  }

  /// The first activations everywhere; with `poison`, what a layer writes is NaN.
  void reset(bool poison) {
    std::vector<std::uint16_t> values = start_;
    activations_[0].upload(values.data(), activation_bytes_);
    for (std::int64_t row = 0; poison && row < p_.m; ++row) {
      std::fill_n(values.begin() + row * p_.ldd, p_.n, std::uint16_t{0xFFFF});
    }
    for (std::size_t i = 1; i < activations_.size(); ++i)
      activations_[i].upload(values.data(), activation_bytes_);
  }

  Problem p_;
  void* stream_;
  std::size_t activation_bytes_;
  std::vector<bench::Memory> weights_, activations_, workspace_;
  std::vector<std::uint16_t> start_;
};

struct Entry : bench::Racer {
  culet::Candidate candidate;
  bool vendor = false;
  bool pdl = false;
  Plan plan;
};

/// What takes part: cuBLASLt's default and its best, and culet's fastest in plain launches, each
/// chained and plain.
std::vector<Entry> entries_of(const culet::TuneReport& report, culet::Tuner& tuner,
                              const Problem& p, Chain& chain, int candidates) {
  std::vector<Entry> entries;
  const auto add = [&](const culet::Trial& trial, bool pdl) {
    Plan plan = must(tuner.plan(p, trial.candidate));
    bench::Graph graph = chain.capture(plan, pdl);
    entries.push_back({{std::move(graph), {}}, trial.candidate, trial.vendor, pdl, plan});
  };
  if (report.vendor_default() == nullptr) stop("cuBLASLt has no plan for " + p.text(), 3);
  add(*report.vendor_default(), false);
  add(*report.vendor_best(), false);
  int own = 0;
  for (const culet::Trial& trial : report.trials) {
    if (trial.vendor || trial.outcome != culet::Outcome::measured || own >= candidates) continue;
    add(trial, true);
    if (own++ == 0) add(trial, false);
  }
  return entries;
}

void measure(const Problem& problem, culet::Tuner& tuner, void* stream,
             const bench::LayerOptions& options) {
  const Problem p = chained(problem);
  const culet::TuneReport report = must(tuner.tune(p));
  Chain chain(p, stream);
  std::vector<Entry> entries = entries_of(report, tuner, p, chain, options.candidates);
  bench::race(entries, options.rounds);
  const Entry* best = nullptr;
  const Entry* plain = nullptr;
  for (const Entry& entry : entries) {
    if (entry.vendor) continue;
    const Entry*& place = entry.pdl ? best : plain;
    if (place == nullptr || entry.median(1) < place->median(1)) place = &entry;
  }
  const double by_default = entries[0].median(chain.layers()) * 1e6;
  const double by_best = entries[1].median(chain.layers()) * 1e6;
  std::printf(
      "{\"problem\": \"%s\", \"layers\": %d, \"cublaslt_default_us\": %.3f, "
      "\"cublaslt_best_us\": %.3f",
      problem.text().c_str(), chain.layers(), by_default, by_best);
  if (best != nullptr) {
    const double own = best->median(chain.layers()) * 1e6;
    const double error = chain.check(best->graph, entries[0].plan);
    std::printf(
        ", \"own_plain_us\": %.3f, \"own_chained_us\": %.3f, \"vs_default\": %.4f, "
        "\"vs_best\": %.4f, \"own\": \"%s\", \"checked\": %s, \"largest_roundings\": %.2f",
        plain->median(chain.layers()) * 1e6, own, by_default / own,
        std::min(by_default, by_best) / own, best->candidate.text().c_str(),
        error <= 4 ? "true" : "false", error);
  }
  std::printf("}\n");
  std::fflush(stdout);
}

}  // namespace

int main(int argc, char** argv) {
  const bench::LayerOptions options = bench::parse_options(argc, argv, "bench_chain", 8);
  const auto device = culet::find_device("cuda");
  if (bench::skipped(device)) return 0;
  void* const stream = bench::open_device(device->ordinal);
  culet::TuneOptions tuning;
  tuning.top = options.candidates;
  tuning.isolation = culet::Isolation::none;
  tuning.backends.allow = {"sm90_stream", "gemv", "cublaslt"};
  culet::Tuner tuner(culet::Registry::standard(), *device, tuning, must(culet::open_cache("none")));
  for (const Problem& problem : options.problems()) {
    if (problem.a != culet::DType::bf16 || problem.b != culet::DType::bf16)
      stop(problem.text() + ": chains are of bf16 layers", 2);
    measure(problem, tuner, stream, options);
  }
  return 0;
}

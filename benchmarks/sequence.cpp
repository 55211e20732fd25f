// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// Layers one after the other, over and over, as a model runs them: is what was chosen for each the
// fastest there too? At the power cap that is not a matter of course: how fast a kernel is depends
// on the clock that its power, or that of all layers together, leaves.
//
//     bench_sequence [--candidates N] [--rounds N] [--m LIST] [--shapes FILE] [PROBLEM...]
//
// Four ways to run the layers take turns of 0.4 s, of which the last 0.24 s count: with the
// vendor's default, with the vendor's best as it was measured, with what the rounds of a tuning
// choose, and with what its final chooses (docs/measuring.md). Prints a line of JSON for each layer
// running alone and one for all of them in sequence: microseconds, as [smallest, median, largest]
// of the rounds.
#include <algorithm>
#include <chrono>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "common.h"
#include "cuda_memory.h"
#include "culet/culet.h"
#include "layer_options.h"

namespace {

using bench::must;
using culet::Candidate;
using culet::Problem;

constexpr double kTurnSeconds = 0.4, kSettleSeconds = 0.16;
constexpr double kGraphSeconds = 5e-3;  ///< about; short against a turn
constexpr const char* kWays[] = {"default", "best", "rounds", "choice"};

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

/// A layer's operands, and its candidate for each way.
struct Layer {
  Layer(const Problem& problem, std::uint64_t seed)
      : p(problem),
        a(random(p.m * p.k, seed)),
        b(random(p.n * p.k, seed + 1)),
        d(static_cast<std::size_t>(p.m * p.n) * 2) {}

  static bench::Memory random(std::int64_t count, std::uint64_t seed) {
    const auto values = bench::random_bf16(static_cast<std::size_t>(count), 1.0 / 3, seed);
    bench::Memory memory(values.size() * 2);
    memory.upload(values.data(), memory.bytes());
    return memory;
  }

  Problem p;
  bench::Memory a, b, d;
  std::map<std::string, Candidate> candidates;
  double seconds = 0;  ///< of one run, roughly
};

class Bench {
 public:
  Bench(const culet::DeviceSpec& device, void* stream, const bench::LayerOptions& options)
      : device_(device),
        stream_(stream),
        options_(options),
        tuner_(culet::Registry::standard(), device, {}, must(culet::open_cache("none"))) {}

  void choose(Layer* layer) const {
    for (const bool with_final : {false, true}) {
      culet::TuneOptions tuning;
      tuning.top = options_.candidates;
      tuning.isolation = culet::Isolation::none;
      if (!with_final) tuning.policy.settle_seconds = 0;
      culet::Tuner tuner(culet::Registry::standard(), device_, tuning,
                         must(culet::open_cache("none")));
      const culet::TuneReport report = must(tuner.tune(layer->p));
      if (report.choice() == nullptr || report.vendor_default() == nullptr)
        bench::stop("no choice, or no plan of cuBLASLt, for " + layer->p.text(), 3);
      layer->candidates.insert_or_assign(with_final ? "choice" : "rounds",
                                         report.choice()->candidate);
      layer->candidates.insert_or_assign("default", report.vendor_default()->candidate);
      layer->candidates.insert_or_assign("best", report.vendor_best()->candidate);
      layer->seconds = report.choice()->timing->median;
    }
  }

  /// The layers in every way, in turns.
  void race(const std::string& title, const std::vector<Layer*>& layers) {
    double once = 0;
    for (const Layer* layer : layers) once += layer->seconds;
    const int times = std::max(1, static_cast<int>(kGraphSeconds / once));
    std::vector<bench::Racer> racers;
    for (const char* way : kWays) racers.push_back({graph_of(layers, way, times), {}});
    std::vector<std::size_t> order = {0, 1, 2, 3};
    std::mt19937 chance(7);
    for (int round = 0; round < options_.rounds; ++round) {
      std::shuffle(order.begin(), order.end(), chance);
      for (const std::size_t i : order) racers[i].seconds.push_back(turn(racers[i].graph) / times);
    }
    std::printf("{\"layers\": %s", bench::quoted(title).c_str());
    for (std::size_t i = 0; i < racers.size(); ++i) {
      const auto [low, high] =
          std::minmax_element(racers[i].seconds.begin(), racers[i].seconds.end());
      std::printf(", \"%s_us\": [%.3f, %.3f, %.3f]", kWays[i], *low * 1e6,
                  racers[i].median(1) * 1e6, *high * 1e6);
    }
    if (layers.size() == 1) {
      for (const char* way : kWays)
        std::printf(", \"%s\": %s", way,
                    bench::quoted(layers[0]->candidates.at(way).text()).c_str());
    }
    std::printf("}\n");
    std::fflush(stdout);
  }

 private:
  bench::Graph graph_of(const std::vector<Layer*>& layers, const char* way, int times) {
    std::vector<culet::Plan> plans;
    for (Layer* layer : layers) {
      plans.push_back(must(tuner_.plan(layer->p, layer->candidates.at(way))));
      const auto bytes = static_cast<std::size_t>(plans.back().workspace().bytes);
      workspaces_.push_back(std::make_unique<bench::Memory>(std::max<std::size_t>(bytes, 1)));
      workspaces_.back()->fill(0);
    }
    const std::size_t first = workspaces_.size() - layers.size();
    return bench::Graph(stream_, [&] {
      for (int i = 0; i < times; ++i) {
        for (std::size_t l = 0; l < layers.size(); ++l) {
          culet::Arguments arguments;
          arguments.a = layers[l]->a.data();
          arguments.b = layers[l]->b.data();
          arguments.d = layers[l]->d.data();
          arguments.workspace = workspaces_[first + l]->data();
          must(plans[l].run(arguments, {stream_, false}));
        }
      }
    });
  }

  static double turn(const bench::Graph& graph) {
    std::vector<double> seconds;
    const double begin = now();
    while (now() - begin < kTurnSeconds) {
      const double one = graph.run();
      if (now() - begin > kSettleSeconds) seconds.push_back(one);
    }
    if (seconds.empty()) seconds.push_back(graph.run());
    std::sort(seconds.begin(), seconds.end());
    return seconds[seconds.size() / 2];
  }

  const culet::DeviceSpec& device_;
  void* stream_;
  const bench::LayerOptions& options_;
  culet::Tuner tuner_;                                      ///< makes plans
  std::vector<std::unique_ptr<bench::Memory>> workspaces_;  ///< of every plan in a graph
};

}  // namespace

int main(int argc, char** argv) {
  const bench::LayerOptions options = bench::parse_options(argc, argv, "bench_sequence", 5);
  const std::vector<Problem> problems = options.problems();
  for (const Problem& p : problems) {
    const std::string plain =
        std::to_string(p.m) + "x" + std::to_string(p.n) + "x" + std::to_string(p.k) + ":bf16";
    if (p.text() != plain) bench::stop(p.text() + ": layers are plain, as " + plain, 2);
  }
  const auto device = culet::find_device("cuda");
  if (bench::skipped(device)) return 0;
  void* const stream = bench::open_device(device->ordinal);
  Bench bench(*device, stream, options);
  std::vector<std::unique_ptr<Layer>> layers;
  std::vector<Layer*> all;
  for (const Problem& p : problems) {
    layers.push_back(std::make_unique<Layer>(p, 2 * layers.size() + 1));
    all.push_back(layers.back().get());
    bench.choose(all.back());
  }
  for (Layer* layer : all) bench.race(layer->p.text(), {layer});
  if (all.size() > 1) bench.race("all in sequence", all);
  return 0;
}

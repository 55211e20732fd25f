// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// A table of plans over a range of m, measured at its borders: is the plan that serves an m ever
// slower there than the plan of another interval, and how does it compare with the vendor's?
//
//     bench_plan_table [PROBLEM] [--device cuda:0|cpu] [--rounds N] [--top N] [-o FILE]
//
// 1. Tunes and builds the table (Tuner::plan_table).
// 2. At the borders of every interval (low, low + 1, middle, high) runs the table and
//    compares all of D with what another plan computes, the vendor's if there is one; then launches
//    back and forth across every border, with the same buffers and without waiting.
// 3. At these m times the table, the other intervals' candidates, planned for exactly this m where
//    they can compute it, and all of the vendor's plans for it, in interleaved rounds. Operands
//    rotate over three times the last-level cache, so that weights come from memory; on a GPU each
//    sample is the replay of a graph.
//
// Times are medians of the rounds. Ratios are medians of what each round gives; above 1 the table
// is the faster one. "Slower" is a ratio whose interval (95 %, from order statistics) ends below
// 0.98. -o writes JSON.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <functional>
#include <memory>
#include <numeric>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "common.h"
#include "cuda_memory.h"
#include "culet/culet.h"
#include "plan_table_operands.h"
#include "plan_table_report.h"

namespace plan_table {
namespace {

using culet::Candidate;
using culet::Plan;

constexpr double kSampleSeconds = 2e-3;  ///< of a graph
constexpr double kCpuSampleSeconds = 10e-3, kStretchSeconds = 50e-6;
constexpr std::chrono::milliseconds kPoolsPark{5};  ///< until threads of another library sleep
constexpr std::int64_t kMostLaunches = 2048;
constexpr double kDropRatio = 1.25;  ///< so much slower than the table after two rounds: leaves

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const std::size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
}

/// Something that is timed at an m.
struct Entry {
  Candidate candidate;
  int interval = -1;  ///< the first of the table's others that has this candidate
  int vendor = -1;    ///< its place in the vendor's list
  std::function<void(std::int64_t copy)> launch;
  std::optional<bench::Graph> graph;
  std::vector<double> seconds;
};

class Bench {
 public:
  Bench(culet::Tuner& tuner, const Problem& whole, culet::PlanTable table, void* stream, int rounds)
      : tuner_(tuner),
        whole_(whole),
        table_(std::move(table)),
        stream_(stream),
        rounds_(rounds),
        cuda_(tuner.device().is_cuda()),
        ms_(borders()),
        operands_(whole_, ms_, rotate_bytes(), cuda_) {
    for (const auto& interval : table_.intervals()) {
      std::int64_t bytes = 0;
      for (const std::int64_t m : ms_)
        if (m >= interval.range.low && m <= interval.range.high)
          bytes = std::max(bytes, interval.plan.workspace(m).bytes);
      workspaces_.push_back(std::make_unique<Block>(bytes, cuda_));
      workspaces_.back()->fill(0);
    }
  }

  const culet::PlanTable& table() const { return table_; }

  /// Every m on its own, then every border. Stops at a wrong result.
  std::vector<Point> check() {
    std::vector<Point> points;
    for (const std::int64_t m : ms_) {
      points.push_back({m, interval_of(m), 0, {}, {}, {}, {}, 0});
      check_launches({m}, true, &points.back());
    }
    for (std::size_t i = 1; i < points.size(); ++i) {
      if (points[i].interval == points[i - 1].interval) continue;
      const std::int64_t high = points[i - 1].m, low = points[i].m;
      check_launches({high, low, high, low}, true, &points[i]);
      // The last row is the one that m = low left.
      check_launches({low, high, low, high}, false, &points[i - 1]);
    }
    return points;
  }

  void time(Point* point) {
    const Problem p = at_m(whole_, point->m);
    std::vector<Entry> entries = entries_at(p, point->interval);
    race(entries, p);
    const Entry& table = entries[0];
    point->seconds = typical(table);
    for (const Entry& entry : entries) {
      if (&entry == &table) continue;
      const Found found = compare(entry, table);
      const auto keep = [&](std::optional<Found>& best) {
        if (!best || found.seconds < best->seconds) best = found;
      };
      if (entry.interval >= 0) keep(point->other);
      if (entry.vendor >= 0) keep(point->vendor);
      if (entry.vendor == 0) point->vendor_default = found;
    }
  }

 private:
  std::vector<std::int64_t> borders() const {
    std::vector<std::int64_t> ms;
    for (const auto& [range, plan] : table_.intervals()) {
      for (const std::int64_t m :
           {range.low, range.low + 1, range.low + (range.high - range.low) / 2, range.high})
        if (m <= range.high) ms.push_back(m);
    }
    std::sort(ms.begin(), ms.end());
    ms.erase(std::unique(ms.begin(), ms.end()), ms.end());
    return ms;
  }

  /// Three times the last-level cache; what a CPU reports may be its host's (docs/measuring.md).
  double rotate_bytes() const {
    const culet::DeviceSpec& device = tuner_.device();
    if (cuda_) return 3.0 * static_cast<double>(device.l2_bytes);
    const std::int64_t cache = std::max(device.l2_bytes, device.l3_bytes);
    return 3.0 * static_cast<double>(std::clamp<std::int64_t>(cache, 8 << 20, 64 << 20));
  }

  int interval_of(std::int64_t m) const {
    const auto& all = table_.intervals();
    const auto found = std::find_if(all.begin(), all.end(),
                                    [&](const auto& each) { return m <= each.range.high; });
    return static_cast<int>(found - all.begin());
  }

  void wait() const {
    if (cuda_) bench::driver().call("cuStreamSynchronize", stream_);
  }

  void run_table(const Problem& p, std::int64_t copy) const {
    const Block& workspace = *workspaces_[static_cast<std::size_t>(interval_of(p.m))];
    must(table_.run(operands_.arguments(p, copy, workspace), {stream_, false}));
  }

  /// A launch of a plan with a workspace of its own.
  std::function<void(std::int64_t)> launcher(const Plan& plan, const Problem& p) const {
    auto workspace = std::make_shared<Block>(plan.workspace(p.m).bytes, cuda_);
    workspace->fill(0);
    return [=, this](std::int64_t copy) {
      must(plan.run(operands_.arguments(p, copy, *workspace), {stream_, false}));
    };
  }

  std::vector<Candidate> vendor_candidates(const Problem& p) const {
    culet::BackendFilter vendors;
    vendors.allow = {"vendor"};
    std::vector<Candidate> candidates;
    for (const auto& each : tuner_.registry().discover(p, tuner_.device(), vendors))
      if (each.vendor) candidates.push_back(each.candidate);
    return candidates;
  }

  /// A plan for this m that is not the table's: the vendor's first that is another, else another
  /// interval's, else any that culet has, the plainest first.
  Plan reference(const Problem& p) {
    const Candidate& own = table_.find(p.m)->candidate();
    const auto first_of = [&](const std::vector<Candidate>& candidates) -> std::optional<Plan> {
      for (const Candidate& candidate : candidates) {
        if (candidate == own) continue;
        if (const auto plan = tuner_.plan(p, candidate)) return *plan;
      }
      return std::nullopt;
    };
    if (auto plan = first_of(vendor_candidates(p))) return *plan;
    std::vector<Candidate> others, rest;
    for (const auto& interval : table_.intervals()) others.push_back(interval.plan.candidate());
    if (auto plan = first_of(others)) return *plan;
    for (const auto& each : tuner_.registry().discover(p, tuner_.device()))
      rest.insert(rest.begin(), each.candidate);
    if (auto plan = first_of(rest)) return *plan;
    stop(p.text() + ": only one plan can compute it, so nothing can be checked", 3);
  }

  Bytes downloaded(const Problem& p, std::int64_t guard_rows) const {
    wait();
    Bytes bytes(static_cast<std::size_t>(culet::bytes(p.d, p.span_d() + guard_rows * p.ldd)));
    operands_.d().download(bytes.data(), bytes.size());
    return bytes;
  }

  /// Launches of the table, one after the other into the same D; the last is compared.
  void check_launches(const std::vector<std::int64_t>& ms, bool after, Point* point) {
    const Problem p = at_m(whole_, ms.back());
    operands_.d().fill(0xFF);
    const Plan plan = reference(p);
    const auto launch = launcher(plan, p);
    launch(0);
    const Bytes want = downloaded(p, 0);
    operands_.d().fill(0xFF);
    for (const std::int64_t m : ms) run_table(at_m(whole_, m), 0);
    const double error = difference(downloaded(p, kGuardRows), want, p, after);
    point->error = std::max(point->error, error);
    point->checked_against = plan.candidate().text();
    if (error <= 1) return;
    stop(text("m=%lld is wrong%s: off by %.3g times the tolerance from ",
              static_cast<long long>(p.m), ms.size() > 1 ? " after launches across the border" : "",
              error) +
             plan.candidate().text() + "; the table has " + table_.find(p.m)->candidate().text(),
         4);
  }

  /// The table first.
  std::vector<Entry> entries_at(const Problem& p, int interval) {
    std::vector<Entry> entries(1);
    entries[0].candidate = table_.find(p.m)->candidate();
    entries[0].launch = [this, p](std::int64_t copy) { run_table(p, copy); };
    const auto& intervals = table_.intervals();
    for (std::size_t i = 0; i < intervals.size(); ++i) {
      const Candidate& candidate = intervals[i].plan.candidate();
      const auto same = [&](const Entry& entry) { return entry.candidate == candidate; };
      if (static_cast<int>(i) == interval || std::any_of(entries.begin(), entries.end(), same))
        continue;
      if (const auto plan = tuner_.plan(p, candidate))
        entries.push_back({candidate, static_cast<int>(i), -1, launcher(*plan, p), {}, {}});
    }
    int place = -1;
    for (const Candidate& candidate : vendor_candidates(p)) {
      ++place;
      const auto same = std::find_if(entries.begin() + 1, entries.end(), [&](const Entry& entry) {
        return entry.candidate == candidate;
      });
      if (same != entries.end()) {
        same->vendor = place;
      } else if (const auto plan = tuner_.plan(p, candidate)) {
        entries.push_back({candidate, -1, place, launcher(*plan, p), {}, {}});
      }
    }
    return entries;
  }

  /// Seconds of a launch: of a replay of the graph, or the fastest of short stretches on a CPU.
  double sample(const Entry& entry, std::int64_t copies, std::int64_t launches) const {
    if (entry.graph) return entry.graph->run(2) / static_cast<double>(launches);
    if (tuner_.device().threads > 1) std::this_thread::sleep_for(kPoolsPark);
    double best = 0;
    std::int64_t runs = 0;
    const double end = now() + kCpuSampleSeconds;
    for (int stretch = 0; stretch < 2 || now() < end; ++stretch) {
      const double begin = now();
      const std::int64_t before = runs;
      double taken = 0;
      for (; taken < kStretchSeconds; taken = now() - begin) entry.launch(runs++ % copies);
      const double each = taken / static_cast<double>(runs - before);
      if (stretch == 1 || each < best) best = each;  // the first is the warm-up
    }
    return best;
  }

  void race(std::vector<Entry>& entries, const Problem& p) const {
    const std::int64_t copies = operands_.copies(p);
    std::int64_t launches = copies;
    const auto capture = [&](const Entry& entry) {
      return bench::Graph(stream_, [&] {
        for (std::int64_t i = 0; i < launches; ++i) entry.launch(i % copies);
      });
    };
    if (cuda_) {
      const double each = capture(entries[0]).run(2) / static_cast<double>(copies);
      const double walks = std::ceil(kSampleSeconds / each / static_cast<double>(copies));
      launches = std::min(static_cast<std::int64_t>(walks), kMostLaunches / copies) * copies;
      for (Entry& entry : entries) entry.graph.emplace(capture(entry));
    }
    for (const Entry& entry : entries) sample(entry, copies, launches);  // warm-up
    std::vector<bool> gone(entries.size());
    std::vector<std::size_t> order(entries.size());
    std::iota(order.begin(), order.end(), 0);
    std::mt19937 chance;
    for (int round = 0; round < rounds_; ++round) {
      // By chance, then the same backwards: nobody always follows the same one, or itself.
      if (round % 2 == 0) {
        std::shuffle(order.begin(), order.end(), chance);
      } else {
        std::reverse(order.begin(), order.end());
      }
      for (const std::size_t i : order)
        if (!gone[i]) entries[i].seconds.push_back(sample(entries[i], copies, launches));
      for (std::size_t i = 0; round == 1 && i < entries.size(); ++i)
        gone[i] = typical(entries[i]) > kDropRatio * typical(entries[0]);
    }
  }

  static double typical(const Entry& entry) { return median(entry.seconds); }

  static Found compare(const Entry& entry, const Entry& table) {
    std::vector<double> ratios;
    for (std::size_t i = 0; i < entry.seconds.size(); ++i)
      ratios.push_back(entry.seconds[i] / table.seconds[i]);
    std::sort(ratios.begin(), ratios.end());
    const auto count = static_cast<int>(ratios.size());
    // The cut at each end is the largest with a binomial(count, 1/2) tail of at most 2.5 %.
    int cut = 0;
    double term = std::ldexp(1, -count);
    for (double tail = term; tail <= 0.025; tail += term) {
      term *= static_cast<double>(count - cut) / (cut + 1);
      ++cut;
    }
    const auto low = static_cast<std::size_t>(std::max(cut - 1, 0));
    return {entry.candidate.text(), entry.interval, typical(entry),
            median(ratios),         ratios[low],    ratios[ratios.size() - 1 - low]};
  }

  culet::Tuner& tuner_;
  Problem whole_;
  culet::PlanTable table_;
  void* stream_;
  int rounds_;
  bool cuda_;
  std::vector<std::int64_t> ms_;
  Operands operands_;
  std::vector<std::unique_ptr<Block>> workspaces_;  ///< of each interval
};

Options parse(int argc, char** argv) {
  Options options;
  constexpr const char* kUsage = "[PROBLEM] [--device cuda:0|cpu] [--rounds N] [--top N] [-o FILE]";
  bench::answer_help(argc, argv, kUsage);
  options.command = bench::program;
  for (int i = 1; i < argc; ++i) options.command += " " + std::string(argv[i]);
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    if (!word.starts_with("-")) {
      options.problem = word;
      continue;
    }
    if (word != "--device" && word != "--rounds" && word != "--top" && word != "-o")
      stop("unknown option " + word + "; there are " + kUsage, 2);
    if (++i == argc) stop(word + " wants a value", 2);
    if (word == "--device") options.device = argv[i];
    if (word == "--rounds") options.rounds = std::atoi(argv[i]);
    if (word == "--top") options.top = std::atoi(argv[i]);
    if (word == "-o") options.out = argv[i];
  }
  if (options.rounds < 2) stop("--rounds: a number from 2 on", 2);
  if (options.top < 1) stop("--top: a number from 1 on", 2);
  if (!options.device.starts_with("cuda") && !options.device.starts_with("cpu"))
    stop("--device " + options.device + ": cuda, cuda:N, cpu or cpu:THREADS", 2);
  return options;
}

Problem parse_problem(const std::string& said) {
  const Problem p = must(must(Problem::parse(said)).validated());
  const auto known = [](DType dtype) {
    return dtype == DType::bf16 || dtype == DType::f32 || dtype == DType::tf32;
  };
  if (!known(p.a) || !known(p.b) || !known(p.d)) stop(said + ": bf16, tf32 and f32 only", 2);
  if (p.batch != 1 || p.pack_b || !p.epilogue.is_identity())
    stop(said + ": no batch, no pack=b and no epilogue here", 2);
  if (p.is_empty() || p.k == 0) stop(said + ": nothing to compute", 2);
  return p;
}

struct Warnings final : culet::Observer {
  void warning(std::string_view what) override {
    std::fprintf(stderr, "%s: %s\n", bench::program.c_str(), std::string(what).c_str());
  }
};

int measure(int argc, char** argv) {
  const Options options = parse(argc, argv);
  std::setvbuf(stdout, nullptr, _IOLBF, 0);  // it takes minutes: what is known shows
  const Problem problem = parse_problem(options.problem);
  const auto device = culet::find_device(options.device);
  if (options.device.starts_with("cuda") && bench::skipped(device)) return 0;
  if (!device) stop(device.error().message, 5);
  void* const stream = device->is_cuda() ? bench::open_device(device->ordinal) : nullptr;
  culet::TuneOptions tuning;
  tuning.top = options.top;
  culet::Tuner tuner(culet::Registry::standard(), *device, tuning, must(culet::open_cache("none")));

  Warnings warnings;
  const double begin = now();
  culet::PlanTable table = must(tuner.plan_table(problem, &warnings));
  const double tuned = now() - begin;
  std::printf("%s on %s: %zu intervals, tuned and built in %.1f s\n", problem.text().c_str(),
              device->name.c_str(), table.intervals().size(), tuned);
  int index = 0;
  for (const auto& [range, plan] : table.intervals())
    std::printf("%3d  m=%lld..%lld  %s\n", index++, static_cast<long long>(range.low),
                static_cast<long long>(range.high), plan.candidate().text().c_str());

  Bench bench(tuner, problem, std::move(table), stream, options.rounds);
  std::vector<Point> points = bench.check();
  std::printf(
      "right at %zu m and across the borders, back and forth: at most %.2f of the tolerance "
      "from another plan\n",
      points.size(), summarise(points).largest_error);
  std::printf("%6s %5s %12s %12s %6s %7s %14s %12s %7s\n", "m", "int.", "table us", "best other us",
              "int.", "ratio", "interval", "vendor us", "ratio");
  for (Point& point : points) {
    bench.time(&point);
    print(point);
  }
  print(summarise(points));
  if (!options.out.empty())
    must(culet::save(options.out, json(options, tuner, problem, bench.table(), tuned, points)));
  return 0;
}

}  // namespace
}  // namespace plan_table

int main(int argc, char** argv) {
  if (const auto status = culet::run_as_worker(argc, argv)) return *status;
  bench::program = "bench_plan_table";
  return plan_table::measure(argc, argv);
}

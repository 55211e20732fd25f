// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// What a process pays until the first launch of a tuned kernel has ended, on a machine that has
// tuned before. Each figure is of a process of its own, which does what a user's program does: it
// makes its context and its operands, and calls matmul(). Taken apart: the driver's part (loading
// it, cuInit, the context), the operands, and the rest, which is culet's: from exec to main(), and
// the first call until the device is done.
//
//     bench_warm_start [--device D] [--runs N] [--candidate TEXT] [--fill N] [--steps] [PROBLEM]
//
// A store is made first, by another process: the selection is the candidate, by default the own one
// that is ranked best, with its code; --fill adds so many selections of other problems. --steps
// calls the parts of what matmul() does one by one, through the public API, and prints their times.
// Prints a line of JSON: milliseconds, median with the smallest and the largest.
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "common.h"
#include "cuda_memory.h"
#include "culet/culet.h"

namespace {

using bench::must;
using bench::stop;

struct Options {
  std::string device = "auto", candidate, store, child;
  std::string problem = "16x1024x1024:bf16";
  int runs = 11, fill = 0;
  bool steps = false;
  double started = 0;  ///< of a child: when its parent called exec
};

/// Milliseconds of a clock that all processes share.
double now() {
  return std::chrono::duration<double, std::milli>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

/// Operands of a problem without batch and epilogue, where `memory` says.
struct Views {
  culet::MatrixView a, b, d;
};

std::size_t bytes(const culet::MatrixView& v) {
  return static_cast<std::size_t>(v.rows * v.columns * culet::bits(v.dtype) / 8);
}

Views views_of(const culet::Problem& p) {
  if (p.batch != 1 || !p.epilogue.is_identity()) stop("no batch and no epilogue here", 2);
  const auto view = [](culet::DType dtype, std::int64_t rows, std::int64_t columns,
                       bool row_major) {
    culet::MatrixView v;
    v.dtype = dtype;
    v.rows = rows;
    v.columns = columns;
    v.row_stride = row_major ? columns : 1;
    v.column_stride = row_major ? 1 : rows;
    return v;
  };
  return {view(p.a, p.m, p.k, p.a_order == culet::Order::row_major),
          view(p.b, p.k, p.n, p.b_order == culet::Order::row_major), view(p.d, p.m, p.n, true)};
}

/// Memory of either kind of device, every byte `fill`.
class Operands {
 public:
  Operands(Views* views, bool cuda) : cuda_(cuda) {
    for (culet::MatrixView* view : {&views->a, &views->b, &views->d}) {
      const unsigned char fill = view == &views->d ? 0xff : 0;  // D holds NaN (or -1)
      if (cuda) {
        device_.emplace_back(bytes(*view));
        device_.back().fill(fill);
        view->data = device_.back().data();
      } else {
        host_.emplace_back(std::aligned_alloc(4096, (bytes(*view) + 4095) / 4096 * 4096), &free);
        std::memset(host_.back().get(), fill, bytes(*view));
        view->data = host_.back().get();
      }
    }
  }
  /// Whether D was computed: zeros now.
  bool written(const culet::MatrixView& d) const {
    std::vector<unsigned char> copy(bytes(d), 0xff);
    if (cuda_) {
      device_.back().download(copy.data(), copy.size());
    } else {
      std::memcpy(copy.data(), host_.back().get(), copy.size());
    }
    return std::all_of(copy.begin(), copy.end(), [](unsigned char byte) { return byte == 0; });
  }

 private:
  bool cuda_;
  std::vector<bench::Memory> device_;
  std::vector<std::unique_ptr<void, void (*)(void*)>> host_;
};

void print(const std::string& name, double milliseconds) {
  std::printf("%s %.6f\n", name.c_str(), milliseconds);
}

bool is_cuda(const std::string& device) { return device.starts_with("cuda"); }

int ordinal_of(const std::string& device) {
  return device.starts_with("cuda:") ? std::atoi(device.c_str() + 5) : 0;
}

/// A store in which the candidate is what was chosen, and its code.
int prepare(const Options& options) {
  const auto device = must(culet::find_device(options.device));
  Views views = views_of(must(culet::Problem::parse(options.problem)));
  for (culet::MatrixView* view : {&views.a, &views.b, &views.d})
    view->data = reinterpret_cast<void*>(std::uintptr_t{4096});  // aligned, like what follows
  const auto problem = must(culet::problem_of(views.a, views.b, views.d));
  culet::Registry registry = culet::Registry::standard();
  culet::Candidate candidate;
  if (!options.candidate.empty()) {
    candidate = must(culet::Candidate::parse(options.candidate));
  } else {
    for (const auto& item : registry.discover(problem, device)) {
      if (item.vendor || item.fallback) continue;
      candidate = item.candidate;
      break;
    }
    if (candidate.steps.empty()) stop("no own kernel can compute " + problem.text(), 3);
  }
  const auto cache = must(culet::open_cache(options.store));
  culet::StoreContents others;
  for (int i = 0; i < options.fill; ++i) {
    others.selections.push_back({std::to_string(1 + i) + "x4095x4096:bf16",
                                 device.identity(),
                                 {"filling", "5", 0},
                                 candidate,
                                 "because",
                                 1 + i,
                                 false});
  }
  must(cache->take(others));
  culet::Tuner tuner(std::move(registry), device, {}, cache);
  must(tuner.plan(problem, candidate));
  cache->store_selection(problem, {"bench_warm_start", "1", 0}, device.identity(), candidate,
                         "to be started");
  std::printf("%s\n%s\n%s\n", problem.text().c_str(), candidate.text().c_str(),
              device.name.c_str());
  return 0;
}

/// What matmul() does, step by step. Code and its loading are one step here: Tuner::plan.
void run_steps(const Options& options, const Views& views, void* stream) {
  double last = now();
  const auto step = [&](const char* name) {
    const double at = now();
    print(name, at - last);
    last = now();
  };
  const auto problem = must(culet::problem_of(views.a, views.b, views.d));
  step("problem");
  const auto device = must(culet::find_device(options.device));
  step("find_device");
  const auto cache = must(culet::open_cache(options.store));
  step("open_cache");
  culet::Registry registry = culet::Registry::standard();
  step("registry");
  const auto candidate = cache->find_any_selection(problem, device.identity());
  step("selection");
  if (!candidate) stop("the store has no selection", 6);
  culet::Tuner tuner(std::move(registry), device, {}, cache);
  const culet::Plan plan = must(tuner.plan(problem, *candidate));
  step("plan");
  bench::Memory* workspace = nullptr;
  std::vector<char> host(static_cast<std::size_t>(plan.workspace().bytes) + 4096);
  std::unique_ptr<bench::Memory> device_workspace;
  if (stream != nullptr && plan.workspace().bytes > 0) {
    device_workspace = std::make_unique<bench::Memory>(plan.workspace().bytes);
    device_workspace->fill(0);
    workspace = device_workspace.get();
  }
  culet::Arguments arguments;
  arguments.a = views.a.data;
  arguments.b = views.b.data;
  arguments.d = views.d.data;
  const auto address = (reinterpret_cast<std::uintptr_t>(host.data()) + 4095) / 4096 * 4096;
  arguments.workspace = workspace != nullptr ? workspace->data() : reinterpret_cast<void*>(address);
  culet::RunOptions run;
  run.stream = stream;
  step("workspace");
  must(plan.run(arguments, run));
  step("launch");
  if (stream != nullptr) bench::driver().call("cuStreamSynchronize", stream);
  step("synchronise");
}

int child(const Options& options) {
  const double begin = now();
  void* stream = nullptr;
  const bool cuda = is_cuda(options.device);
  if (cuda) stream = bench::open_device(ordinal_of(options.device));
  const double driver = now();
  Views views = views_of(must(culet::Problem::parse(options.problem)));
  const Operands operands(&views, cuda);
  if (cuda) bench::driver().call("cuCtxSynchronize");
  const double ready = now();
  print("start", begin - options.started);
  print("driver", driver - begin);
  print("operands", ready - driver);
  if (options.steps) {
    run_steps(options, views, stream);
  } else {
    culet::MatmulOptions matmul;
    matmul.device = options.device;
    matmul.cache = options.store;
    matmul.on_miss = culet::OnMiss::error;
    matmul.stream = stream;
    for (const char* name : {"first", "again"}) {
      const double at = now();
      must(culet::matmul(views.a, views.b, views.d, matmul));
      if (cuda) bench::driver().call("cuStreamSynchronize", stream);
      const double end = now();
      print(name, end - at);
      if (std::strcmp(name, "first") == 0) print("culet", begin - options.started + end - at);
    }
  }
  if (!operands.written(views.d)) stop("D was not computed", 4);
  std::fflush(stdout);
  _exit(0);  // what the driver does at the end of a process is not asked about
}

/// Runs this program again; returns what it prints, by lines.
std::vector<std::string> run_child(std::vector<std::string> arguments) {
  int pair[2];
  if (pipe(pair) != 0) stop("no pipe", 5);
  arguments.insert(arguments.begin(), "bench_warm_start");
  char clock[40];
  const pid_t pid = fork();
  if (pid == 0) {
    dup2(pair[1], 1);
    close(pair[0]);
    close(pair[1]);
    std::snprintf(clock, sizeof clock, "%.6f", now());
    arguments.insert(arguments.end(), {"--started", clock});
    std::vector<char*> argv;
    for (std::string& argument : arguments) argv.push_back(argument.data());
    argv.push_back(nullptr);
    execv("/proc/self/exe", argv.data());
    _exit(127);
  }
  close(pair[1]);
  std::string out;
  char buffer[4096];
  for (ssize_t got; (got = read(pair[0], buffer, sizeof buffer)) > 0;)
    out.append(buffer, static_cast<std::size_t>(got));
  close(pair[0]);
  int status = 0;
  waitpid(pid, &status, 0);
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
    stop("a process of the measurement failed", WIFEXITED(status) ? WEXITSTATUS(status) : 5);
  std::vector<std::string> lines;
  for (std::size_t at = 0, end; (end = out.find('\n', at)) != std::string::npos; at = end + 1)
    lines.push_back(out.substr(at, end - at));
  return lines;
}

void report(const std::vector<std::string>& made, const Options& options,
            const std::vector<std::pair<std::string, std::vector<double>>>& times) {
  std::printf("{\"problem\": %s, \"candidate\": %s, \"device\": %s, \"runs\": %d, \"fill\": %d",
              bench::quoted(made[0]).c_str(), bench::quoted(made[1]).c_str(),
              bench::quoted(made[2]).c_str(), options.runs, options.fill);
  for (auto [name, values] : times) {
    std::sort(values.begin(), values.end());
    std::printf(", \"%s_ms\": [%.3f, %.3f, %.3f]", name.c_str(), values[values.size() / 2],
                values.front(), values.back());
  }
  std::printf("}\n");
}

int measure(Options options) {
  // "auto" as culet means it, said once for all processes.
  if (options.device == "auto") options.device = bench::driver().present() ? "cuda:0" : "cpu";
  const auto folder =
      std::filesystem::temp_directory_path() / ("culet-warm-" + std::to_string(getpid()));
  options.store = folder.string();
  std::vector<std::string> common{"--device",    options.device, "--store",
                                  options.store, "--fill",       std::to_string(options.fill)};
  if (!options.candidate.empty()) common.insert(common.end(), {"--candidate", options.candidate});
  if (options.steps) common.emplace_back("--steps");
  common.push_back(options.problem);
  const auto call = [&](const char* what) {
    std::vector<std::string> arguments{"--child", what};
    arguments.insert(arguments.end(), common.begin(), common.end());
    return run_child(arguments);
  };
  const auto made = call("prepare");
  if (made.size() != 3) stop("the store was not made", 6);
  std::vector<std::pair<std::string, std::vector<double>>> times;
  for (int run = -1; run < options.runs; ++run) {  // the first fills the system's file cache
    const auto lines = call("run");
    if (run < 0) continue;
    for (std::size_t i = 0; i < lines.size(); ++i) {
      const std::size_t blank = lines[i].find(' ');
      if (times.size() <= i) times.push_back({lines[i].substr(0, blank), {}});
      times[i].second.push_back(std::atof(lines[i].c_str() + blank));
    }
  }
  report(made, options, times);
  std::filesystem::remove_all(folder);
  return 0;
}

Options parse(int argc, char** argv) {
  Options options;
  const auto usage = [] {
    stop("[--device D] [--runs N] [--candidate TEXT] [--fill N] [--steps] [PROBLEM]", 2);
  };
  for (int i = 1; i < argc; ++i) {
    const std::string name = argv[i];
    if (name == "--steps") {
      options.steps = true;
      continue;
    }
    if (!name.starts_with("--")) {
      options.problem = name;
      continue;
    }
    if (++i == argc) usage();
    const std::string value = argv[i];
    if (name == "--device")
      options.device = value;
    else if (name == "--candidate")
      options.candidate = value;
    else if (name == "--runs")
      options.runs = std::atoi(value.c_str());
    else if (name == "--fill")
      options.fill = std::atoi(value.c_str());
    else if (name == "--store")
      options.store = value;
    else if (name == "--child")
      options.child = value;
    else if (name == "--started")
      options.started = std::atof(value.c_str());
    else
      usage();
  }
  if (options.runs < 1 || options.fill < 0) usage();
  return options;
}

}  // namespace

int main(int argc, char** argv) {
  bench::program = "bench_warm_start";
  const Options options = parse(argc, argv);
  if (options.child == "prepare") return prepare(options);
  if (options.child == "run") return child(options);
  return measure(options);
}

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// How the cpu_tile kernels compare with the vendor libraries: time(best vendor) / time(best of our
// first few ranked candidates), per problem and as a geometric mean. One process, one thread,
// samples of all contenders interleaved, minimum of each; for m <= 64 the weights rotate over more
// memory than the last cache level holds.
//
//   bench_cpu_vendor_ratio [--top N] [--seconds S] [--threads N] [--cold MB] [--verbose]
//                          [--cache FOLDER] [--config "cpu_tile config"] [PROBLEM...]
#include <sys/mman.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "culet/culet.h"

namespace {

using namespace culet;

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

/// Memory in huge pages where the system has them, as a program's weights usually are.
class Memory {
 public:
  explicit Memory(std::int64_t bytes)
      : bytes_(static_cast<std::size_t>(std::max<std::int64_t>(bytes, 64))) {
    data_ = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (data_ == MAP_FAILED) {
      std::fprintf(stderr, "no memory\n");
      std::exit(1);
    }
    madvise(data_, bytes_, MADV_HUGEPAGE);
  }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  ~Memory() { munmap(data_, bytes_); }
  char* at(std::int64_t offset) const { return static_cast<char*>(data_) + offset; }

 private:
  std::size_t bytes_;
  void* data_;
};

void fill(void* data, std::int64_t count, DType dtype, std::uint32_t seed) {
  std::minstd_rand engine(seed);
  for (std::int64_t i = 0; i < count; ++i) {
    const float x = static_cast<float>(engine() % 2001) / 1000.0F - 1.0F;
    if (dtype == DType::f32) {
      static_cast<float*>(data)[i] = x;
    } else {
      std::uint32_t u;
      std::memcpy(&u, &x, 4);
      static_cast<std::uint16_t*>(data)[i] = static_cast<std::uint16_t>(u >> 16);
    }
  }
}

float read(const void* data, std::int64_t i, DType dtype) {
  if (dtype == DType::f32) return static_cast<const float*>(data)[i];
  const std::uint32_t u = std::uint32_t{static_cast<const std::uint16_t*>(data)[i]} << 16;
  float x;
  std::memcpy(&x, &u, 4);
  return x;
}

struct Contender {
  RankedCandidate ranked;
  int position = 0;
  Plan plan;
  std::unique_ptr<Memory> workspace;
  std::unique_ptr<Memory> packed;
  std::int64_t packed_stride = 0;
  double best = 1e30;
  std::int64_t turn = 0;
};

struct Options {
  int top = 5;
  double seconds = 2;
  int threads = 1;
  std::int64_t cold_bytes = std::int64_t{640} << 20;
  bool verbose = false;
  std::string cache = "none";
  std::vector<std::string> configs;
  std::vector<std::string> problems;
};

struct Operands {
  std::int64_t b_bytes = 0, copies = 1;
  std::unique_ptr<Memory> a, b, d;
};

Operands make_operands(const Problem& p, const Options& options) {
  Operands o;
  o.b_bytes = (bytes(p.b, p.span_b()) + 4095) / 4096 * 4096;
  if (p.m <= 64) o.copies = std::max<std::int64_t>(1, options.cold_bytes / o.b_bytes);
  o.copies = std::min<std::int64_t>(o.copies, 64);
  o.a = std::make_unique<Memory>(bytes(p.a, p.span_a()));
  o.b = std::make_unique<Memory>(o.b_bytes * o.copies);
  o.d = std::make_unique<Memory>(bytes(p.d, p.span_d()));
  fill(o.a->at(0), p.span_a(), p.a, 1);
  fill(o.b->at(0), p.span_b(), p.b, 2);
  for (std::int64_t i = 1; i < o.copies; ++i)
    std::memcpy(o.b->at(i * o.b_bytes), o.b->at(0), static_cast<std::size_t>(o.b_bytes));
  return o;
}

bool run(Contender& c, const Operands& o) {
  Arguments arguments;
  const std::int64_t copy = c.turn++ % o.copies;
  arguments.a = o.a->at(0);
  arguments.b = o.b->at(copy * o.b_bytes);
  arguments.d = o.d->at(0);
  arguments.workspace = c.workspace->at(0);
  PackedOperand packed;
  if (c.packed) {
    packed = {c.packed->at(copy * c.packed_stride), c.plan.packed_bytes()};
    arguments.packed_b = &packed;
  }
  return c.plan.run(arguments).has_value();
}

/// Largest difference to a double product over sampled elements, relative to sqrt(k).
double error_of(const Problem& p, const Operands& o) {
  std::minstd_rand engine(7);
  double worst = 0;
  for (int sample = 0; sample < 300; ++sample) {
    const std::int64_t m = sample == 0 ? p.m - 1 : static_cast<std::int64_t>(engine()) % p.m;
    const std::int64_t n = sample == 0 ? p.n - 1 : static_cast<std::int64_t>(engine()) % p.n;
    double sum = 0;
    for (std::int64_t k = 0; k < p.k; ++k) {
      const std::int64_t b = p.b_order == Order::col_major ? n * p.ldb + k : k * p.ldb + n;
      sum += static_cast<double>(read(o.a->at(0), m * p.lda + k, p.a)) * read(o.b->at(0), b, p.b);
    }
    worst = std::max(worst, std::abs(read(o.d->at(0), m * p.ldd + n, p.d) - sum) /
                                std::sqrt(static_cast<double>(p.k)));
  }
  return worst;
}

bool prepare(Contender& c, Tuner& tuner, const Problem& problem, const Operands& o) {
  auto plan = tuner.plan(problem, c.ranked.candidate);
  if (!plan) {
    std::printf("  %s: %s\n%s\n", c.ranked.candidate.text().c_str(), plan.error().message.c_str(),
                plan.error().detail.c_str());
    return false;
  }
  c.plan = *plan;
  c.workspace = std::make_unique<Memory>(c.plan.workspace().bytes);
  if (c.plan.packed_bytes() > 0) {
    c.packed_stride = (c.plan.packed_bytes() + 4095) / 4096 * 4096;
    c.packed = std::make_unique<Memory>(c.packed_stride * o.copies);
    for (std::int64_t i = 0; i < o.copies; ++i) {
      if (!c.plan.prepare(o.b->at(i * o.b_bytes), c.packed->at(i * c.packed_stride))) return false;
    }
  }
  std::memset(o.d->at(0), 0xff, static_cast<std::size_t>(bytes(problem.d, problem.span_d())));
  if (!run(c, o)) return false;
  const double error = error_of(problem, o);
  const double allowed = problem.d == DType::f32 ? 2e-5 : 2e-2;
  if (!(error < allowed)) {
    std::printf("  %s: WRONG, error %g\n", c.ranked.candidate.text().c_str(), error);
    return false;
  }
  return true;
}

void race(std::vector<Contender>& contenders, const Operands& o, double seconds) {
  const double end = now() + seconds * static_cast<double>(contenders.size());
  for (int round = 0; now() < end || round < 2; ++round) {
    for (std::size_t i = 0; i < contenders.size(); ++i) {
      Contender& c = contenders[round % 2 == 0 ? i : contenders.size() - 1 - i];
      int calls = 0;
      const double start = now();
      double taken = 0;
      // Short calls are timed together, to stand clear of the clock's own cost.
      do {
        run(c, o);
        ++calls;
        taken = now() - start;
      } while (taken < 2e-4);
      c.best = std::min(c.best, taken / calls);
    }
  }
}

/// Ratio for one problem, 0 where there is nothing to compare.
double compare(const Problem& problem, Tuner& tuner, const Options& options) {
  const Operands operands = make_operands(problem, options);
  std::vector<Contender> contenders;
  int position = 0;
  const auto add = [&](RankedCandidate ranked, int at) {
    Contender c;
    c.ranked = std::move(ranked);
    c.position = at;
    if (prepare(c, tuner, problem, operands)) contenders.push_back(std::move(c));
  };
  for (const RankedCandidate& ranked : tuner.registry().discover(problem, tuner.device())) {
    const bool own =
        ranked.candidate.steps.size() == 1 && ranked.candidate.steps[0].backend == "cpu_tile";
    if (!own && !ranked.vendor) continue;
    if (own && ++position > options.top) continue;
    add(ranked, own ? position : 0);
  }
  for (const std::string& text : options.configs) {
    auto config = Config::parse(text);
    if (config) add({Candidate{{Step{"cpu_tile", *config, Part::all}}}, {}, false, false}, -1);
  }
  race(contenders, operands, options.seconds);
  std::sort(contenders.begin(), contenders.end(),
            [](const Contender& x, const Contender& y) { return x.best < y.best; });
  const Contender *own = nullptr, *vendor = nullptr;
  for (const Contender& c : contenders) {
    if (options.verbose) {
      std::printf("    %10.1f us  #%-3d %8.1f  %s\n", c.best * 1e6, c.position,
                  c.ranked.estimate ? c.ranked.estimate->seconds * 1e6 : 0,
                  c.ranked.candidate.text().c_str());
    }
    if (c.ranked.vendor && vendor == nullptr) vendor = &c;
    if (!c.ranked.vendor && own == nullptr) own = &c;
  }
  if (own == nullptr || vendor == nullptr) return 0;
  const double ratio = vendor->best / own->best;
  std::printf("%-40s %6.3f  vendor %9.1f us %-22s own %9.1f us #%d %s\n", problem.text().c_str(),
              ratio, vendor->best * 1e6, vendor->ranked.candidate.text().c_str(), own->best * 1e6,
              own->position, own->ranked.candidate.steps[0].config.text().c_str());
  std::fflush(stdout);
  return ratio;
}

constexpr const char* kShapes[] = {
    "1x4096x4096", "8x4096x4096",    "16x4096x4096",   "64x4096x4096",  "256x1024x1024",
    "512x512x512", "1024x1024x1024", "2048x2048x2048", "4096x256x4096", "17x1023x1025"};

bool parse_options(int argc, char** argv, Options* options) {
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    const bool last = i + 1 == argc;
    if (word == "--verbose") {
      options->verbose = true;
    } else if (word.starts_with("--") && last) {
      return false;
    } else if (word == "--top") {
      options->top = std::atoi(argv[++i]);
    } else if (word == "--seconds") {
      options->seconds = std::atof(argv[++i]);
    } else if (word == "--threads") {
      options->threads = std::atoi(argv[++i]);
    } else if (word == "--cold") {
      options->cold_bytes = std::int64_t{std::atoi(argv[++i])} << 20;
    } else if (word == "--cache") {
      options->cache = argv[++i];
    } else if (word == "--config") {
      options->configs.emplace_back(argv[++i]);
    } else if (word.starts_with("--")) {
      return false;
    } else {
      options->problems.push_back(word);
    }
  }
  return true;
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  if (!parse_options(argc, argv, &options)) {
    std::fprintf(stderr, "unknown option; see the head of cpu_vendor_ratio.cpp\n");
    return 2;
  }
  auto device = find_device("cpu:" + std::to_string(options.threads));
  if (!device) {
    std::fprintf(stderr, "%s\n", device.error().message.c_str());
    return 5;
  }
  // Compiled code is kept: a first run with few seconds compiles, a second only measures.
  auto cache = open_cache(options.cache);
  if (!cache) {
    std::fprintf(stderr, "%s\n", cache.error().message.c_str());
    return 6;
  }
  Tuner tuner(Registry::standard(), *device, {}, *cache);
  std::vector<std::vector<std::string>> groups;
  if (!options.problems.empty()) {
    groups.push_back(options.problems);
  } else {
    for (const char* rest : {":f32:layout=tt", ":f32", ":f32:pack=b", ":bf16>f32:layout=tt",
                             ":bf16>f32", ":bf16>f32:pack=b"}) {
      groups.emplace_back();
      for (const char* shape : kShapes) groups.back().push_back(std::string(shape) + rest);
    }
  }
  for (const auto& group : groups) {
    double log_sum = 0;
    int count = 0;
    for (const std::string& text : group) {
      auto problem = Problem::parse(text);
      if (!problem) {
        std::fprintf(stderr, "%s: %s\n", text.c_str(), problem.error().message.c_str());
        return 2;
      }
      const double ratio = compare(*problem, tuner, options);
      if (ratio > 0) log_sum += std::log(ratio), ++count;
    }
    if (count > 0) std::printf("geometric mean %.3f of %d\n\n", std::exp(log_sum / count), count);
  }
  return 0;
}

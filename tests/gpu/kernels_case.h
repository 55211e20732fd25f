// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// What the tests of culet's own CUDA kernels share: building a configuration into a plan, and
// comparing what it computes with an exact answer, with NaN in all padding of the inputs and
// canaries around D.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include "base/parallel.h"
#include "compile/compiler.h"
#include "culet/cache.h"
#include "culet/registry.h"
#include "gpu_case.h"

namespace culet::test {

/// One compiler for the whole program: cases share code by content.
inline Compiler& compiler() {
  static const auto cache = take(open_cache("none"));
  static Compiler made(cache);
  return made;
}

inline const Backend& family(const std::string& name) {
  static const Registry registry = Registry::standard();
  const Backend* backend = registry.find(name);
  if (backend == nullptr) throw std::invalid_argument("no backend '" + name + "'");
  return *backend;
}

inline Result<Plan> plan_of(const Problem& problem, const std::string& backend,
                            const Config& config) {
  const Step step{backend, config, Part::all};
  auto built = family(backend).build(problem, step, *gpu(), compiler());
  if (!built) return tl::unexpected(built.error());
  return Plan::load(problem, {{{step}}, {*built}}, *gpu());
}

#define CULET_NEEDS_HOPPER()                                                   \
  CULET_NEEDS_GPU();                                                           \
  const auto context = take(cuda::Context::enter(gpu()->ordinal));             \
  if (gpu()->architecture != "sm_90a") {                                       \
    GTEST_SKIP() << "needs a Hopper GPU, this one is " << gpu()->architecture; \
  }

/// A case whose answer, all of D's memory with its padding, is worked out once for all
/// configurations.
class Exact {
 public:
  explicit Exact(const std::string& text) : gemm_(text) {}
  const Problem& problem() const { return gemm_.host.problem; }

  void run_and_compare(const Plan& plan, std::int64_t m) {
    const std::int64_t size = bytes(problem().d, gemm_.host.span_d) + 64;
    Memory poison = gemm_.host.poisoned();
    const cuda::DeviceBuffer d = upload(poison.data(), size);
    gemm_.prepare(plan);
    Arguments arguments = gemm_.arguments(m);
    arguments.d = d.data();
    const auto ran = plan.run(arguments);
    ASSERT_TRUE(ran) << ran.error().message;
    const auto done = cuda::synchronize();
    ASSERT_TRUE(done) << done.error().message;
    Memory got(size);
    ASSERT_TRUE(d.download(got.data(), size));
    if (std::memcmp(got.data(), wanted(m, size).data(), static_cast<std::size_t>(size)) == 0)
      return;
    // Says where; zeros of the other sign are equal.
    gemm_.host.compare(got, m);
    gemm_.host.compare_untouched(got, m);
  }

 private:
  Memory& wanted(std::int64_t m, std::int64_t size) {
    const auto known = wanted_.find(m);
    if (known != wanted_.end()) return known->second;
    const Problem& p = problem();
    Memory all = gemm_.host.poisoned();
    for (std::int64_t entry = 0; entry < p.batch; ++entry) {
      for (std::int64_t row = 0; row < m; ++row) {
        for (std::int64_t column = 0; column < p.n; ++column) {
          put(p.d, all.data(), entry * p.stride_d + row * p.ldd + column,
              gemm_.host.expected(entry, row, column));
        }
      }
    }
    EXPECT_GT(size, 0);
    return wanted_.emplace(m, std::move(all)).first->second;
  }

  GpuCase gemm_;
  std::map<std::int64_t, Memory> wanted_;
};

/// Runs a problem with one configuration and compares everything.
inline void check(const std::string& problem_text, const std::string& backend,
                  const Config& config) {
  SCOPED_TRACE(problem_text + "  " + backend + "{" + config.text() + "}");
  // Kept between calls, and on purpose not destroyed at exit: its memory is the device's, which may
  // be gone by then.
  static std::string last_text;
  static Exact* last = nullptr;
  if (last_text != problem_text) {
    delete last;
    last = new Exact(problem_text);
    last_text = problem_text;
  }
  const Problem& problem = last->problem();
  const auto plan = plan_of(problem, backend, config);
  ASSERT_TRUE(plan) << plan.error().message << "\n" << plan.error().detail;
  last->run_and_compare(*plan, problem.m);
  for (const std::int64_t m : {problem.m_range.low, problem.m_range.high}) {
    if (m != problem.m) last->run_and_compare(*plan, m);
  }
}

inline void check(const std::string& problem, const std::string& backend,
                  const std::string& config) {
  check(problem, backend, take(Config::parse(config)));
}

/// Compiles configurations in parallel beforehand; errors show up when they are used.
inline void warm_up(const std::string& problem_text, const std::string& backend,
                    const std::vector<Config>& configs) {
  const Problem problem = take(Problem::parse(problem_text));
  parallel_for(static_cast<int>(configs.size()), 0, [&](int i) {
    (void)family(backend).build(problem, {backend, configs[static_cast<std::size_t>(i)], Part::all},
                                *gpu(), compiler());
  });
}

/// The first configuration of each tile, cluster and schedule.
inline std::vector<Config> distinct_kernels(const std::vector<Config>& all) {
  std::vector<Config> kept;
  std::string last;
  for (const Config& config : all) {
    const std::string key = std::string(config.get("tile")) + std::string(config.get("cluster")) +
                            std::string(config.get("schedule")) +
                            std::string(config.get("occupancy"));
    if (key != last) kept.push_back(config);
    last = key;
  }
  return kept;
}

/// Operands at addresses that are only as aligned as the problem says.
inline void check_shifted(const std::string& text, const std::string& backend,
                          const std::string& config, std::int64_t shift_a, std::int64_t shift_b,
                          std::int64_t shift_d) {
  SCOPED_TRACE(text + " " + backend + "{" + config + "}");
  GpuCase gemm(text);
  const Problem& p = gemm.host.problem;
  const auto plan = plan_of(p, backend, take(Config::parse(config)));
  ASSERT_TRUE(plan) << plan.error().message << plan.error().detail;
  const auto shifted = [](Memory& memory, std::int64_t size, std::int64_t shift) {
    Memory moved(size + shift);
    std::memcpy(moved.data() + shift, memory.data(), static_cast<std::size_t>(size));
    return upload(moved.data(), size + shift);
  };
  const std::int64_t d_size = bytes(p.d, p.span_d()) + 64;
  Memory poison = gemm.host.poisoned();
  const auto a = shifted(gemm.host.a, bytes(p.a, p.span_a()), shift_a);
  const auto b = shifted(gemm.host.b, bytes(p.b, p.span_b()), shift_b);
  const auto d = shifted(poison, d_size, shift_d);
  gemm.prepare(*plan);
  Arguments arguments = gemm.arguments();
  arguments.a = static_cast<const char*>(a.data()) + shift_a;
  arguments.b = static_cast<const char*>(b.data()) + shift_b;
  arguments.d = static_cast<char*>(d.data()) + shift_d;
  ASSERT_TRUE(plan->run(arguments));
  ASSERT_TRUE(cuda::synchronize());
  Memory all(d_size + shift_d), result(d_size);
  ASSERT_TRUE(d.download(all.data(), d_size + shift_d));
  std::memcpy(result.data(), all.data() + shift_d, static_cast<std::size_t>(d_size));
  gemm.host.compare(result);
  gemm.host.compare_untouched(result);
}

/// Random 16-bit operands whose sums do round, so that any change of order would show; the same in
/// each of 20 launches and 100 replays of a graph.
inline void check_repeatable(const std::string& text, const std::string& backend,
                             const std::string& config) {
  SCOPED_TRACE(text + " " + config);
  const Problem p = take(Problem::parse(text));
  const auto plan = plan_of(p, backend, take(Config::parse(config)));
  ASSERT_TRUE(plan) << plan.error().message << plan.error().detail;
  std::mt19937 random(3);
  const auto operand = [&](std::int64_t count) {
    std::vector<std::uint16_t> values(static_cast<std::size_t>(count));
    // Of magnitudes 2^-8 .. 2^7, both signs.
    for (auto& x : values) x = static_cast<std::uint16_t>((random() & 0x87FF) | 0x3800);
    return upload(values.data(), count * 2);
  };
  const auto a = operand(p.span_a()), b = operand(p.span_b());
  const std::int64_t size = bytes(p.d, p.span_d());
  auto d = take(cuda::DeviceBuffer::allocate(size));
  const Workspace workspace = plan->workspace();
  auto scratch = take(cuda::DeviceBuffer::allocate(std::max<std::int64_t>(workspace.bytes, 256)));
  ASSERT_TRUE(scratch.fill(0));
  Arguments arguments;
  arguments.a = a.data();
  arguments.b = b.data();
  arguments.d = d.data();
  arguments.workspace = scratch.data();
  const auto stream = take(cuda::Stream::create());
  const auto graph = take(cuda::Graph::capture(stream.get(), [&] {
    return plan->run(arguments, {stream.get(), false});
  }));
  std::string first;
  // The first twenty are ordinary launches, the rest replays of a graph.
  for (int run = 0; run < 120; ++run) {
    ASSERT_TRUE(d.fill(0xff));
    ASSERT_TRUE(cuda::synchronize());
    ASSERT_TRUE(run < 20 ? plan->run(arguments) : graph.launch(stream.get()));
    ASSERT_TRUE(cuda::synchronize());
    std::string bits(static_cast<std::size_t>(size), '\0');
    ASSERT_TRUE(d.download(bits.data(), size));
    if (run == 0) {
      first = bits;
    } else {
      ASSERT_TRUE(bits == first) << "run " << run << " differs";
    }
  }
  // Counters are back at zero.
  if (workspace.zeroed_prefix > 0) {
    std::string prefix(static_cast<std::size_t>(workspace.zeroed_prefix), 'x');
    ASSERT_TRUE(scratch.download(prefix.data(), workspace.zeroed_prefix));
    EXPECT_EQ(prefix, std::string(prefix.size(), '\0'));
  }
}

/// D of a problem without batches and epilogue operands, from the bits of operands given element by
/// element, in any layout; what lies between lines is NaN (-1 for integers).
inline std::string run_elements(
    const std::string& text, const std::string& backend, const std::string& config,
    const std::function<std::uint32_t(std::int64_t row, std::int64_t k)>& a_at,
    const std::function<std::uint32_t(std::int64_t n, std::int64_t k)>& b_at) {
  const Problem p = take(Problem::parse(text));
  const Plan plan = take(plan_of(p, backend, take(Config::parse(config))));
  const auto operand = [&](DType dtype, std::int64_t span, std::int64_t lines, bool along_k,
                           std::int64_t ld, const auto& at) {
    const std::int64_t size = bytes(dtype, 1);
    std::string memory(static_cast<std::size_t>(span * size), '\xff');
    for (std::int64_t line = 0; line < lines; ++line) {
      for (std::int64_t k = 0; k < p.k; ++k) {
        const std::uint32_t element = at(line, k);
        const std::int64_t place = along_k ? line * ld + k : k * ld + line;
        std::memcpy(&memory[static_cast<std::size_t>(place * size)], &element,
                    static_cast<std::size_t>(size));
      }
    }
    return upload(memory.data(), span * size);
  };
  const auto on_a = operand(p.a, p.span_a(), p.m, p.a_order == Order::row_major, p.lda, a_at);
  const auto on_b = operand(p.b, p.span_b(), p.n, p.b_order == Order::col_major, p.ldb, b_at);
  const std::int64_t size = bytes(p.d, p.span_d());
  auto d = take(cuda::DeviceBuffer::allocate(size));
  auto scratch =
      take(cuda::DeviceBuffer::allocate(std::max<std::int64_t>(plan.workspace().bytes, 256)));
  EXPECT_TRUE(d.fill(0xff));
  EXPECT_TRUE(scratch.fill(0));
  Arguments arguments;
  arguments.a = on_a.data();
  arguments.b = on_b.data();
  arguments.d = d.data();
  arguments.workspace = scratch.data();
  EXPECT_TRUE(plan.run(arguments));
  EXPECT_TRUE(cuda::synchronize());
  std::string bits(static_cast<std::size_t>(size), '\0');
  EXPECT_TRUE(d.download(bits.data(), size));
  return bits;
}

/// The same for operands of 16 bits.
inline std::string run_raw(
    const std::string& text, const std::string& backend, const std::string& config,
    const std::function<std::uint16_t(std::int64_t row, std::int64_t k)>& a_at,
    const std::function<std::uint16_t(std::int64_t n, std::int64_t k)>& b_at) {
  return run_elements(text, backend, config, a_at, b_at);
}

}  // namespace culet::test

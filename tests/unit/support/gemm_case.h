// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// A GEMM on the CPU with operands, canaries and an answer of its own: a triple loop in double that
// shares no code with any backend. Operands are multiples of 1/4 so that sums are exact in f32.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "base/fp.h"
#include "culet/backend.h"
#include "culet/plan.h"
#include "device/cpu_info.h"

namespace culet::test {

/// Memory aligned to 256 bytes.
class Memory {
 public:
  explicit Memory(std::int64_t bytes) : storage_(static_cast<std::size_t>(bytes) + 256, 0xa5) {}
  unsigned char* data() {
    const auto address = reinterpret_cast<std::uintptr_t>(storage_.data());
    return storage_.data() + (256 - address % 256) % 256;
  }

 private:
  std::vector<unsigned char> storage_;
};

inline double get(DType dtype, const unsigned char* base, std::int64_t index) {
  const auto copy = [&]<typename T>(T value) {
    std::memcpy(&value, base + index * std::int64_t{sizeof(T)}, sizeof(T));
    return value;
  };
  switch (dtype) {
    case DType::f64:
      return copy(double{});
    case DType::f32:
    case DType::tf32:
      return copy(float{});
    case DType::f16:
      return from_f16_bits(copy(std::uint16_t{}));
    case DType::bf16:
      return from_bf16_bits(copy(std::uint16_t{}));
    case DType::e4m3:
      return from_e4m3_bits(copy(std::uint8_t{}));
    case DType::e5m2:
      return from_e5m2_bits(copy(std::uint8_t{}));
    case DType::s8:
      return copy(std::int8_t{});
    case DType::u8:
      return copy(std::uint8_t{});
    case DType::s32:
      return copy(std::int32_t{});
    default:
      ADD_FAILURE() << "dtype not handled";
      return 0;
  }
}

inline void put(DType dtype, unsigned char* base, std::int64_t index, double value) {
  const auto copy = [&](auto converted) {
    std::memcpy(base + index * std::int64_t{sizeof(converted)}, &converted, sizeof(converted));
  };
  switch (dtype) {
    case DType::f64:
      copy(value);
      break;
    case DType::f32:
    case DType::tf32:
      copy(static_cast<float>(value));
      break;
    case DType::f16:
      copy(to_f16_bits(value));
      break;
    case DType::bf16:
      copy(to_bf16_bits(value));
      break;
    case DType::e4m3:
      copy(to_e4m3_bits(value));
      break;
    case DType::e5m2:
      copy(to_e5m2_bits(value));
      break;
    case DType::s8:  // to nearest even, saturated, as every backend stores
      copy(static_cast<std::int8_t>(std::clamp(std::nearbyint(value), -128.0, 127.0)));
      break;
    case DType::u8:
      copy(static_cast<std::uint8_t>(std::clamp(std::nearbyint(value), 0.0, 255.0)));
      break;
    case DType::s32:
      copy(static_cast<std::int32_t>(value));
      break;
    default:
      ADD_FAILURE() << "dtype not handled";
  }
}

inline DeviceSpec cpu(int threads) {
  DeviceSpec spec;
  spec.kind = DeviceKind::cpu;
  spec.present = true;
  spec.name = "test CPU";
  spec.architecture = cpu_info().level;
  spec.units = spec.threads = threads;
  return spec;
}

class NoCompiler final : public BuildContext {
 public:
  Result<Artifact> compile(const Source&, const DeviceSpec&) override {
    return fail(ErrorCode::build_failed, "no compiler here");
  }
};

/// culet's own library calls as data, which is all that launching needs: "reference" or
/// "cpu_pointwise".
inline BuiltStep own_step(const std::string& entry, const Problem& whole, Part part, int threads) {
  BuiltStep built;
  built.step.backend = entry;
  built.step.part = part;
  built.artifact.kind = ArtifactKind::library_call;
  built.artifact.entry = entry;
  built.artifact.bytes = problem_of(whole, part).text();
  built.launch.host.threads = threads;
  return built;
}

class GemmCase {
 public:
  explicit GemmCase(const std::string& text) : problem(parse(text)) {
    std::mt19937 random(7);
    Problem largest = problem;
    largest.m = problem.m_range.high;
    a = operand(problem.a, largest.span_a());
    b = operand(problem.b, largest.span_b());
    span_d = largest.span_d();
    fill(random, problem.a, a, problem.m_range.high, problem.k, problem.a_order, problem.lda,
         problem.stride_a);
    fill(random, problem.b, b, problem.k, problem.n, problem.b_order, problem.ldb,
         problem.stride_b);
    for (const EpilogueOperand& described : problem.epilogue.operands()) {
      std::int64_t count = 1;
      if (described.index == EpilogueIndex::row) count = problem.m_range.high;
      if (described.index == EpilogueIndex::column) count = problem.n;
      if (described.index == EpilogueIndex::full) count = span_d;
      extra.push_back(Memory(bytes(described.dtype, count + 1)));
      for (std::int64_t i = 0; i < count; ++i) {
        put(described.dtype, extra.back().data(), i, value(random, described.dtype));
      }
    }
  }

  /// Runs a candidate of one backend and compares all of D. With Part::gemm, cpu_pointwise does the
  /// epilogue.
  void check(const Backend& backend, const Config& config, const DeviceSpec& device,
             Part part = Part::all, std::int64_t m = -1, double tolerance = 0) {
    SCOPED_TRACE(problem.text() + "  " + std::string(backend.name()) + "{" + config.text() + "} x" +
                 std::to_string(device.threads));
    auto plan = load(backend, config, device, part);
    ASSERT_TRUE(plan) << plan.error().message << plan.error().detail;
    run_and_compare(*plan, m, tolerance);
  }

  Result<Plan> load(const Backend& backend, const Config& config, const DeviceSpec& device,
                    Part part = Part::all) const {
    NoCompiler context;
    const Step first{std::string(backend.name()), config, part};
    auto step = backend.build(problem_of(problem, part), first, device, context);
    if (!step) return tl::unexpected(step.error());
    return load({std::move(*step)}, device);
  }

  /// Completes a lone gemm step.
  Result<Plan> load(std::vector<BuiltStep> steps, const DeviceSpec& device) const {
    if (steps.size() == 1 && steps[0].step.part == Part::gemm) {
      steps.push_back(own_step("cpu_pointwise", problem, Part::epilogue, device.threads));
    }
    BuiltCandidate built;
    for (const BuiltStep& step : steps) built.candidate.steps.push_back(step.step);
    built.steps = std::move(steps);
    return Plan::load(problem, built, device);
  }

  /// A D full of NaN (or -77), with canaries behind it.
  Memory poisoned() const {
    Memory d(bytes(problem.d, span_d) + 64);
    for (std::int64_t i = 0; i < span_d; ++i) {
      put(problem.d, d.data(), i, is_integer(problem.d) ? 77 : std::nan(""));
    }
    return d;
  }

  Result<void> run(const Plan& plan, Memory& d, std::int64_t m = -1) {
    Memory workspace(plan.workspace(m).bytes);
    Memory packed(plan.packed_bytes());
    PackedOperand packed_b;
    Arguments arguments;
    arguments.a = a.data();
    arguments.b = b.data();
    arguments.d = d.data();
    std::vector<const void*> pointers;
    for (Memory& operand : extra) pointers.push_back(operand.data());
    arguments.extra = pointers.data();
    arguments.workspace = workspace.data();
    arguments.m = m;
    if (plan.packed_bytes() > 0) {
      auto prepared = plan.prepare(b.data(), packed.data());
      if (!prepared) return tl::unexpected(prepared.error());
      packed_b = *prepared;
      arguments.packed_b = &packed_b;
      arguments.b = nullptr;
    }
    return plan.run(arguments);
  }

  void run_and_compare(const Plan& plan, std::int64_t m = -1, double tolerance = 0) {
    Memory d = poisoned();
    const Memory before = d;
    auto ran = run(plan, d, m);
    ASSERT_TRUE(ran) << ran.error().message;
    compare(d, m, tolerance);
    compare_untouched(d, m);
  }

  void compare(Memory& d, std::int64_t m = -1, double tolerance = 0) {
    const Problem& p = problem;
    const std::int64_t rows = m < 0 ? p.m : m;
    for (std::int64_t entry = 0; entry < p.batch; ++entry) {
      for (std::int64_t row = 0; row < rows; ++row) {
        for (std::int64_t column = 0; column < p.n; ++column) {
          const double want = answer(entry, row, column);
          const std::int64_t at = entry * p.stride_d + row * p.ldd + column;
          const double got = get(p.d, d.data(), at);
          const double allowed = tolerance * std::max(1.0, std::fabs(want));
          // Not written as a negation by chance: a NaN must fail.
          ASSERT_TRUE(std::fabs(got - want) <= allowed)
              << "D[" << row << "," << column << "] of batch entry " << entry << " is " << got
              << ", should be " << want;
        }
      }
    }
  }

  /// Rows' padding and what lies behind D must be as they were.
  void compare_untouched(Memory& d, std::int64_t m = -1) {
    const Problem& p = problem;
    const std::int64_t rows = m < 0 ? p.m : m;
    Memory clean = poisoned();
    const std::int64_t size = bytes(p.d, span_d) + 64;
    std::vector<bool> written(static_cast<std::size_t>(size), false);
    const std::int64_t element = bytes(p.d, 1);
    for (std::int64_t entry = 0; entry < p.batch; ++entry) {
      for (std::int64_t row = 0; row < rows; ++row) {
        const std::int64_t begin = (entry * p.stride_d + row * p.ldd) * element;
        for (std::int64_t i = 0; i < p.n * element; ++i) {
          written[static_cast<std::size_t>(begin + i)] = true;
        }
      }
    }
    for (std::int64_t i = 0; i < size; ++i) {
      if (written[static_cast<std::size_t>(i)]) continue;
      ASSERT_EQ(d.data()[i], clean.data()[i]) << "byte " << i << " beside D's elements changed";
    }
  }

  /// expected(), computed once for all m.
  double answer(std::int64_t entry, std::int64_t row, std::int64_t column) {
    const std::int64_t rows = problem.m_range.high;
    if (answers_.empty()) {
      for (std::int64_t e = 0; e < problem.batch; ++e) {
        for (std::int64_t m = 0; m < rows; ++m) {
          for (std::int64_t n = 0; n < problem.n; ++n) answers_.push_back(expected(e, m, n));
        }
      }
    }
    return answers_[static_cast<std::size_t>((entry * rows + row) * problem.n + column)];
  }

  double expected(std::int64_t entry, std::int64_t row, std::int64_t column) {
    const Problem& p = problem;
    double sum = 0;
    for (std::int64_t k = 0; k < p.k; ++k) {
      const std::int64_t at_a = p.a_order == Order::row_major ? row * p.lda + k : k * p.lda + row;
      const std::int64_t at_b =
          p.b_order == Order::row_major ? k * p.ldb + column : column * p.ldb + k;
      sum += get(p.a, a.data(), entry * p.stride_a + at_a) *
             get(p.b, b.data(), entry * p.stride_b + at_b);
    }
    std::vector<double> values;
    for (std::size_t i = 0; i < extra.size(); ++i) {
      const EpilogueOperand& described = p.epilogue.operands()[i];
      std::int64_t index = 0;
      if (described.index == EpilogueIndex::row) index = row;
      if (described.index == EpilogueIndex::column) index = column;
      if (described.index == EpilogueIndex::full) index = entry * p.stride_d + row * p.ldd + column;
      values.push_back(get(described.dtype, extra[i].data(), index));
    }
    // What is stored in between is exact, or the tolerance of the test covers it.
    const double value = p.epilogue.evaluate(sum, values);
    Memory rounded(8);
    put(p.d, rounded.data(), 0, value);
    return get(p.d, rounded.data(), 0);
  }

  Problem problem;
  Memory a{0}, b{0};
  std::vector<Memory> extra;
  std::int64_t span_d = 0;  ///< elements of D at the largest m

 private:
  static Problem parse(const std::string& text) {
    auto problem = Problem::parse(text);
    EXPECT_TRUE(problem) << text << ": " << (problem ? "" : problem.error().message);
    return problem ? *problem : Problem();
  }

  /// Everything NaN (7 for integers) at first: padding that is read shows.
  static Memory operand(DType dtype, std::int64_t count) {
    Memory memory(bytes(dtype, count) + 64);
    for (std::int64_t i = 0; i < count; ++i) {
      put(dtype, memory.data(), i, is_integer(dtype) ? 7 : std::nan(""));
    }
    return memory;
  }

  static double value(std::mt19937& random, DType dtype) {
    const int drawn = static_cast<int>(random() % 9) - 4;
    if (dtype == DType::u8) return drawn + 4;
    return is_integer(dtype) ? drawn : drawn * 0.25;
  }

  void fill(std::mt19937& random, DType dtype, Memory& memory, std::int64_t rows,
            std::int64_t columns, Order order, std::int64_t ld, std::int64_t stride) {
    for (std::int64_t entry = 0; entry < problem.batch; ++entry) {
      for (std::int64_t row = 0; row < rows; ++row) {
        for (std::int64_t column = 0; column < columns; ++column) {
          const std::int64_t at = order == Order::row_major ? row * ld + column : column * ld + row;
          put(dtype, memory.data(), entry * stride + at, value(random, dtype));
        }
      }
    }
  }

  std::vector<double> answers_;
};

}  // namespace culet::test

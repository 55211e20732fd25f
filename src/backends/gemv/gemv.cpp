// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// The family `gemv`: a handful of rows of A (m = 1 .. 8, fixed at compile time) against a large B
// on ordinary cores (src/kernels/gemv.cuh). Its time is that of reading B.
#include <fmt/format.h>

#include <algorithm>

#include "backends/backends.h"
#include "codegen/cuda_epilogue.h"
#include "codegen/cuda_source.h"

namespace culet {
namespace {

constexpr std::int64_t kMaxM = 8;
constexpr const char* kEntry = "culet_gemv";

/// Elements of a 16-byte load.
std::int64_t vector_elements(const Problem& problem) { return 128 / bits(problem.a); }

struct Shape {
  std::int64_t rows, unroll, warps, k_warps;
  std::int64_t tile_rows() const { return warps / k_warps * rows; }
  /// Registers a thread needs without spilling, fitted to compiled kernels: the weights in flight,
  /// the sums, the rows' addresses, the vectors of A that are loaded ahead.
  std::int64_t registers(std::int64_t m) const {
    return (4 * rows * unroll + rows * m + 3 * rows + 5 * m + 20 + 7) / 8 * 8;
  }
  /// Blocks a multiprocessor holds, which the compiler is told.
  std::int64_t occupancy(std::int64_t m, std::int64_t register_file,
                         std::int64_t max_threads) const {
    return std::min(register_file / (32 * warps * registers(m)), max_threads / (32 * warps));
  }
};

Shape shape_of(const Config& config) {
  return {config.get_int("rows"), config.get_int("unroll"), config.get_int("warps"),
          config.get_int("k_warps")};
}

class Gemv final : public KernelFamily {
 public:
  std::string_view name() const override { return "gemv"; }
  std::string version() const override { return "1"; }
  DeviceKind device_kind() const override { return DeviceKind::cuda; }

  Support supports(const Problem& p, const DeviceSpec&) const override {
    if (p.is_empty()) return Support::cannot("nothing to compute: a size is 0");
    if (p.m_range.high > kMaxM)
      return Support::cannot(fmt::format("m={}: at most {}", p.m_range.high, kMaxM));
    if (p.a != p.b || (p.a != DType::bf16 && p.a != DType::f16)) {
      return Support::cannot(
          fmt::format("{}*{}: A and B must both be bf16 or f16", to_string(p.a), to_string(p.b)));
    }
    if (p.d != DType::bf16 && p.d != DType::f16 && p.d != DType::f32) {
      return Support::cannot(fmt::format("D is {}: it must be bf16, f16 or f32", to_string(p.d)));
    }
    if (p.accumulate != Accumulate::f32 && p.accumulate != Accumulate::fast) {
      return Support::cannot(fmt::format("acc={}: it accumulates in f32", to_string(p.accumulate)));
    }
    if (p.a_order != Order::row_major || p.b_order != Order::col_major) {
      return Support::cannot("layout: both operands must be contiguous in k (tn)");
    }
    const std::int64_t vector = vector_elements(p);
    if (p.k % vector != 0)
      return Support::cannot(
          fmt::format("k={}: it reads 16 bytes at once, {} elements", p.k, vector));
    if (p.lda % vector != 0 || p.ldb % vector != 0 || p.stride_a % vector != 0 ||
        p.stride_b % vector != 0) {
      return Support::cannot(
          fmt::format("lda={} ldb={}: rows must start at multiples of 16 bytes", p.lda, p.ldb));
    }
    if (p.align_a < 16 || p.align_b < 16)
      return Support::cannot("A and B must be aligned to 16 bytes");
    return Support::can();
  }

  std::vector<Config> configs(const Problem& p, const DeviceSpec&) const override {
    std::vector<Config> all;
    const std::int64_t m = p.m_range.high;
    const std::int64_t chunks = (p.k + 32 * vector_elements(p) - 1) / (32 * vector_elements(p));
    for (std::int64_t rows : {1, 2, 4}) {
      if (rows * m > 32) continue;  // one sum a lane after the exchange
      for (std::int64_t unroll : {1, 2, 4}) {
        for (std::int64_t warps : {4, 8}) {
          for (std::int64_t k_warps : {1, 2, 4, 8}) {
            if (k_warps > warps || k_warps > chunks) continue;
            const Shape shape{rows, unroll, warps, k_warps};
            if (shape.registers(m) > 128) continue;  // fewer than 16 warps a multiprocessor
            all.push_back(Config()
                              .set("rows", rows)
                              .set("unroll", unroll)
                              .set("warps", warps)
                              .set("k_warps", k_warps));
          }
        }
      }
    }
    return all;
  }

  std::optional<Features> features(const Problem& p, const Config& config,
                                   const DeviceSpec& device) const override {
    const Shape shape = shape_of(config);
    const double m = static_cast<double>(p.m_range.high);
    const double tiles =
        static_cast<double>((p.n + shape.tile_rows() - 1) / shape.tile_rows() * p.batch);
    const double weights = tiles * static_cast<double>(shape.tile_rows() * p.k) * bits(p.b) / 8;
    const std::int64_t resident = std::max<std::int64_t>(
        1, shape.occupancy(p.m_range.high, device.registers_per_unit, device.max_threads_per_unit));
    Features f;
    f.tensor = false;
    f.math_dtype = DType::f32;
    // Beside the m multiply-adds each weight costs an unpacking and its share of loading and
    // unpacking A, as issue slots.
    const double slots = m + 1 + 1.5 * m / static_cast<double>(shape.rows);
    f.math_ops = 2.0 * slots * static_cast<double>(p.n) * static_cast<double>(p.k * p.batch);
    f.math_efficiency = 0.65;  // of a prototype of this loop on an H200
    f.dram_bytes = p.compulsory_bytes();
    f.l2_bytes = f.dram_bytes + weights * m / static_cast<double>(shape.tile_rows());
    f.shared_bytes = weights * m / static_cast<double>(shape.rows);  // A through L1
    f.tiles = tiles;
    f.slots = static_cast<double>(device.units * resident);
    f.bytes_in_flight =
        static_cast<double>(resident * shape.warps * 32 * 16 * shape.rows * shape.unroll);
    // Sums over lanes and warps; the latency of the loads in flight at the end.
    f.extra_seconds = 0.3e-6 + 0.05e-6 * static_cast<double>(shape.unroll * shape.rows);
    return f;
  }

  Result<Source> source(const Problem& p, const Step& step,
                        const DeviceSpec& device) const override {
    const Shape shape = shape_of(step.config);
    ConfigStruct config;
    config.add("type", p.a)
        .add("d", p.d)
        .add("m", p.m_range.high)
        .add("rows", shape.rows)
        .add("unroll", shape.unroll);
    config.add("warps", shape.warps).add("k_warps", shape.k_warps).add("constant_b", p.const_b);
    const std::string entry = fmt::format(
        "extern \"C\" __global__ void __launch_bounds__(GemvShape<Config>::kThreads, {})\n"
        "{}(const void* a, const void* b, void* d, i64 lda, i64 ldb, i64 ldd, i64 stride_a, i64 "
        "stride_b, i64 stride_d,\n"
        "    i32 m, i32 n, i32 k, i32 tiles{}) {{\n"
        "  const GemvArguments<{}> args{{a, b, d, lda, ldb, ldd, stride_a, stride_b, stride_d, m, "
        "n, k, tiles, {}}};\n"
        "  gemv_kernel<Config, Epilogue>(args);\n}}\n",
        shape.occupancy(p.m_range.high, device.registers_per_unit, device.max_threads_per_unit),
        kEntry, cuda_epilogue_parameters(p.epilogue), p.epilogue.operands().size(),
        cuda_epilogue_pointers(p.epilogue));
    return Source{SourceLanguage::cuda,
                  cuda_translation_unit("gemv.cuh", config, p.epilogue, entry),
                  kEntry,
                  {}};
  }

  Result<LaunchSpec> launch(const Problem& p, const Step& step, const DeviceSpec&) const override {
    const Shape shape = shape_of(step.config);
    const std::int64_t tiles = (p.n + shape.tile_rows() - 1) / shape.tile_rows();
    if (tiles * p.batch > INT32_MAX)
      return fail(ErrorCode::unsupported, "gemv: more than 2^31 blocks");
    LaunchSpec spec;
    spec.grid[0] = tiles * p.batch;
    spec.block[0] = static_cast<std::uint32_t>(32 * shape.warps);
    spec.pdl = true;
    spec.args = {LaunchArg::pointer(Operand::a), LaunchArg::pointer(Operand::b),
                 LaunchArg::pointer(Operand::d)};
    for (std::int64_t value : {p.lda, p.ldb, p.ldd, p.stride_a, p.stride_b, p.stride_d}) {
      spec.args.push_back(LaunchArg::i64(value));
    }
    spec.args.push_back(LaunchArg::i32(MValue::times_m(1)));
    for (std::int64_t value : {p.n, p.k, tiles}) spec.args.push_back(LaunchArg::i32(value));
    add_epilogue_arguments(p.epilogue, &spec);
    return spec;
  }
};

}  // namespace

std::shared_ptr<const Backend> make_gemv_backend() { return std::make_shared<Gemv>(); }

}  // namespace culet

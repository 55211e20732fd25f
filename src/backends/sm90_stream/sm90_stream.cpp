// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// The family `sm90_stream`: decode GEMMs on Hopper, m up to 128, with B on WGMMA's wide side
// (src/kernels/sm90_stream.cuh). Its space follows from the device: how many rows of B a block
// takes so that the grid fills every multiprocessor evenly, how often k is split over a cluster,
// and how much shared memory is in flight.
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "backends/backends.h"
#include "codegen/cuda_epilogue.h"
#include "codegen/cuda_source.h"

namespace culet {
namespace {

constexpr std::int64_t kMaxM = 128;
constexpr const char* kEntry = "culet_stream";

std::int64_t ceil_div(std::int64_t x, std::int64_t y) { return (x + y - 1) / y; }
std::int64_t round_up(std::int64_t x, std::int64_t y) { return ceil_div(x, y) * y; }

struct Shape {
  std::int64_t rows, width, boxes, stages, groups, cluster;

  std::int64_t blocks() const { return ceil_div(rows, 64); }
  std::int64_t stage_bytes() const { return boxes * (rows + width) * 128; }
  std::int64_t part_bytes() const { return groups * width * (rows + 4) * 4; }
  /// Dynamic shared memory: StreamShape::kSharedBytes.
  std::int64_t shared_bytes() const {
    const std::int64_t parts = std::max(stages * stage_bytes(),
                                        stages * boxes * rows * 128 + (blocks() * 64 - rows) * 128);
    return parts + part_bytes() + 16 * stages;
  }
  std::int64_t threads() const { return 128 * groups + 64; }
  /// A thread's: the accumulators and what addressing takes beside them, from compiled kernels.
  std::int64_t registers() const { return blocks() * width / 2 + 56; }
};

Shape shape_of(const Problem& p, const Config& config) {
  return {config.get_int("rows"),   round_up(p.m_range.high, 8), config.get_int("boxes"),
          config.get_int("stages"), config.get_int("groups"),    config.get_int("cluster")};
}

/// Blocks a multiprocessor holds.
std::int64_t occupancy(const Shape& shape, const DeviceSpec& device) {
  const std::int64_t by_memory = device.shared_per_unit / (shape.shared_bytes() + 1024 + 1024);
  const std::int64_t by_threads = device.max_threads_per_unit / shape.threads();
  const std::int64_t by_registers =
      device.registers_per_unit / (shape.threads() * round_up(shape.registers(), 8));
  return std::min({by_memory, by_threads, by_registers});
}

/// What a thread may use: the register file over the block's threads, and the instruction set's
/// 255.
std::int64_t max_registers(const Shape& shape, const DeviceSpec& device) {
  return std::min<std::int64_t>(255, device.registers_per_unit / shape.threads() / 8 * 8);
}

class Sm90Stream final : public KernelFamily {
 public:
  std::string_view name() const override { return "sm90_stream"; }
  std::string version() const override { return "1"; }
  DeviceKind device_kind() const override { return DeviceKind::cuda; }

  Support supports(const Problem& p, const DeviceSpec& device) const override {
    if (device.architecture != "sm_90a") {
      return Support::cannot(fmt::format("{} is {}: TMA + WGMMA kernels are for sm_90a",
                                         device.name, device.architecture));
    }
    if (p.is_empty()) return Support::cannot("nothing to compute: a size is 0");
    if (p.k == 0) return Support::cannot("k=0: there is nothing to stream");
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
    if (p.lda % 8 != 0 || p.ldb % 8 != 0 || p.stride_a % 8 != 0 || p.stride_b % 8 != 0) {
      return Support::cannot(
          fmt::format("lda={} ldb={}: TMA needs rows of a multiple of 16 bytes", p.lda, p.ldb));
    }
    if (p.align_a < 16 || p.align_b < 16)
      return Support::cannot("TMA needs A and B aligned to 16 bytes");
    return Support::can();
  }

  std::vector<Config> configs(const Problem& p, const DeviceSpec& device) const override {
    std::vector<Config> all;
    for (std::int64_t cluster : {1, 2, 4, 8}) {
      for (std::int64_t rows : row_choices(p, device, cluster)) {
        for (std::int64_t boxes : {1, 2, 4}) {
          if (ceil_div(p.k, 64 * boxes) < cluster) continue;  // a block without any k
          for (std::int64_t groups : {1, 2, 4}) {
            // One block's ring a multiprocessor, or two: below 48 KB in flight reading slows down.
            for (std::int64_t budget :
                 {device.shared_per_block, (device.shared_per_unit - 2048) / 2}) {
              Shape shape{rows, round_up(p.m_range.high, 8), boxes, 0, groups, cluster};
              const std::int64_t fixed = shape.part_bytes() + 64 * 128 + 16 * 32;
              shape.stages = std::min<std::int64_t>(24, (budget - fixed) / shape.stage_bytes()) /
                             groups * groups;
              // More than the block's share of k is never used; a group with one stage would wait
              // for itself.
              const std::int64_t share = ceil_div(ceil_div(p.k, 64 * boxes), cluster);
              shape.stages = std::min(shape.stages, std::max(round_up(share, groups), 2 * groups));
              if (shape.stages < 2 * groups) continue;
              if (shape.registers() > max_registers(shape, device)) continue;
              Config config;
              config.set("rows", rows)
                  .set("boxes", boxes)
                  .set("stages", shape.stages)
                  .set("groups", groups);
              config.set("cluster", cluster);
              if (std::find(all.begin(), all.end(), config) == all.end()) all.push_back(config);
            }
          }
        }
      }
    }
    return all;
  }

  std::optional<Features> features(const Problem& p, const Config& config,
                                   const DeviceSpec& device) const override {
    const Shape shape = shape_of(p, config);
    const std::int64_t resident = std::max<std::int64_t>(1, occupancy(shape, device));
    const double tiles = static_cast<double>(ceil_div(p.n, shape.rows) * p.batch);
    const double k = static_cast<double>(round_up(p.k, 64 * shape.boxes));
    Features f;
    f.math_dtype = p.a;
    // A WGMMA of width 8 takes as long as one of width 32: it waits for the 64 rows.
    f.math_ops =
        2.0 * tiles *
        static_cast<double>(shape.blocks() * 64 * std::max<std::int64_t>(shape.width, 32)) * k;
    f.math_efficiency =
        shape.groups * resident > 1 ? 0.7 : 0.45;  // one warpgroup's chain leaves gaps
    f.dram_bytes = p.compulsory_bytes();
    f.l2_bytes = tiles * static_cast<double>(shape.rows + shape.width) * k * 2;
    f.shared_bytes = tiles * static_cast<double>(shape.blocks() * 64 + shape.width) * k * 2;
    f.tiles = tiles * static_cast<double>(shape.cluster);
    // Clusters above two do not fill every GPC: 132 multiprocessors hold 120 blocks in clusters of
    // four or eight.
    const double usable = shape.cluster > 2 && resident == 1 ? 0.9 : 1.0;
    f.slots = static_cast<double>(device.units * resident) * usable;
    f.bytes_in_flight = static_cast<double>(std::min<std::int64_t>(resident, 2) * shape.stages *
                                            shape.boxes * shape.rows * 128);
    const double m8 = static_cast<double>(shape.width) / 8;
    // Prototypes: barriers and the first copy 0.6 us; a cluster's two barriers and remote reads 0.7
    // us and 0.25 us for every 8 rows of A; parts of several warpgroups 0.1 us.
    f.extra_seconds = 0.6e-6 + (shape.cluster > 1 ? 0.7e-6 + 0.25e-6 * (m8 - 1) : 0) +
                      0.1e-6 * static_cast<double>(shape.groups - 1) +
                      (shape.boxes == 2 ? 0 : 0.1e-6);
    return f;
  }

  Result<Source> source(const Problem& p, const Step& step, const DeviceSpec&) const override {
    const Shape shape = shape_of(p, step.config);
    ConfigStruct config;
    config.add("type", p.a)
        .add("d", p.d)
        .add("rows", shape.rows)
        .add("width", shape.width)
        .add("boxes", shape.boxes);
    config.add("stages", shape.stages).add("groups", shape.groups).add("cluster", shape.cluster);
    config.add("d_pairs", p.align_d >= 4 && p.ldd % 2 == 0 && p.stride_d % 2 == 0)
        .add("constant_b", p.const_b);
    const std::string entry = fmt::format(
        "extern \"C\" __global__ void __launch_bounds__(StreamShape<Config>::kThreads)\n"
        "{}(const __grid_constant__ TensorMap a, const __grid_constant__ TensorMap b, void* d, i64 "
        "ldd, i64 stride_d,\n"
        "    i32 m, i32 n, i32 k, i32 tiles, i32 a_batched, i32 b_batched{}) {{\n"
        "  extern __shared__ __align__(1024) char shared[];\n"
        "  const StreamArguments<{}> args{{d, ldd, stride_d, m, n, k, tiles, a_batched, b_batched, "
        "{}}};\n"
        "  stream_kernel<Config, Epilogue>(&a, &b, args, shared);\n}}\n",
        kEntry, cuda_epilogue_parameters(p.epilogue), p.epilogue.operands().size(),
        cuda_epilogue_pointers(p.epilogue));
    return Source{SourceLanguage::cuda,
                  cuda_translation_unit("sm90_stream.cuh", config, p.epilogue, entry),
                  kEntry,
                  {}};
  }

  Result<LaunchSpec> launch(const Problem& p, const Step& step, const DeviceSpec&) const override {
    const Shape shape = shape_of(p, step.config);
    const std::int64_t tiles = ceil_div(p.n, shape.rows);
    if (tiles * p.batch * shape.cluster > INT32_MAX)
      return fail(ErrorCode::unsupported, "sm90_stream: more than 2^31 blocks");
    const bool a_batched = p.batch > 1 && p.stride_a != 0;
    const bool b_batched = p.batch > 1 && p.stride_b != 0;
    LaunchSpec spec;
    spec.grid[0] = tiles * p.batch * shape.cluster;
    spec.block[0] = static_cast<std::uint32_t>(shape.threads());
    spec.cluster[0] = static_cast<std::uint32_t>(shape.cluster);
    spec.shared_bytes = static_cast<std::uint32_t>(shape.shared_bytes());
    spec.pdl = true;
    spec.args = {LaunchArg::tensor_map(map(p, Operand::a, shape.width, MValue::times_m(1), p.lda,
                                           a_batched ? p.stride_a : 0)),
                 LaunchArg::tensor_map(
                     map(p, Operand::b, shape.rows, p.n, p.ldb, b_batched ? p.stride_b : 0)),
                 LaunchArg::pointer(Operand::d),
                 LaunchArg::i64(p.ldd),
                 LaunchArg::i64(p.stride_d),
                 LaunchArg::i32(MValue::times_m(1))};
    for (std::int64_t value : {p.n, p.k, tiles, std::int64_t{a_batched}, std::int64_t{b_batched}}) {
      spec.args.push_back(LaunchArg::i32(value));
    }
    add_epilogue_arguments(p.epilogue, &spec);
    return spec;
  }

 private:
  /// Rows of B a block: what spreads n over all multiprocessors once or twice, and the tensor
  /// core's own 64 and 128.
  static std::set<std::int64_t> row_choices(const Problem& p, const DeviceSpec& device,
                                            std::int64_t cluster) {
    std::set<std::int64_t> rows;
    for (std::int64_t waves : {1, 2, 3, 4}) {
      const std::int64_t even =
          round_up(ceil_div(p.n * p.batch * cluster, device.units * waves), 8);
      if (even >= 16 && even <= 192) rows.insert(even);
    }
    rows.insert(64);
    if (p.n * p.batch * cluster >= 64 * device.units) rows.insert(128);
    if (p.n * p.batch * cluster < 64 * device.units) rows.insert(32);
    return rows;
  }

  /// A [rows x k] operand contiguous in k, in boxes of 64 k, a third dimension for the batch.
  static TensorMapSpec map(const Problem& p, Operand operand, std::int64_t box_rows, MValue rows,
                           std::int64_t ld, std::int64_t stride) {
    TensorMapSpec spec;
    spec.operand = operand;
    spec.dtype = p.a;
    spec.rank = 3;
    spec.dims[0] = p.k;
    spec.dims[1] = rows;
    spec.dims[2] = stride == 0 ? 1 : p.batch;
    spec.strides_bytes[1] = ld * 2;
    spec.strides_bytes[2] =
        (stride == 0 ? ld : stride) * 2;  // not used where there is one batch entry
    spec.box[0] = 64;
    spec.box[1] = static_cast<std::uint32_t>(box_rows);
    return spec;
  }
};

}  // namespace

std::shared_ptr<const Backend> make_sm90_stream_backend() { return std::make_shared<Sm90Stream>(); }

}  // namespace culet

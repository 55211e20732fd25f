// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// Backend of src/kernels/sm90_dense.cuh: GEMMs on Hopper through the copy engine and warpgroup
// matrix instructions, 16-bit floats in every layout, 8-bit floats and integers contiguous in k.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <initializer_list>

#include "backends/backends.h"
#include "backends/gemm_family.h"
#include "backends/hopper_operands.h"
#include "backends/sm90_dense/dense_config.h"
#include "codegen/codegen.h"
#include "codegen/cuda_epilogue.h"

namespace culet {

namespace sm90_dense {
namespace {

constexpr std::string_view kEntry = "culet_sm90_dense";

std::string config_struct(const DenseConfig& c, const Problem& p, const DeviceSpec& device) {
  const StorePath store = store_path(p);
  const Slabs slabs = slabs_of(c, store, shared_limit(device, c.occupancy));
  return fmt::format(
      "struct Config {{\n"
      "  static constexpr DType a = DType::{}, b = DType::{}, d = DType::{};\n"
      "  static constexpr bool across_a = {}, across_b = {};\n"
      "  static constexpr int promote = {}, cluster_k = {};\n"
      "  static constexpr int tile_m = {}, tile_n = {};\n"
      "  static constexpr int cluster_m = {}, cluster_n = {}, stages = {}, occupancy = {};\n"
      "  static constexpr bool pingpong = {}, tma_store = {}, d_pairs = {};\n"
      "  static constexpr int slab_n = {}, slab_buffers = {};\n"
      "  static constexpr bool load_ahead = {};\n"
      "}};\n",
      device_dtype_name(c.turned ? p.b : p.a), device_dtype_name(c.turned ? p.a : p.b),
      device_dtype_name(p.d), !rows_along_k(c, p), !columns_along_k(c, p),
      hopper::needs_promotion(p) ? c.promotion_parts() : 0, c.cluster_k, c.tile_m, c.tile_n,
      c.cluster_m, c.cluster_n, c.stages, c.occupancy, c.pingpong, store.tma, store.pairs,
      slabs.columns, slabs.buffers, loads_ahead(c, p));
}

std::string entry_point(const DenseConfig& c, const Problem& p) {
  const bool tma = store_path(p).tma;
  return fmt::format(
      "extern \"C\" __global__ void __launch_bounds__(DenseShape<Config>::kThreads, "
      "Config::occupancy)\n"
      "{}(const __grid_constant__ TensorMap a_map, const __grid_constant__ TensorMap b_map,\n"
      "   {}void* d, i64 ldd, i64 stride_d, i32 m, i32 n, u32* counters, float* partials,\n"
      "   i32 tiles_m, i32 tiles_n, i32 batch, i32 splits, i32 k_tiles, i32 group, i32 along_n,\n"
      "   i32 a_lines, i32 b_lines, i32 a_batched, i32 b_batched, i32 stage_bytes{}) {{\n"
      "  extern __shared__ __align__(1024) u8 shared[];\n"
      "  const DenseArguments<Epilogue::Operands::count> args = {{\n"
      "      {{d, ldd, stride_d, m, n}}, {}, {{counters, partials}},\n"
      "      {{tiles_m, tiles_n, batch, splits, k_tiles, group, along_n != 0}}, a_lines, b_lines,\n"
      "      a_batched, b_batched, static_cast<u32>(stage_bytes)}};\n"
      "  dense_kernel<Config, Epilogue{}>(&a_map, &b_map, {}, args, shared);\n"
      "}}\n",
      kEntry, tma ? "const __grid_constant__ TensorMap d_map, " : "",
      cuda_epilogue_parameters(p.epilogue), cuda_epilogue_pointers(p.epilogue),
      c.turned ? ", TurnedEpilogue<StoredPart<Config>, Epilogue>" : "", tma ? "&d_map" : "nullptr");
}

/// A or B, dimension 0 contiguous, read in boxes of a stage's k and `lines` of m or n, or, where m
/// or n is contiguous, of a chunk of these and a sharer's part of k (StageLayout in
/// stage_layout.cuh).
TensorMapSpec input_map(Operand operand, const Problem& p, MValue lines, int tile_lines,
                        int sharers) {
  const bool is_a = operand == Operand::a;
  const bool along_k = is_a ? hopper::a_along_k(p) : hopper::b_along_k(p);
  const std::int64_t size = bits(p.a) / 8;
  const std::int64_t ld = is_a ? p.lda : p.ldb;
  const std::int64_t stride = is_a ? p.stride_a : p.stride_b;
  const MValue all_lines = is_a ? MValue::times_m(1) : MValue(p.n);
  TensorMapSpec map;
  map.operand = operand;
  map.dtype = is_a ? p.a : p.b;
  map.rank = 3;
  map.dims[along_k ? 0 : 1] = p.k;
  map.dims[along_k ? 1 : 0] = all_lines;
  map.dims[2] = stride == 0 ? 1 : p.batch;
  map.strides_bytes[1] = ld * size;
  map.strides_bytes[2] = (stride == 0 ? ld : stride) * size;
  map.swizzle_bytes = along_k || tile_lines % 64 == 0 ? 128 : 64;
  map.box[0] = map.swizzle_bytes / size;
  map.box[1] = along_k ? lines : tile_k_of(p) / sharers;
  // 256 made weight streams 2 % slower on average, 7 % at worst (H200, 2026-11-29).
  map.l2_promotion_bytes = 128;
  return map;
}

/// D, in boxes of a slab: 64 rows and `lines` columns of WGMMA's.
TensorMapSpec output_map(const DenseConfig& c, const Problem& p, int lines) {
  const std::int64_t size = bits(p.d) / 8;
  TensorMapSpec map;
  map.operand = Operand::d;
  map.dtype = p.d;
  map.rank = 3;
  map.dims[0] = p.n;
  map.dims[1] = MValue::times_m(1);
  map.dims[2] = p.batch;
  map.strides_bytes[1] = p.ldd * size;
  map.strides_bytes[2] = (p.stride_d == 0 ? p.ldd : p.stride_d) * size;
  map.box[0] = c.turned ? 64 : lines;
  map.box[1] = c.turned ? lines : 64;
  map.swizzle_bytes = (c.turned ? 64 : lines) * static_cast<int>(size);
  return map;
}

/// Clusters' tiles along m, times `factor` and at most `most`.
MValue tiles_along_m(const DenseConfig& c, std::int64_t factor, std::int64_t most = INT64_MAX) {
  const std::int64_t rows =
      c.turned ? std::int64_t{c.tile_n} * c.cluster_n : std::int64_t{c.tile_m} * c.cluster_m;
  return MValue::tiles_of_m(rows, factor, most);
}

/// Within how many lines of A or B tiles shall lie (first_line() in scheduler.cuh): all, but tiles
/// of n begin at multiples of eight.
MValue all_lines(Operand operand, const Problem& p) {
  return operand == Operand::a ? MValue::times_m(1) : MValue((p.n + 7) / 8 * 8);
}

MValue times(MValue value, std::int64_t factor) {
  value.add *= factor;
  value.mul *= factor;
  if (value.cap != INT64_MAX) value.cap *= factor;
  return value;
}

MValue plus(MValue value, std::int64_t addend) {
  value.add += addend;
  if (value.cap != INT64_MAX) value.cap += addend;
  return value;
}

/// Counters first, which stay zero between runs, then the parts of all tiles.
void add_workspace(const DenseConfig& c, const Problem& p, const DeviceSpec& device,
                   LaunchSpec* spec) {
  if (c.splits <= 1) return;
  const int slots = c.cluster_blocks() * (c.pingpong ? 2 : c.consumers());
  const Grid most = grid_of(c, p, device, p.m_range.high);
  const std::int64_t tiles = most.tiles_m * most.tiles_n * p.batch;
  spec->zeroed_prefix = (tiles * slots * 4 + 255) / 256 * 256;
  const std::int64_t part = std::int64_t{128} * c.accumulators() * 4;
  spec->workspace_bytes = tiles_along_m(
      c, (c.turned ? most.tiles_m : most.tiles_n) * p.batch * slots * c.splits * part);
  spec->workspace_bytes.add = spec->zeroed_prefix;
}

LaunchSpec launch_of(const DenseConfig& c, const Problem& p, const DeviceSpec& device) {
  const StorePath store = store_path(p);
  const Slabs slabs = slabs_of(c, store, shared_limit(device, c.occupancy));
  const Grid grid = grid_of(c, p, device, p.m);
  const int blocks = c.cluster_blocks();
  LaunchSpec spec;
  const std::int64_t tiles_along_n = c.turned ? grid.tiles_m : grid.tiles_n;
  // With parts of k in a cluster a block computes one tile.
  const std::int64_t most = c.cluster_k > 1 ? INT32_MAX : grid.workers * blocks;
  spec.grid[0] = tiles_along_m(c, tiles_along_n * p.batch * c.splits * blocks, most);
  spec.block[0] = static_cast<std::uint32_t>(c.threads());
  spec.cluster[0] = static_cast<std::uint32_t>(blocks);
  spec.shared_bytes = static_cast<std::uint32_t>(shared_bytes(c, store, slabs));
  spec.pdl = true;
  add_workspace(c, p, device, &spec);
  auto& args = spec.args;
  const Operand rows = c.turned ? Operand::b : Operand::a;
  const Operand columns = c.turned ? Operand::a : Operand::b;
  args.push_back(LaunchArg::tensor_map(input_map(rows, p, row_box(c, p), c.tile_m, c.cluster_n)));
  args.push_back(
      LaunchArg::tensor_map(input_map(columns, p, column_box(c, p), c.tile_n, c.cluster_m)));
  if (store.tma) args.push_back(LaunchArg::tensor_map(output_map(c, p, slabs.columns)));
  args.push_back(LaunchArg::pointer(Operand::d));
  args.push_back(LaunchArg::i64(p.ldd));
  args.push_back(LaunchArg::i64(p.stride_d));
  args.push_back(LaunchArg::i32(MValue::times_m(1)));
  args.push_back(LaunchArg::i32(p.n));
  args.push_back(LaunchArg::pointer(Operand::scratch));
  args.push_back(LaunchArg::pointer(Operand::scratch, 0, spec.zeroed_prefix));
  const LaunchArg along_m = LaunchArg::i32(tiles_along_m(c, 1));
  const LaunchArg along_n = LaunchArg::i32(tiles_along_n);
  args.push_back(c.turned ? along_n : along_m);
  args.push_back(c.turned ? along_m : along_n);
  const MValue row_bytes = times(row_box(c, p), 128 * c.cluster_n);
  const MValue column_bytes =
      columns_along_k(c, p) ? times(column_box(c, p), 128 * c.cluster_m) : 128 * c.tile_n;
  // At most one of them depends on m.
  const MValue stage_bytes =
      c.turned ? plus(column_bytes, row_bytes.add) : plus(row_bytes, column_bytes.add);
  const bool rows_batched = (c.turned ? p.stride_b : p.stride_a) != 0;
  const bool columns_batched = (c.turned ? p.stride_a : p.stride_b) != 0;
  for (const MValue& value : std::initializer_list<MValue>{
           p.batch, c.splits, grid.k_tiles, c.group, c.along_n, all_lines(rows, p),
           all_lines(columns, p), rows_batched, columns_batched, stage_bytes}) {
    args.push_back(LaunchArg::i32(value));
  }
  add_epilogue_arguments(p.epilogue, &spec);
  return spec;
}

}  // namespace

std::optional<Features> features_of(const DenseConfig& c, const Problem& p,
                                    const DeviceSpec& device);

class Sm90Dense final : public GemmFamily<DenseConfig> {
 public:
  std::string_view name() const override { return "sm90_dense"; }
  std::string version() const override { return "4"; }

 private:
  std::string why_not(const Problem& problem, const DeviceSpec& device) const override {
    return refusal(problem, device);
  }
  std::string why_not(const DenseConfig& c, const Problem& problem,
                      const DeviceSpec& device) const override {
    return config_error(c, problem, device);
  }
  std::vector<DenseConfig> all(const Problem& problem, const DeviceSpec& device) const override {
    return space(problem, device);
  }
  std::optional<Features> features_of_valid(const DenseConfig& c, const Problem& problem,
                                            const DeviceSpec& device) const override {
    return features_of(c, problem, device);
  }
  Source source_of_valid(const DenseConfig& c, const Problem& problem,
                         const DeviceSpec& device) const override {
    Source source;
    source.entry = kEntry;
    source.text = fmt::format("#define CULET_WGMMA_A {}\n#define CULET_WGMMA_B {}\n",
                              device_dtype_name(c.turned ? problem.b : problem.a),
                              device_dtype_name(c.turned ? problem.a : problem.b)) +
                  cuda_kernel_text("sm90_dense.cuh", problem.epilogue) +
                  "\nnamespace culet::kernels {\n" + config_struct(c, problem, device) +
                  cuda_epilogue_struct(problem.epilogue, c.turned) + entry_point(c, problem) +
                  "}  // namespace culet::kernels\n";
    return source;
  }
  LaunchSpec launch_of_valid(const DenseConfig& c, const Problem& problem,
                             const DeviceSpec& device) const override {
    return launch_of(c, problem, device);
  }
};

}  // namespace sm90_dense

std::shared_ptr<const Backend> make_sm90_dense_backend() {
  return std::make_shared<sm90_dense::Sm90Dense>();
}

}  // namespace culet

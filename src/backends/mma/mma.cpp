// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// Backend of src/kernels/mma.cuh: 16-bit floats, 8-bit floats and 8-bit integers on the tensor
// cores of any NVIDIA part from sm_80 on, in every layout, leading dimension and alignment.
#include <fmt/format.h>

#include "backends/backends.h"
#include "backends/gemm_family.h"
#include "backends/mma/mma_config.h"
#include "codegen/cuda_epilogue.h"
#include "codegen/cuda_source.h"
#include "kernels/split_groups.h"

namespace culet {

namespace mma {
namespace {

constexpr const char* kEntry = "culet_mma";

std::string refusal(const Problem& p, const DeviceSpec& device) {
  if (architecture_number(device.architecture) < 80) {
    return fmt::format("{}: needs an NVIDIA device of sm_80 or later", device.architecture);
  }
  for (const DType dtype : {p.a, p.b}) {
    switch (dtype) {
      case DType::bf16:
      case DType::f16:
      case DType::e4m3:
      case DType::e5m2:
      case DType::s8:
      case DType::u8:
        break;
      default:
        return fmt::format("{}: multiplies bf16, f16, e4m3, e5m2, s8 and u8", to_string(dtype));
    }
  }
  if (p.d == DType::e2m1 || p.d == DType::e8m0) {
    return fmt::format("d={}: stores types with whole bytes and no separate scales",
                       to_string(p.d));
  }
  return {};
}

ConfigStruct config_struct(const MmaConfig& c, const Problem& p) {
  const Access a = access_a(p), b = access_b(p);
  ConfigStruct config;
  config.add("a", p.a).add("b", p.b).add("d", p.d);
  config.add("a_k_fast", a.k_fast).add("b_k_fast", b.k_fast);
  const auto add = [&](std::string_view name, int value) {
    config.add(name, static_cast<std::int64_t>(value));
  };
  add("a_bytes", a.bytes);
  add("b_bytes", b.bytes);
  config.add("a_packed", c.pack_a).add("b_packed", c.pack_b);
  add("tile_m", c.tile_m);
  add("tile_n", c.tile_n);
  add("tile_k", c.tile_k);
  add("warps_m", c.warps_m);
  add("warps_n", c.warps_n);
  add("stages", c.stages);
  config.add("d_pairs", d_pairs(p));
  return config;
}

std::string entry_point(const MmaConfig& c, const Problem& p) {
  return fmt::format(
      "extern \"C\" __global__ void __launch_bounds__(MmaShape<Config>::kThreads, {})\n"
      "{}(const void* a, const void* b, void* d, i64 lda, i64 ldb, i64 ldd, i64 stride_a,\n"
      "   i64 stride_b, i64 stride_d, i32 m, i32 n, i32 k, PackCounters* packing, u8* packed_a,\n"
      "   u8* packed_b, i64 packed_lda, i64 packed_ldb, u32* counters, float* partials,\n"
      "   i32 tiles_m, i32 tiles_n, i32 batch, i32 splits, i32 k_tiles, i32 group, i32 along_n{}) "
      "{{\n"
      "  extern __shared__ __align__(1024) u8 shared[];\n"
      "  const MmaArguments<{}> args = {{\n"
      "      {{a, lda, stride_a, packed_a, packed_lda}},\n"
      "      {{b, ldb, stride_b, packed_b, packed_ldb}}, k, {{d, ldd, stride_d, m, n}}, {},\n"
      "      {{counters, partials}}, packing,\n"
      "      {{tiles_m, tiles_n, batch, splits, k_tiles, group, along_n != 0}}}};\n"
      "  mma_kernel<Config, Epilogue>(args, shared);\n"
      "}}\n",
      c.occupancy, kEntry, cuda_epilogue_parameters(p.epilogue), p.epilogue.operands().size(),
      cuda_epilogue_pointers(p.epilogue));
}

/// Where a step's workspace has what. Packed A and parts depend on m, so they come last; the kernel
/// finds parts behind the room for A.
struct Workspace {
  std::int64_t split_counters = 0, zeroed = 0, packed_b = 0, packed_a = 0;
};

/// Counters first, which stay zero between runs.
Workspace add_workspace(const MmaConfig& c, const Problem& p, LaunchSpec* spec) {
  Workspace at;
  const bool packs = c.pack_a || c.pack_b;
  if (!packs && c.splits <= 1) return at;
  const Grid most = grid_of(c, p, p.m_range.high);
  const std::int64_t columns = most.tiles_n * p.batch;
  at.split_counters = packs ? 256 : 0;
  at.zeroed = at.split_counters;
  std::int64_t of_tile_m = packed_a_bytes_of_tile(c, p);
  if (c.splits > 1) {
    const std::int64_t groups = c.threads() / 128;
    const std::int64_t counters = groups * kernels::split_counters(c.splits);
    at.zeroed += (most.tiles_m * columns * counters * 4 + 255) / 256 * 256;
    of_tile_m += columns * c.splits * c.tile_m * c.tile_n * 4;
  }
  at.packed_b = at.zeroed;
  at.packed_a = at.packed_b + packed_b_bytes(c, p);
  spec->zeroed_prefix = at.zeroed;
  if (of_tile_m > 0) spec->workspace_bytes = MValue::tiles_of_m(c.tile_m, of_tile_m);
  spec->workspace_bytes.add = at.packed_a;
  return at;
}

LaunchSpec launch_of(const MmaConfig& c, const Problem& p) {
  const Grid grid = grid_of(c, p, p.m);
  LaunchSpec spec;
  spec.grid[0] = MValue::tiles_of_m(c.tile_m, grid.tiles_n * p.batch * c.splits);
  spec.block[0] = static_cast<std::uint32_t>(c.threads());
  spec.shared_bytes = static_cast<std::uint32_t>(shared_bytes(c, p));
  spec.pdl = true;
  const Workspace at = add_workspace(c, p, &spec);
  for (const Operand operand : {Operand::a, Operand::b, Operand::d}) {
    spec.args.push_back(LaunchArg::pointer(operand));
  }
  for (const std::int64_t value : {p.lda, p.ldb, p.ldd, p.stride_a, p.stride_b, p.stride_d}) {
    spec.args.push_back(LaunchArg::i64(value));
  }
  spec.args.push_back(LaunchArg::i32(MValue::times_m(1)));
  spec.args.push_back(LaunchArg::i32(p.n));
  spec.args.push_back(LaunchArg::i32(p.k));
  for (const std::int64_t offset : {std::int64_t{0}, at.packed_a, at.packed_b}) {
    spec.args.push_back(LaunchArg::pointer(Operand::scratch, 0, offset));
  }
  spec.args.push_back(LaunchArg::i64(packed_lda(c, p)));
  spec.args.push_back(LaunchArg::i64(packed_ldb(c, p)));
  spec.args.push_back(LaunchArg::pointer(Operand::scratch, 0, at.split_counters));
  spec.args.push_back(LaunchArg::pointer(Operand::scratch, 0, at.packed_a));
  spec.args.push_back(LaunchArg::i32(MValue::tiles_of_m(c.tile_m, 1)));
  for (const std::int64_t value : {grid.tiles_n, p.batch, std::int64_t{c.splits}, grid.k_tiles,
                                   std::int64_t{c.group}, std::int64_t{c.along_n}}) {
    spec.args.push_back(LaunchArg::i32(value));
  }
  add_epilogue_arguments(p.epilogue, &spec);
  return spec;
}

}  // namespace

class Mma final : public GemmFamily<MmaConfig> {
 public:
  std::string_view name() const override { return "mma"; }
  std::string version() const override { return "2"; }

 private:
  std::string why_not(const Problem& problem, const DeviceSpec& device) const override {
    return refusal(problem, device);
  }
  std::string why_not(const MmaConfig& c, const Problem& problem,
                      const DeviceSpec& device) const override {
    return config_error(c, problem, device);
  }
  std::vector<MmaConfig> all(const Problem& problem, const DeviceSpec& device) const override {
    return space(problem, device);
  }
  std::optional<Features> features_of_valid(const MmaConfig& c, const Problem& problem,
                                            const DeviceSpec& device) const override {
    return features_of(c, problem, device);
  }
  Source source_of_valid(const MmaConfig& c, const Problem& problem,
                         const DeviceSpec&) const override {
    return {SourceLanguage::cuda,
            cuda_translation_unit("mma.cuh", config_struct(c, problem), problem.epilogue,
                                  entry_point(c, problem)),
            kEntry,
            {}};
  }
  LaunchSpec launch_of_valid(const MmaConfig& c, const Problem& problem,
                             const DeviceSpec&) const override {
    return launch_of(c, problem);
  }
};

}  // namespace mma

std::shared_ptr<const Backend> make_mma_backend() { return std::make_shared<mma::Mma>(); }

}  // namespace culet

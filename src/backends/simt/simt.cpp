// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// Backend of src/kernels/simt.cuh and simt_rows.cuh: any dtype, layout, stride and alignment on any
// NVIDIA part from sm_70 on, so that every valid problem has an answer of culet's own.
#include <fmt/format.h>

#include "backends/backends.h"
#include "backends/gemm_family.h"
#include "backends/simt/simt_config.h"
#include "codegen/codegen.h"
#include "codegen/cuda_epilogue.h"

namespace culet {

namespace simt {
namespace {

constexpr std::string_view kEntry = "culet_simt";
/// Blocks walk tiles in steps of the grid, so a cap on the grid is no limit of the problem.
constexpr std::int64_t kMaxGrid = 1 << 30;

std::string refusal(const Problem& p, const DeviceSpec& device) {
  if (architecture_number(device.architecture) < 70) {
    return fmt::format("{}: needs an NVIDIA device of sm_70 or later", device.architecture);
  }
  for (const DType dtype : {p.a, p.b, p.d}) {
    if (dtype == DType::e2m1 || dtype == DType::e8m0) {
      return fmt::format("{}: only types with whole bytes and no separate scales",
                         to_string(dtype));
    }
  }
  return {};
}

std::string tile_config_struct(const SimtConfig& c, const Problem& p) {
  const bool a_k_fast = p.a_order == Order::row_major, b_k_fast = p.b_order == Order::col_major;
  const Vectors v = vectors_of(p);
  // A load stays inside a line of the tile.
  const auto fitting = [](int vector, int line) {
    while (line % vector != 0) vector /= 2;
    return vector;
  };
  return fmt::format(
      "struct Config {{\n"
      "  static constexpr DType a = DType::{}, b = DType::{}, d = DType::{};\n"
      "  static constexpr bool a_k_fast = {}, b_k_fast = {};\n"
      "  static constexpr int tile_m = {}, tile_n = {}, tile_k = {};\n"
      "  static constexpr int thread_m = {}, thread_n = {};\n"
      "  static constexpr int vector_a = {}, vector_b = {};\n"
      "}};\n",
      device_dtype_name(p.a), device_dtype_name(p.b), device_dtype_name(p.d), a_k_fast, b_k_fast,
      c.tile_m, c.tile_n, c.tile_k, c.thread_m, c.thread_n,
      fitting(v.a, a_k_fast ? c.tile_k : c.tile_m), fitting(v.b, b_k_fast ? c.tile_k : c.tile_n));
}

std::string rows_config_struct(const SimtConfig& c, const Problem& p) {
  const Vectors v = vectors_of(p);
  return fmt::format(
      "struct Config {{\n"
      "  static constexpr DType a = DType::{}, b = DType::{}, d = DType::{};\n"
      "  static constexpr bool a_k_fast = {}, b_k_fast = {};\n"
      "  static constexpr int rows = {}, columns = {}, warps_k = {}, warps_n = {};\n"
      "  static constexpr int vector_a = {}, vector_b = {};\n"
      "}};\n",
      device_dtype_name(p.a), device_dtype_name(p.b), device_dtype_name(p.d),
      p.a_order == Order::row_major, p.b_order == Order::col_major, c.rows, c.columns, c.warps_k,
      c.warps_n, v.a, v.b);
}

std::string entry_point(const SimtConfig& c, const Problem& p) {
  return fmt::format(
      "extern \"C\" __global__ void __launch_bounds__({})\n"
      "{}(const void* a, const void* b, void* d, i64 lda, i64 ldb, i64 ldd, i64 stride_a,\n"
      "   i64 stride_b, i64 stride_d, i32 m, i32 n, i32 k, i32 batch{}) {{\n"
      "  const SimtArguments<Epilogue::Operands::count> args = {{\n"
      "      a, b, d, lda, ldb, ldd, stride_a, stride_b, stride_d, m, n, k, batch, {}}};\n"
      "  {}<Config, Epilogue>(args);\n"
      "}}\n",
      c.threads(), kEntry, cuda_epilogue_parameters(p.epilogue), cuda_epilogue_pointers(p.epilogue),
      c.rows_kernel ? "rows_kernel" : "simt_kernel");
}

LaunchSpec launch_of(const SimtConfig& c, const Problem& p) {
  const auto ceil_div = [](std::int64_t x, std::int64_t y) { return (x + y - 1) / y; };
  LaunchSpec spec;
  spec.block[0] = static_cast<std::uint32_t>(c.threads());
  if (c.rows_kernel) {
    // One row of tiles for whatever m, none for m = 0.
    spec.grid[0] =
        MValue::tiles_of_m(c.rows, ceil_div(p.n, block_columns(c, p)) * p.batch, kMaxGrid);
  } else {
    spec.grid[0] = MValue::tiles_of_m(c.tile_m, ceil_div(p.n, c.tile_n) * p.batch, kMaxGrid);
  }
  for (const Operand operand : {Operand::a, Operand::b, Operand::d}) {
    spec.args.push_back(LaunchArg::pointer(operand));
  }
  for (const std::int64_t value : {p.lda, p.ldb, p.ldd, p.stride_a, p.stride_b, p.stride_d}) {
    spec.args.push_back(LaunchArg::i64(value));
  }
  spec.args.push_back(LaunchArg::i32(MValue::times_m(1)));
  for (const std::int64_t value : {p.n, p.k, p.batch}) spec.args.push_back(LaunchArg::i32(value));
  add_epilogue_arguments(p.epilogue, &spec);
  return spec;
}

}  // namespace

class Simt final : public GemmFamily<SimtConfig> {
 public:
  std::string_view name() const override { return "simt"; }
  std::string version() const override { return "2"; }

 private:
  std::string why_not(const Problem& problem, const DeviceSpec& device) const override {
    return refusal(problem, device);
  }
  std::string why_not(const SimtConfig& c, const Problem& problem,
                      const DeviceSpec&) const override {
    return config_error(c, problem);
  }
  std::vector<SimtConfig> all(const Problem& problem, const DeviceSpec&) const override {
    return space(problem);
  }
  std::optional<Features> features_of_valid(const SimtConfig& c, const Problem& problem,
                                            const DeviceSpec& device) const override {
    return features_of(c, problem, device);
  }
  Source source_of_valid(const SimtConfig& c, const Problem& problem,
                         const DeviceSpec&) const override {
    Source source;
    source.entry = kEntry;
    source.text =
        cuda_kernel_text(c.rows_kernel ? "simt_rows.cuh" : "simt.cuh", problem.epilogue) +
        "\nnamespace culet::kernels {\n" +
        (c.rows_kernel ? rows_config_struct(c, problem) : tile_config_struct(c, problem)) +
        cuda_epilogue_struct(problem.epilogue) + entry_point(c, problem) +
        "}  // namespace culet::kernels\n";
    return source;
  }
  LaunchSpec launch_of_valid(const SimtConfig& c, const Problem& problem,
                             const DeviceSpec&) const override {
    return launch_of(c, problem);
  }
};

}  // namespace simt

std::shared_ptr<const Backend> make_simt_backend() { return std::make_shared<simt::Simt>(); }

}  // namespace culet

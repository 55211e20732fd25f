// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// Renders the kernel template for one problem: the embedded headers, a struct of constants, the
// epilogue and the entry points.
#include <fmt/format.h>

#include "backends/cpu_tile/tile_config.h"
#include "codegen/codegen.h"

namespace culet::cpu_tile {

namespace {

std::string_view type_name(DType dtype) { return dtype == DType::f32 ? "float" : "bf16"; }

/// The remainder of an exactly known size, in pieces of `tile`; -1 where the size may vary.
std::int64_t remainder(std::int64_t size, std::int64_t tile, bool exact) {
  return exact ? size % tile : -1;
}

std::string_view column_name(Columnwise columns) {
  switch (columns) {
    case Columnwise::direct:
      return "direct";
    case Columnwise::pack:
      return "pack";
    case Columnwise::through:
      return "through";
    case Columnwise::prepack:
      return "prepack";
  }
  return {};
}

std::string_view math_name(Math math) {
  return math == Math::f32 ? "f32" : math == Math::dot ? "dot" : "amx";
}

std::string constants(const Problem& problem, const TileConfig& c) {
  const bool exact_m = problem.m_range.low == problem.m_range.high;
  const std::int64_t tail_rows = remainder(c.swap ? problem.n : problem.m, c.mr, c.swap || exact_m);
  const std::int64_t tail_columns =
      remainder(c.swap ? problem.m : problem.n, c.nr, !c.swap || exact_m);
  std::string out = "struct Config {\n";
  out +=
      fmt::format("  typedef {} T;\n  typedef {} D;\n", type_name(problem.b), type_name(problem.d));
  out += fmt::format("  static constexpr Math math = Math::{};\n", math_name(c.math));
  out += fmt::format("  static constexpr int mr = {}, nr = {};\n", c.mr, c.nr);
  if (c.dot_products) {
    out += fmt::format("  static constexpr int tail_mr = {};\n", tail_rows);
  } else {
    out += "  static constexpr int nv = nr / kLanes;\n";
    out += fmt::format("  static constexpr int tail_mr = {}, tail_cols = {}, tail_nv = {};\n",
                       tail_rows, tail_columns,
                       tail_columns < 0 ? "-1" : "(tail_cols + kLanes - 1) / kLanes");
    out += fmt::format("  static constexpr bool whole_k = {};\n", c.blocking.kc == 0);
    out += fmt::format("  static constexpr bool b_columns = {}, swap = {}, copy_rows = {};\n",
                       is_tn(problem), c.swap, c.copy_rows);
    out += fmt::format("  static constexpr Columnwise columns = Columnwise::{};\n",
                       column_name(c.columns));
    out += fmt::format(
        "  static CULET_INLINE Blocking blocking(const Extent&) {{ return {{{}, {}, {}}}; }}\n",
        c.blocking.kc, c.blocking.mc, c.blocking.nc);
  }
  out += fmt::format("  static constexpr int unroll = {}, prefetch = {};\n}};\n", c.unroll,
                     c.prefetch);
  return out;
}

/// The value of epilogue operand `index` at (m, n), as float; empty where the dtype has no reader.
std::string operand_expression(const EpilogueOperand& operand, std::size_t index) {
  std::string type;
  switch (operand.dtype) {
    case DType::f32:
      type = "float";
      break;
    case DType::bf16:
      type = "bf16";
      break;
    case DType::f64:
      type = "double";
      break;
    case DType::s32:
      type = "int";
      break;
    case DType::s8:
      type = "signed char";
      break;
    case DType::u8:
      type = "unsigned char";
      break;
    default:
      return {};
  }
  std::string_view at;
  switch (operand.index) {
    case EpilogueIndex::scalar:
      at = "0";
      break;
    case EpilogueIndex::row:
      at = "m";
      break;
    case EpilogueIndex::column:
      at = "n";
      break;
    case EpilogueIndex::full:
      at = "m * ldd + n";
      break;
  }
  return fmt::format("to_f32(((const {}*)extra[{}])[{}])", type, index, at);
}

Result<std::string> epilogue(const Problem& problem) {
  if (problem.epilogue.is_identity()) return std::string("typedef Identity Epilogue;\n");
  std::vector<std::string> operands;
  for (const EpilogueOperand& operand : problem.epilogue.operands()) {
    operands.push_back(operand_expression(operand, operands.size()));
    if (operands.back().empty()) {
      return fail(
          ErrorCode::unsupported,
          fmt::format("cpu_tile reads no epilogue operands of type {}", to_string(operand.dtype)));
    }
  }
  return fmt::format(
      "struct Epilogue {{\n  static constexpr bool identity = false;\n"
      "  static CULET_INLINE float apply(float acc, const void* const* extra, i64 m, i64 n, i64 "
      "ldd) {{\n    (void)extra, (void)m, (void)n, (void)ldd;\n{}  }}\n}};\n",
      epilogue_statements(problem.epilogue, operands));
}

}  // namespace

Result<Source> source_of(const Problem& problem, const TileConfig& config) {
  auto rendered = epilogue(problem);
  if (!rendered) return tl::unexpected<Error>(rendered.error());
  const std::string_view run = config.dot_products ? "dot_gemm" : "tile_gemm";
  Source out;
  out.language = SourceLanguage::cpp;
  out.entry = kEntry;
  // A loop over the epilogue becomes vector code only if its selects may not trap.
  out.options = {"-fno-trapping-math", "-fno-math-errno", "-ffp-contract=fast"};
  if (config.math == Math::amx) out.text += "#define CULET_CPU_AMX 1\n";
  out.text += flatten(config.dot_products ? "cpu/dot.h" : "cpu/tile.h");
  if (!problem.epilogue.is_identity()) out.text += flatten("epilogue_math.h");
  out.text += "\nnamespace culet_cpu {\nnamespace CULET_CPU_LEVEL {\nnamespace {\n";
  out.text += constants(problem, config);
  out.text += *rendered;
  out.text += "}\n}\n}\n";
  out.text += fmt::format(
      "extern \"C\" void {}(const CuletHostKernelArgs* x) {{\n"
      "  using namespace culet_cpu::CULET_CPU_LEVEL;\n  {}<Config, Epilogue>(x);\n}}\n",
      kEntry, run);
  if (config.columns == Columnwise::prepack) {
    out.text += fmt::format(
        "extern \"C\" void {}(const CuletHostKernelArgs* x, void* packed) {{\n"
        "  using namespace culet_cpu::CULET_CPU_LEVEL;\n  tile_pack<Config>(x, packed);\n}}\n",
        kPackEntry);
  }
  return out;
}

}  // namespace culet::cpu_tile

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// The family `gemv`: a handful of rows of A (m = 1 .. 8, fixed at compile time) against B, straight
// from memory into registers (src/kernels/gemv.cuh). Its time is that of reading B.
#include <fmt/format.h>

#include "backends/backends.h"
#include "backends/gemm_family.h"
#include "backends/gemv/gemv_config.h"
#include "backends/k_major.h"
#include "codegen/cuda_epilogue.h"
#include "codegen/cuda_source.h"

namespace culet {
namespace gemv {
namespace {

constexpr const char* kEntry = "culet_gemv";

std::string refusal(const Problem& p) {
  if (p.is_empty()) return "nothing to compute: a size is 0";
  if (p.m_range.high > kMaxM) return fmt::format("m={}: at most {}", p.m_range.high, kMaxM);
  if (std::string bad = k_major::error(p, "a load"); !bad.empty()) return bad;
  const std::int64_t vector = 128 / bits(p.a);
  if (p.k % vector != 0)
    return fmt::format("k={}: it reads 16 bytes at once, {} elements", p.k, vector);
  return {};
}

ConfigStruct constants(const GemvConfig& c, const Problem& p) {
  ConfigStruct config;
  config.add("a", p.a).add("b", p.b).add("d", p.d).add("mma", c.mma).add("m", p.m_range.high);
  config.add("rows", std::int64_t{c.rows}).add("unroll", std::int64_t{c.unroll});
  config.add("warps", std::int64_t{c.warps}).add("k_warps", std::int64_t{c.k_warps});
  return config.add("cluster", std::int64_t{c.cluster}).add("constant_b", p.const_b);
}

std::string entry_point(const GemvConfig& c, const Problem& p, const DeviceSpec& device) {
  return fmt::format(
      "extern \"C\" __global__ void __launch_bounds__(GemvShape<Config>::kThreads, {})\n"
      "{}(const void* a, const void* b, void* d, i64 lda, i64 ldb, i64 ldd, i64 stride_a, i64 "
      "stride_b, i64 stride_d,\n"
      "    i32 m, i32 n, i32 k, i32 tiles{}) {{\n"
      "  const GemvArguments<{}> args{{a, b, d, lda, ldb, ldd, stride_a, stride_b, stride_d, m, "
      "n, k, tiles, {}}};\n"
      "  gemv_kernel<Config, Epilogue>(args);\n}}\n",
      occupancy(c, p, device), kEntry, cuda_epilogue_parameters(p.epilogue),
      p.epilogue.operands().size(), cuda_epilogue_pointers(p.epilogue));
}

LaunchSpec launch_of(const GemvConfig& c, const Problem& p) {
  const std::int64_t tiles = tiles_of(c, p);
  LaunchSpec spec;
  spec.grid[0] = tiles * p.batch * c.cluster;
  spec.block[0] = static_cast<std::uint32_t>(32 * c.warps);
  spec.cluster[0] = static_cast<std::uint32_t>(c.cluster);
  spec.pdl = true;
  spec.args = {LaunchArg::pointer(Operand::a), LaunchArg::pointer(Operand::b),
               LaunchArg::pointer(Operand::d)};
  for (const std::int64_t value : {p.lda, p.ldb, p.ldd, p.stride_a, p.stride_b, p.stride_d}) {
    spec.args.push_back(LaunchArg::i64(value));
  }
  spec.args.push_back(LaunchArg::i32(MValue::times_m(1)));
  for (const std::int64_t value : {p.n, p.k, tiles}) spec.args.push_back(LaunchArg::i32(value));
  add_epilogue_arguments(p.epilogue, &spec);
  return spec;
}

}  // namespace

class Gemv final : public GemmFamily<GemvConfig> {
 public:
  std::string_view name() const override { return "gemv"; }
  std::string version() const override { return "2"; }

 private:
  std::string why_not(const Problem& problem, const DeviceSpec&) const override {
    return refusal(problem);
  }
  std::string why_not(const GemvConfig& c, const Problem& problem,
                      const DeviceSpec& device) const override {
    return config_error(c, problem, device);
  }
  std::vector<GemvConfig> all(const Problem& problem, const DeviceSpec& device) const override {
    return space(problem, device);
  }
  std::optional<Features> features_of_valid(const GemvConfig& c, const Problem& problem,
                                            const DeviceSpec& device) const override {
    return features_of(c, problem, device);
  }
  Source source_of_valid(const GemvConfig& c, const Problem& problem,
                         const DeviceSpec& device) const override {
    return {SourceLanguage::cuda,
            cuda_translation_unit("gemv.cuh", constants(c, problem), problem.epilogue,
                                  entry_point(c, problem, device)),
            kEntry,
            {}};
  }
  LaunchSpec launch_of_valid(const GemvConfig& c, const Problem& problem,
                             const DeviceSpec&) const override {
    return launch_of(c, problem);
  }
};

}  // namespace gemv

std::shared_ptr<const Backend> make_gemv_backend() { return std::make_shared<gemv::Gemv>(); }

}  // namespace culet

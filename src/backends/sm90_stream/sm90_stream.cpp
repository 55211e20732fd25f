// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// The family `sm90_stream`: decode GEMMs on Hopper, m up to 128, whose time is that of reading B
// (src/kernels/sm90_stream.cuh).
#include <fmt/format.h>

#include <algorithm>

#include "backends/backends.h"
#include "backends/gemm_family.h"
#include "backends/k_major.h"
#include "backends/sm90_stream/stream_config.h"
#include "codegen/codegen.h"
#include "codegen/cuda_epilogue.h"
#include "codegen/cuda_source.h"

namespace culet {
namespace sm90_stream {
namespace {

constexpr const char* kEntry = "culet_stream";

std::string refusal(const Problem& p, const DeviceSpec& device) {
  if (device.architecture != "sm_90a") {
    return fmt::format("{} is {}: TMA + WGMMA kernels are for sm_90a", device.name,
                       device.architecture);
  }
  if (p.is_empty()) return "nothing to compute: a size is 0";
  if (p.k == 0) return "k=0: there is nothing to stream";
  if (p.m_range.high > kMaxM) return fmt::format("m={}: at most {}", p.m_range.high, kMaxM);
  return k_major::error(p, "TMA");
}

ConfigStruct constants(const StreamConfig& c, const Problem& p) {
  const StreamShape shape(c, p);
  ConfigStruct config;
  config.add("a", p.a).add("b", p.b).add("d", p.d);
  config.add("rows", std::int64_t{c.rows}).add("width", shape.width).add("wide_b", c.wide_b);
  config.add("boxes", std::int64_t{c.boxes}).add("stages", std::int64_t{c.stages});
  config.add("a_stages", std::int64_t{c.a_stages}).add("groups", std::int64_t{c.groups});
  config.add("cluster", std::int64_t{c.cluster}).add("share", std::int64_t{c.share});
  config.add("promote", shape.promote).add("d_vector", std::int64_t{k_major::store_vector(p)});
  return config.add("constant_b", p.const_b);
}

std::string entry_point(const StreamConfig& c, const Problem& p) {
  return fmt::format(
      "static_assert(StreamShape<Config>::kSharedBytes == {}, \"as the launch says\");\n"
      "extern \"C\" __global__ void __launch_bounds__(StreamShape<Config>::kThreads)\n"
      "{}(const __grid_constant__ TensorMap a, const __grid_constant__ TensorMap b, void* d, i64 "
      "ldd, i64 stride_d,\n"
      "    i32 m, i32 n, i32 k, i32 tiles, i32 a_batched, i32 b_batched, i32 a_bytes{}) {{\n"
      "  extern __shared__ __align__(1024) char shared[];\n"
      "  const StreamArguments<{}> args{{d, ldd, stride_d, m, n, k, tiles, a_batched, b_batched,\n"
      "      static_cast<u32>(a_bytes), {}}};\n"
      "  stream_kernel<Config, Epilogue>(&a, &b, args, shared);\n}}\n",
      StreamShape(c, p).shared_bytes(), kEntry, cuda_epilogue_parameters(p.epilogue),
      p.epilogue.operands().size(), cuda_epilogue_pointers(p.epilogue));
}

/// A [rows x k] operand contiguous in k, in boxes of 128 bytes of k, a third dimension for the
/// batch.
TensorMapSpec map_of(const Problem& p, Operand operand, MValue box_rows) {
  const bool is_a = operand == Operand::a;
  const DType dtype = is_a ? p.a : p.b;
  const std::int64_t ld = is_a ? p.lda : p.ldb;
  const std::int64_t stride = p.batch > 1 ? (is_a ? p.stride_a : p.stride_b) : 0;
  const std::int64_t size = bits(dtype) / 8;
  TensorMapSpec spec;
  spec.operand = operand;
  spec.dtype = dtype;
  spec.rank = 3;
  spec.dims[0] = p.k;
  spec.dims[1] = is_a ? MValue::times_m(1) : MValue(p.n);
  spec.dims[2] = stride == 0 ? 1 : p.batch;
  spec.strides_bytes[1] = ld * size;
  // Not used where there is one batch entry.
  spec.strides_bytes[2] = (stride == 0 ? ld : stride) * size;
  spec.box[0] = box_k(p);
  spec.box[1] = box_rows;
  return spec;
}

LaunchSpec launch_of(const StreamConfig& c, const Problem& p) {
  const StreamShape shape(c, p);
  const std::int64_t tiles = tiles_of(c, p);
  const bool a_batched = p.batch > 1 && p.stride_a != 0;
  const bool b_batched = p.batch > 1 && p.stride_b != 0;
  LaunchSpec spec;
  spec.grid[0] = tiles * p.batch * c.cluster;
  spec.block[0] = static_cast<std::uint32_t>(shape.threads());
  spec.cluster[0] = static_cast<std::uint32_t>(c.cluster * c.share);
  spec.shared_bytes = static_cast<std::uint32_t>(shape.shared_bytes());
  spec.pdl = true;
  // Rows behind the last one are not asked for: they take the copy engine longer than others, and
  // what stands in their place is never stored. A sharer's part may have none that exist.
  const std::int64_t row_bytes = std::int64_t{128} * c.boxes;
  const bool shared = c.share > 1;
  const MValue a_rows = shared ? shape.width / c.share : MValue::tiles_of_m(1, 1, shape.width);
  const MValue a_bytes =
      shared ? shape.width * row_bytes : MValue::tiles_of_m(1, row_bytes, shape.width * row_bytes);
  spec.args = {LaunchArg::tensor_map(map_of(p, Operand::a, a_rows)),
               LaunchArg::tensor_map(map_of(p, Operand::b, c.rows)),
               LaunchArg::pointer(Operand::d),
               LaunchArg::i64(p.ldd),
               LaunchArg::i64(p.stride_d),
               LaunchArg::i32(MValue::times_m(1))};
  for (const MValue& value :
       std::initializer_list<MValue>{p.n, p.k, tiles, a_batched, b_batched, a_bytes}) {
    spec.args.push_back(LaunchArg::i32(value));
  }
  add_epilogue_arguments(p.epilogue, &spec);
  return spec;
}

}  // namespace

class Sm90Stream final : public GemmFamily<StreamConfig> {
 public:
  std::string_view name() const override { return "sm90_stream"; }
  std::string version() const override { return "7"; }

 private:
  std::string why_not(const Problem& problem, const DeviceSpec& device) const override {
    return refusal(problem, device);
  }
  std::string why_not(const StreamConfig& c, const Problem& problem,
                      const DeviceSpec& device) const override {
    return config_error(c, problem, device);
  }
  std::vector<StreamConfig> all(const Problem& problem, const DeviceSpec& device) const override {
    return space(problem, device);
  }
  std::optional<Features> features_of_valid(const StreamConfig& c, const Problem& problem,
                                            const DeviceSpec& device) const override {
    return features_of(c, problem, device);
  }
  Source source_of_valid(const StreamConfig& c, const Problem& problem,
                         const DeviceSpec&) const override {
    Source source;
    source.entry = kEntry;
    // WGMMA's first operand is the one on the side of 64 rows.
    source.text = fmt::format("#define CULET_WGMMA_A {}\n#define CULET_WGMMA_B {}\n",
                              device_dtype_name(c.wide_b ? problem.b : problem.a),
                              device_dtype_name(c.wide_b ? problem.a : problem.b)) +
                  cuda_translation_unit("sm90_stream.cuh", constants(c, problem), problem.epilogue,
                                        entry_point(c, problem));
    return source;
  }
  LaunchSpec launch_of_valid(const StreamConfig& c, const Problem& problem,
                             const DeviceSpec&) const override {
    return launch_of(c, problem);
  }
};

}  // namespace sm90_stream

std::shared_ptr<const Backend> make_sm90_stream_backend() {
  return std::make_shared<sm90_stream::Sm90Stream>();
}

}  // namespace culet

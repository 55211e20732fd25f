// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// Backend of src/kernels/pointwise.cuh: the epilogue as a step of its own, after a GEMM that cannot
// fuse it. It computes no whole problem.
#include <fmt/format.h>

#include <algorithm>

#include "backends/backends.h"
#include "backends/known_keys.h"
#include "codegen/codegen.h"
#include "codegen/cuda_epilogue.h"

namespace culet {

namespace {

constexpr std::string_view kEntry = "culet_pointwise";
constexpr int kThreads = 256;

class Pointwise final : public KernelFamily {
 public:
  std::string_view name() const override { return "pointwise"; }
  std::string version() const override { return "1"; }
  DeviceKind device_kind() const override { return DeviceKind::cuda; }
  bool is_epilogue_step() const override { return true; }

  Support supports(const Problem&, const DeviceSpec&) const override {
    return Support::cannot("computes epilogue steps only");
  }

  std::vector<Config> configs(const Problem& problem, const DeviceSpec&) const override {
    // Accumulators are read 16 bytes at a time where their rows allow it.
    Config config;
    config.set("columns", problem.n % 4 == 0 && problem.a != DType::f64 ? 4 : 1);
    return {config};
  }

  std::optional<Features> features(const Problem& p, const Config& config,
                                   const DeviceSpec& device) const override {
    const double elements =
        static_cast<double>(p.m) * static_cast<double>(p.n) * static_cast<double>(p.batch);
    const auto columns =
        static_cast<double>(std::max<std::int64_t>(config.get_int("columns", 1), 1));
    Features f;
    f.tensor = false;
    f.math_dtype = DType::f32;
    // A function of a node is some ten instructions.
    f.math_ops = elements * 10 * static_cast<double>(p.epilogue.nodes().size());
    f.math_efficiency = 0.5;
    f.dram_bytes = elements * (bits(problem_of(p, Part::gemm).d) + bits(p.d)) / 8.0;
    for (const EpilogueOperand& operand : p.epilogue.operands()) {
      if (operand.index == EpilogueIndex::full)
        f.dram_bytes += elements * bits(operand.dtype) / 8.0;
    }
    f.l2_bytes = f.dram_bytes;
    f.tiles = elements / (columns * kThreads);
    f.slots = static_cast<double>(device.units) * device.max_threads_per_unit / kThreads;
    return f;
  }

  Result<Source> source(const Problem& p, const Step& step, const DeviceSpec&) const override {
    if (auto error = refuse(p, step); !error.empty()) return fail(ErrorCode::unsupported, error);
    Source source;
    source.entry = kEntry;
    source.text = cuda_kernel_text("pointwise.cuh", p.epilogue) + "\nnamespace culet::kernels {\n" +
                  fmt::format(
                      "struct Config {{\n"
                      "  static constexpr DType accumulator = DType::{}, d = DType::{};\n"
                      "  static constexpr int columns = {};\n"
                      "}};\n",
                      device_dtype_name(problem_of(p, Part::gemm).d), device_dtype_name(p.d),
                      step.config.get_int("columns", 1)) +
                  cuda_epilogue_struct(p.epilogue) +
                  fmt::format(
                      "extern \"C\" __global__ void __launch_bounds__({})\n"
                      "{}(const void* accumulators, void* d, i64 stride, i64 ldd, i64 stride_d,\n"
                      "   i32 m, i32 n, i32 batch{}) {{\n"
                      "  const PointwiseArguments<Epilogue::Operands::count> args = {{\n"
                      "      accumulators, d, stride, ldd, stride_d, m, n, batch, {}}};\n"
                      "  pointwise_kernel<Config, Epilogue>(args);\n"
                      "}}\n",
                      kThreads, kEntry, cuda_epilogue_parameters(p.epilogue),
                      cuda_epilogue_pointers(p.epilogue)) +
                  "}  // namespace culet::kernels\n";
    return source;
  }

  Result<LaunchSpec> launch(const Problem& p, const Step& step,
                            const DeviceSpec& device) const override {
    if (auto error = refuse(p, step); !error.empty()) return fail(ErrorCode::unsupported, error);
    const Problem gemm = problem_of(p, Part::gemm);
    LaunchSpec spec;
    spec.block[0] = kThreads;
    // Enough blocks to fill the device a few times over; each then takes several elements.
    const std::int64_t columns = step.config.get_int("columns", 1);
    const std::int64_t per_row = (p.n + columns - 1) / columns;
    const std::int64_t cap =
        std::max<std::int64_t>(std::int64_t{device.units} * device.max_threads_per_unit / kThreads,
                               1) *
        4;
    const std::int64_t blocks_a_row =
        std::max<std::int64_t>((per_row * p.batch + kThreads - 1) / kThreads, 1);
    spec.grid[0] = p.n * p.batch == 0 ? MValue(0) : MValue::tiles_of_m(1, blocks_a_row, cap);
    spec.args.push_back(LaunchArg::pointer(Operand::temporary));
    spec.args.push_back(LaunchArg::pointer(Operand::d));
    for (const std::int64_t value : {gemm.stride_d, p.ldd, p.stride_d}) {
      spec.args.push_back(LaunchArg::i64(value));
    }
    spec.args.push_back(LaunchArg::i32(MValue::times_m(1)));
    spec.args.push_back(LaunchArg::i32(p.n));
    spec.args.push_back(LaunchArg::i32(p.batch));
    add_epilogue_arguments(p.epilogue, &spec);
    return spec;
  }

 private:
  static std::string refuse(const Problem& p, const Step& step) {
    if (step.part != Part::epilogue) return "pointwise: computes epilogue steps only";
    const std::int64_t columns = step.config.get_int("columns", 1);
    const int sum_bytes = bits(problem_of(p, Part::gemm).d) / 8;
    if (columns != 1 && (columns < 1 || p.n % columns != 0 || columns * sum_bytes > 16)) {
      return fmt::format("pointwise: columns={}: must divide n={} and fit into 16 bytes", columns,
                         p.n);
    }
    const auto ok = check_keys("pointwise", step.config, Config().set("columns", columns));
    return ok ? std::string() : ok.error().message;
  }
};

}  // namespace

std::shared_ptr<const Backend> make_pointwise_backend() { return std::make_shared<Pointwise>(); }

}  // namespace culet

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// The CUDA twin of 03_user_family: a program's own kernel family as CUDA C++ source, which culet
// compiles for the exact GPU here, verifies and times next to its own kernels and cuBLASLt. Skips
// itself where there is no GPU.
#include <memory>
#include <string>

#include "common/example.h"

namespace {

// A square tile of D a block, through shared memory: the textbook kernel. kTile x kTile threads.
// Where elements stand in shared memory is a layout of culet's layout algebra: (row, column) of a
// tile, with a row one element longer than the tile, so that a column's elements meet no bank
// twice.
constexpr const char* kSource = R"(
#include "layout.cuh"
using namespace culet::kernels;

extern "C" __global__ void __launch_bounds__(kTile * kTile)
example_tile(const float* a, const float* b, float* d, long long m, long long n, long long k,
             long long lda, long long ldb, long long ldd) {
  constexpr Layout kShared = modes(leaf(kTile, kTile + 1), leaf(kTile, 1));
  __shared__ float tile_a[kShared.cosize()];
  __shared__ float tile_b[kShared.cosize()];
  const int x = threadIdx.x, y = threadIdx.y;
  const long long row = (long long)blockIdx.y * kTile + y;
  const long long column0 = (long long)blockIdx.x * kTile;
  float sum = 0;
  for (long long k0 = 0; k0 < k; k0 += kTile) {
    const bool in_k = k0 + x < k;
    tile_a[offset_of<kShared>(y, x)] = in_k && row < m ? a[row * lda + k0 + x] : 0.0f;
    tile_b[offset_of<kShared>(y, x)] = in_k && column0 + y < n ? b[(column0 + y) * ldb + k0 + x] : 0.0f;
    __syncthreads();
    for (int i = 0; i < kTile; ++i) {
      sum += tile_a[offset_of<kShared>(y, i)] * tile_b[offset_of<kShared>(x, i)];
    }
    __syncthreads();
  }
  if (row < m && column0 + x < n) d[row * ldd + column0 + x] = sum;
}
)";

class TileFamily : public culet::KernelFamily {
 public:
  std::string_view name() const override { return "example_tile"; }
  std::string version() const override { return "1"; }
  culet::DeviceKind device_kind() const override { return culet::DeviceKind::cuda; }

  culet::Support supports(const culet::Problem& problem, const culet::DeviceSpec&) const override {
    using culet::DType;
    using culet::Order;
    using culet::Support;
    if (problem.a != DType::f32 || problem.b != DType::f32 || problem.d != DType::f32) {
      return Support::cannot("f32 only");
    }
    if (problem.a_order != Order::row_major || problem.b_order != Order::col_major) {
      return Support::cannot("layout=tn only");
    }
    if (problem.batch != 1) return Support::cannot("no batches");
    return problem.epilogue.is_identity() ? Support::can() : Support::gemm_only();
  }

  std::vector<culet::Config> configs(const culet::Problem&,
                                     const culet::DeviceSpec&) const override {
    return {culet::Config().set("tile", 16), culet::Config().set("tile", 32)};
  }

  std::optional<culet::Features> features(const culet::Problem& problem,
                                          const culet::Config& config,
                                          const culet::DeviceSpec& device) const override {
    const std::int64_t tile = config.get_int("tile");
    const auto tiles = [tile](std::int64_t size) {
      return static_cast<double>((size + tile - 1) / tile);
    };
    culet::Features features;
    features.tiles = tiles(problem.m) * tiles(problem.n);
    features.slots =
        static_cast<double>(device.units) * (2048.0 / static_cast<double>(tile * tile));
    features.math_ops = 2.0 * features.tiles * static_cast<double>(tile * tile * problem.k);
    features.math_dtype = culet::DType::f32;
    features.tensor = false;
    features.math_efficiency = 0.25;  // two shared loads for each multiply-add
    features.dram_bytes = problem.compulsory_bytes();
    features.l2_bytes = features.tiles * 2.0 * static_cast<double>(tile * problem.k) * 4.0;
    features.shared_bytes = features.math_ops * 4.0;
    return features;
  }

  culet::Result<culet::Source> source(const culet::Problem&, const culet::Step& step,
                                      const culet::DeviceSpec&) const override {
    culet::Source source;
    source.language = culet::SourceLanguage::cuda;
    source.entry = "example_tile";
    source.text =
        "constexpr int kTile = " + std::to_string(step.config.get_int("tile")) + ";\n" + kSource;
    return source;
  }

  culet::Result<culet::LaunchSpec> launch(const culet::Problem& problem, const culet::Step& step,
                                          const culet::DeviceSpec&) const override {
    using culet::LaunchArg;
    using culet::MValue;
    using culet::Operand;
    const std::int64_t tile = step.config.get_int("tile");
    culet::LaunchSpec launch;
    launch.grid[0] = (problem.n + tile - 1) / tile;
    launch.grid[1] = MValue::tiles_of_m(tile, 1);
    launch.block[0] = launch.block[1] = static_cast<std::uint32_t>(tile);
    launch.args = {LaunchArg::pointer(Operand::a), LaunchArg::pointer(Operand::b),
                   LaunchArg::pointer(Operand::d), LaunchArg::i64(MValue::times_m(1)),
                   LaunchArg::i64(problem.n),      LaunchArg::i64(problem.k),
                   LaunchArg::i64(problem.lda),    LaunchArg::i64(problem.ldb),
                   LaunchArg::i64(problem.ldd)};
    return launch;
  }
};

}  // namespace

int main() {
  return example::tune_with_family(std::make_shared<TileFamily>(), "cuda", "65x1000x515:f32");
}

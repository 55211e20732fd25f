// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// The Hopper kernel's seams, proved by what is to come: other epilogues (a maximum over each row, a
// gated pair that halves n) and another scheduler (groups of rows with a B of their own) run
// through the same main loop.
#include <cmath>

#include "kernels_case.h"

namespace culet {
namespace {

using namespace test;  // NOLINT: the helpers of kernels_case.h

/// An edit of the generated half of a source.
struct Edit {
  std::string from, to;
};

/// The family's kernel with `code` before its entry point and the entry point edited.
Plan probe(const Problem& problem, const std::string& config, const std::string& code,
           const std::vector<Edit>& edits) {
  const auto& dense = dynamic_cast<const KernelFamily&>(family("sm90_dense"));
  BuiltStep built;
  built.step = {"sm90_dense", take(Config::parse(config)), Part::all};
  Source source = take(dense.source(problem, built.step, *gpu()));
  const std::size_t entry = source.text.rfind("extern \"C\"");
  EXPECT_NE(entry, std::string::npos);
  source.text.insert(entry, code);
  for (const Edit& edit : edits) {
    const std::size_t at = source.text.rfind(edit.from);
    EXPECT_NE(at, std::string::npos) << edit.from;
    if (at != std::string::npos) source.text.replace(at, edit.from.size(), edit.to);
  }
  built.artifact = take(compiler().compile(source, *gpu()));
  built.launch = take(dense.launch(problem, built.step, *gpu()));
  return take(Plan::load(problem, {{{built.step}}, {built}}, *gpu()));
}

const Edit with_seam(const std::string& name) {
  return {"dense_kernel<Config, Epilogue>", "dense_kernel<Config, Epilogue, " + name + ">"};
}

constexpr const char* kConfigs[] = {
    "tile=128x128x64 cluster=1x1 stages=4 schedule=cooperative raster=m group=70",
    "tile=64x96x64 cluster=2x1 stages=4 schedule=pingpong raster=m group=70",
    "tile=192x128x64 cluster=1x1 stages=4 schedule=cooperative raster=n group=70",
};

constexpr const char* kAbsmax = R"(
/// D as ever, and the largest magnitude of each row of sums, to the epilogue's first operand.
struct Absmax : TileEpilogue<StoredPart<Config>, Epilogue> {
  using Base = TileEpilogue<StoredPart<Config>, Epilogue>;
  const Output& output;
  u32* maxima;
  int thread;
  i32 m = 0;
  CULET_DEVICE Absmax(const Output& out, const OperandPointers<1>& operands, const TensorMap* d_map,
                      u32 buffers, int barrier, int thread_)
      : Base(out, operands, d_map, buffers, barrier, thread_),
        output(out),
        maxima(static_cast<u32*>(const_cast<void*>(operands.pointer[0]))),
        thread(thread_) {}
  CULET_DEVICE void begin(i32 m_, i32 n, i32 batch, i32 rows_end, u32 stages) {
    m = m_;
    Base::begin(m_, n, batch, rows_end, stages);
  }
  CULET_DEVICE void visit(int block, const float (&values)[Base::kRegisters]) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float most = 0;
#pragma unroll
      for (int i = 2 * half; i < Base::kRegisters; i += 4) {
        most = fmaxf(most, fmaxf(fabsf(values[i]), fabsf(values[i + 1])));
      }
      for (int lane = 1; lane < 4; lane *= 2) {
        most = fmaxf(most, __shfl_xor_sync(0xFFFFFFFF, most, lane));
      }
      const i32 row = m + 64 * block + fragment_row(thread, 2 * half);
      if (thread % 4 == 0 && row < output.m) atomicMax(maxima + row, __float_as_uint(most));
    }
    Base::visit(block, values);
  }
};
)";

TEST(Sm90DenseKernelSeams, RowwiseAbsmax) {
  CULET_NEEDS_HOPPER();
  // The operand stands for where the maxima go; its value, finite, changes nothing.
  GpuCase gemm("330x264x200:bf16:epi=\"acc + 0 * x[m]:f32\"");
  const Problem& p = gemm.host.problem;
  for (const char* config : kConfigs) {
    SCOPED_TRACE(config);
    const Plan plan = probe(p, config, kAbsmax, {with_seam("Absmax")});
    gemm.prepare(plan);
    auto maxima = take(cuda::DeviceBuffer::allocate(p.m * 4));
    ASSERT_TRUE(maxima.fill(0));
    Arguments arguments = gemm.arguments();
    const void* extra[] = {maxima.data()};
    arguments.extra = extra;
    ASSERT_TRUE(plan.run(arguments));
    ASSERT_TRUE(cuda::synchronize());
    gemm.compare();
    std::vector<float> got(static_cast<std::size_t>(p.m));
    ASSERT_TRUE(maxima.download(got.data(), p.m * 4));
    for (std::int64_t row = 0; row < p.m; ++row) {
      double most = 0;  // bf16 holds these sums exactly
      for (std::int64_t n = 0; n < p.n; ++n) {
        double sum = 0;
        for (std::int64_t k = 0; k < p.k; ++k) {
          sum += get(p.a, gemm.host.a.data(), row * p.lda + k) *
                 get(p.b, gemm.host.b.data(), n * p.ldb + k);
        }
        most = std::max(most, std::fabs(sum));
      }
      ASSERT_EQ(got[static_cast<std::size_t>(row)], most) << "row " << row;
    }
  }
}

constexpr const char* kGatedPair = R"(
/// Columns 2j and 2j + 1 of the sums are gate and value of column j of D, which is half as wide.
struct GatedPair {
  const Output& output;
  int thread;
  i32 m = 0, n = 0;
  CULET_DEVICE GatedPair(const Output& out, const OperandPointers<0>&, const TensorMap*, u32, int,
                         int thread_)
      : output(out), thread(thread_) {}
  CULET_DEVICE void begin(i32 m_, i32 n_, i32, i32, u32) {
    m = m_;
    n = n_;
  }
  CULET_DEVICE void visit(int block, const float (&values)[Config::tile_n / 2]) {
#pragma unroll
    for (int i = 0; i < Config::tile_n / 2; i += 2) {
      const i32 row = m + 64 * block + fragment_row(thread, i);
      const i32 column = n + fragment_column(thread, i);
      if (row >= output.m || column >= output.n) continue;
      const float gate = values[i], value = values[i + 1];
      store_element<Config::d>(output.d, row * output.ld + column / 2,
                               gate / (1 + expf(-gate)) * value);
    }
  }
  CULET_DEVICE void end() {}
};
)";

TEST(Sm90DenseKernelSeams, GatedPairHalvesN) {
  CULET_NEEDS_HOPPER();
  GpuCase gemm("330x264x200:bf16>f32");
  const Problem& p = gemm.host.problem;
  for (const char* config : kConfigs) {
    SCOPED_TRACE(config);
    const Plan plan = probe(p, config, kGatedPair, {with_seam("GatedPair")});
    auto d = take(cuda::DeviceBuffer::allocate(p.m * p.n * 4));
    ASSERT_TRUE(d.fill(0xff));
    gemm.prepare(plan);
    Arguments arguments = gemm.arguments();
    arguments.d = d.data();
    ASSERT_TRUE(plan.run(arguments));
    ASSERT_TRUE(cuda::synchronize());
    std::vector<float> got(static_cast<std::size_t>(p.m * p.n));
    ASSERT_TRUE(d.download(got.data(), p.m * p.n * 4));
    for (std::int64_t row = 0; row < p.m; ++row) {
      for (std::int64_t n = 0; n < p.n; ++n) {
        const float value = got[static_cast<std::size_t>(row * p.n + n)];
        if (n >= p.n / 2) {
          ASSERT_TRUE(std::isnan(value)) << "right half written at " << row << "," << n;
          continue;
        }
        const double gate = gemm.host.answer(0, row, 2 * n);
        const double want = gate / (1 + std::exp(-gate)) * gemm.host.answer(0, row, 2 * n + 1);
        ASSERT_NEAR(value, want, 1e-5 * (1 + std::fabs(want))) << row << "," << n;
      }
    }
  }
}

constexpr const char* kRaggedGrid = R"(
/// Rows 0 .. border-1 are multiplied by the first B, the others by the second: two groups whose
/// tiles start anew.
struct RaggedGrid {
  i32 tiles_n, k_tiles, border, m, tile_m;
  static constexpr i32 splits = 1;
  CULET_HD constexpr i32 first_tiles() const { return ceil_div(border, tile_m); }
  CULET_HD constexpr u32 pieces() const {
    return static_cast<u32>((first_tiles() + ceil_div(m - border, tile_m)) * tiles_n);
  }
};
CULET_HD constexpr Piece piece_at(const RaggedGrid& grid, u32 index) {
  Piece piece;
  const i32 tile = static_cast<i32>(index) / grid.tiles_n;
  const bool second = tile >= grid.first_tiles();
  piece.tile_m = second ? tile - grid.first_tiles() : tile;
  piece.tile_n = static_cast<i32>(index) % grid.tiles_n;
  piece.batch = second ? 1 : 0;
  piece.first_row = second ? grid.border : 0;
  piece.rows_end = second ? grid.m : grid.border;
  piece.k_count = grid.k_tiles;
  piece.tile = index;
  return piece;
}
)";

TEST(Sm90DenseKernelSeams, TwoGroupsOfRows) {
  CULET_NEEDS_HOPPER();
  // Two batch entries of B, one A; D of the first entry takes both groups' rows. The border, 70, is
  // not a multiple of any tile, and is passed as the raster's group. 70 columns of f32 are not
  // whole 16 bytes: stored directly, as groups need.
  GpuCase gemm("330x70x200x2:bf16>f32:stridea=0");
  const Problem& p = gemm.host.problem;
  constexpr std::int64_t kBorder = 70;
  const std::vector<Edit> edits = {
      {"{tiles_m, tiles_n, batch, splits, k_tiles, group, along_n != 0}",
       "{tiles_n, k_tiles, group, m, Config::tile_m * Config::cluster_m}"},
      {"DenseArguments<Epilogue::Operands::count> args",
       "DenseArguments<Epilogue::Operands::count, RaggedGrid> args"},
      {"{d, ldd, stride_d, m, n}", "{d, ldd, 0, m, n}"},
      // Tiles at the edge must not start in the other group.
      {"a_lines, b_lines,\n      a_batched", "0x7FFFFFFF, b_lines,\n      a_batched"}};
  for (const char* config : kConfigs) {
    SCOPED_TRACE(config);
    const Plan plan = probe(p, config, kRaggedGrid, edits);
    gemm.prepare(plan);
    auto d = take(cuda::DeviceBuffer::allocate(p.m * p.n * 4));
    ASSERT_TRUE(d.fill(0xff));
    Arguments arguments = gemm.arguments();
    arguments.d = d.data();
    ASSERT_TRUE(plan.run(arguments));
    ASSERT_TRUE(cuda::synchronize());
    std::vector<float> got(static_cast<std::size_t>(p.m * p.n));
    ASSERT_TRUE(d.download(got.data(), p.m * p.n * 4));
    for (std::int64_t row = 0; row < p.m; ++row) {
      for (std::int64_t n = 0; n < p.n; ++n) {
        ASSERT_EQ(got[static_cast<std::size_t>(row * p.n + n)],
                  gemm.host.answer(row < kBorder ? 0 : 1, row, n))
            << row << "," << n;
      }
    }
  }
}

}  // namespace
}  // namespace culet

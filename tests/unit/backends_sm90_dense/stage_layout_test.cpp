// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// Where an operand's tile stands in shared memory, told three times: by the formula that kernels
// use, by the boxes that the copy engine fills, and by the descriptors that WGMMA reads. All must
// agree for each element.
#include "kernels/stage_layout.cuh"

#include <gtest/gtest.h>

#include <map>

namespace culet::kernels {
namespace {

/// Bits of an address that the copy engine and WGMMA exchange, by the manual's drawings: the number
/// of a 16-byte chunk within the span is xor-ed with that of the 128-byte line.
u32 exchanged(u32 address, u32 span) {
  const u32 chunks = span / 16;
  return address ^ (address / 128 % chunks * 16);
}

/// Fields of a WGMMA descriptor.
struct Fields {
  u32 start, leading, stride, span;
  explicit Fields(u64 d)
      : start(static_cast<u32>(d & 0x3FFF) * 16),
        leading(static_cast<u32>(d >> 16 & 0x3FFF) * 16),
        stride(static_cast<u32>(d >> 32 & 0x3FFF) * 16),
        span(d >> 62 == 1   ? 128
             : d >> 62 == 2 ? 64
                            : 32) {
    EXPECT_EQ(d >> 49 & 7, 0U) << "atoms are aligned";
  }
};

/// Address of (line, k) of the operand of one instruction (PTX ISA, "Strides"): groups of eight
/// lines (k-major) or of eight k (across) are `stride` apart; across, chunks of a span of lines are
/// `leading` apart.
u32 wgmma_address(const Fields& f, bool across, int line, int k, int element) {
  const u32 l = static_cast<u32>(line), kk = static_cast<u32>(k), e = static_cast<u32>(element);
  if (!across) return exchanged(f.start + l / 8 * f.stride + l % 8 * 128 + kk * e, f.span);
  const u32 lines = f.span / e;
  return exchanged(
      f.start + l / lines * f.leading + kk / 8 * f.stride + kk % 8 * f.span + l % lines * e,
      f.span);
}

constexpr u32 kBase = 0x8000;  // of the tile in shared memory

template <DType Type, int Lines, bool Across>
void check_descriptor() {
  using Stage = StageLayout<Type, Lines, Across, 1>;
  constexpr int kInstructionK = 32 / Stage::kElement;
  // A is read 64 lines at a time, B all lines; a descriptor of all lines covers both.
  for (int step = 0; step < 4; ++step) {
    for (int block = 0; block < (Lines + 63) / 64; ++block) {
      const Fields f(descriptor_at(Stage::descriptor(kBase),
                                   Stage::kStepBytes * step + Stage::kBlockBytes * block));
      for (int line = 64 * block; line < Lines; ++line) {
        for (int k = 0; k < kInstructionK; ++k) {
          // Narrower chunks are not blocks of 64 lines; only B has them, which is read from its
          // first line on.
          if (Across && Stage::kSpan == 64 && block > 0) continue;
          ASSERT_EQ(wgmma_address(f, Across, line - 64 * block, k, Stage::kElement),
                    kBase + Stage::offset(line, step * kInstructionK + k))
              << "lines " << Lines << " line " << line << " k " << k << " step " << step;
        }
      }
    }
  }
}

TEST(StageLayout, DescriptorsFindEveryElement) {
  check_descriptor<DType::bf16, 64, false>();
  check_descriptor<DType::bf16, 168, false>();
  check_descriptor<DType::e4m3, 128, false>();
  check_descriptor<DType::s8, 208, false>();
  check_descriptor<DType::bf16, 64, true>();
  check_descriptor<DType::f16, 256, true>();
  check_descriptor<DType::bf16, 32, true>();
  check_descriptor<DType::bf16, 96, true>();
  check_descriptor<DType::bf16, 160, true>();
}

/// What the boxes of one sharer after the other write, as sm90_dense.cuh asks for them: address ->
/// element. The copy engine lays a box out row by row, a row being `span` bytes here, exchanged.
template <class Stage, bool Across>
std::map<u32, std::pair<int, int>> boxes(int sharers) {
  std::map<u32, std::pair<int, int>> written;
  constexpr u32 kSpan = Across ? Stage::kSpan : 128;
  for (int rank = 0; rank < sharers; ++rank) {
    for (int chunk = 0; chunk < Stage::kChunks; ++chunk) {
      const u32 place = kBase + Stage::share_bytes(rank) + chunk * Stage::kChunkBytes;
      EXPECT_EQ(place % (8 * kSpan), 0U) << "the swizzle counts lines of absolute addresses";
      const int line = chunk * Stage::kChunkLines + Stage::share_line(rank);
      const int k = Stage::share_k(rank);
      const int rows = Across ? Stage::kShareK : Stage::kShareLines;
      for (int y = 0; y < rows; ++y) {
        for (int x = 0; x < static_cast<int>(kSpan) / Stage::kElement; ++x) {
          const u32 at = exchanged(place + y * kSpan + x * Stage::kElement, kSpan);
          const auto element = Across ? std::pair(line + x, k + y) : std::pair(line + y, k + x);
          // Where shares overlap, both write the same.
          EXPECT_EQ(written.emplace(at, element).first->second, element);
        }
      }
    }
  }
  return written;
}

template <DType Type, int Lines, bool Across, int Sharers>
void check_boxes() {
  using Stage = StageLayout<Type, Lines, Across, Sharers>;
  const auto written = boxes<Stage, Across>(Sharers);
  ASSERT_EQ(written.size(), static_cast<std::size_t>(Lines * Stage::kK));
  for (int line = 0; line < Lines; ++line) {
    for (int k = 0; k < Stage::kK; ++k) {
      const auto at = written.find(kBase + Stage::offset(line, k));
      ASSERT_NE(at, written.end()) << line << "," << k;
      ASSERT_EQ(at->second, std::pair(line, k));
    }
  }
}

TEST(StageLayout, BoxesFillTheTileOnce) {
  check_boxes<DType::bf16, 128, false, 1>();
  check_boxes<DType::bf16, 176, false, 2>();
  check_boxes<DType::e4m3, 192, false, 4>();
  check_boxes<DType::bf16, 168, false, 2>();
  check_boxes<DType::bf16, 168, false, 4>();
  check_boxes<DType::bf16, 40, false, 4>();
  check_boxes<DType::bf16, 128, true, 1>();
  check_boxes<DType::bf16, 256, true, 2>();
  check_boxes<DType::f16, 64, true, 4>();
  check_boxes<DType::bf16, 96, true, 1>();
  check_boxes<DType::bf16, 160, true, 2>();
  check_boxes<DType::bf16, 32, true, 4>();
}

}  // namespace
}  // namespace culet::kernels

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// How tiles of A and B reach shared memory in the general tensor-core kernel, each operand in the
// way its own alignment and order allow:
//   AsyncLoader      pieces of 4, 8 or 16 bytes by cp.async; all lines start at multiples of that
//   ShiftLoader      lines start anywhere: aligned words through registers, shifted into place
//   TransposeLoader  bytes that are not contiguous in k, through registers, any alignment
// All have load(), which starts reading the tile that is next in k, and store(), which finishes
// what goes through registers and is called once the reads had time to arrive. Elements beyond the
// operand are zero and not read.
#pragma once
#include "mma_layout.cuh"
#include "mma_ptx.cuh"

namespace culet::kernels {

/// Where an operand is. `line`: the tile's first; `k`: the piece of work's first.
struct MmaSource {
  const void* base;  ///< of this batch entry
  i64 ld;            ///< elements between lines (contiguous in k), or between k
  i32 line, lines;
  i32 k;
};

/// How many of the `wanted` bytes from `first` on are before `limit`, the bytes there are.
CULET_DEVICE u32 bytes_left(i64 limit, i32 wanted) {
  return static_cast<u32>(limit < 0 ? 0 : limit < wanted ? limit : wanted);
}

template <class Tile, int Bytes, int Threads>
class AsyncLoader {
  using Pieces = MmaPieces<Tile, Bytes, Threads>;
  static constexpr bool kKFast = Tile::kKFast;

 public:
  CULET_DEVICE explicit AsyncLoader(const MmaSource& source) {
    const int thread = static_cast<int>(threadIdx.x);
    const i64 ld = source.ld * Tile::kSize;
    // Lines (of a k-fast tile) that exist behind this thread's first row, or bytes of a row of
    // lines behind its place.
    const i64 line = kKFast ? source.line + Pieces::row(thread, 0)
                            : source.line + Pieces::panel(thread, 0) * Tile::kPanel;
    const i64 k = source.k + (kKFast ? 0 : Pieces::k(thread, 0));
    from_ = static_cast<const u8*>(source.base) + Pieces::byte(thread) +
            (kKFast ? line * ld + k * Tile::kSize : k * ld + line * Tile::kSize);
    lines_ = source.lines - static_cast<i32>(line);
    whole_ = source.lines - source.line >= Tile::kLines;
    ld_ = ld;
    to_ = Pieces::offset(thread, 0);
  }

  /// `k_left`: elements of k from the tile on.
  CULET_DEVICE void load(u32 shared, i32 k_left) {
    if (whole_ && k_left >= Tile::kTileK) {
      copy<true>(shared, k_left);
    } else {
      copy<false>(shared, k_left);
    }
    from_ += kKFast ? i64{Tile::kTileK * Tile::kSize} : Tile::kTileK * ld_;
  }
  CULET_DEVICE void store(u32) const {}

 private:
  template <bool Whole>
  CULET_DEVICE void copy(u32 shared, i32 k_left) const {
    const int thread = static_cast<int>(threadIdx.x);
    const u8* from = from_;
#pragma unroll
    for (int i = 0; i < Pieces::kCount; from += Pieces::step(i, ld_), ++i) {
      if (!Pieces::kExact && Pieces::row(thread, i) >= Tile::kRows) continue;
      const u32 to = shared + (to_ ^ Tile::offset(i * Pieces::kRowStep, 0));
      if constexpr (Whole) {
        copy_async<Bytes>(to, from);
      } else {
        const u32 valid = valid_bytes(i, k_left);
        copy_async<Bytes>(to, valid > 0 ? from : from_, valid);
      }
    }
  }
  CULET_DEVICE u32 valid_bytes(int i, i32 k_left) const {
    const int thread = static_cast<int>(threadIdx.x);
    const int byte = Pieces::byte(thread);
    if constexpr (kKFast) {
      if (i * Pieces::kRowStep >= lines_) return 0;
      return bytes_left(i64{k_left} * Tile::kSize - byte, Bytes);
    } else {
      if (Pieces::k(thread, i) >= k_left) return 0;
      const i64 lines = lines_ - i * Pieces::kRowStep / Tile::kTileK * Tile::kPanel;
      return bytes_left(lines * Tile::kSize - byte, Bytes);
    }
  }

  const u8* from_;
  i64 ld_;  ///< bytes
  i32 lines_;
  bool whole_;
  u32 to_;
};

/// Four bytes from any address as the two aligned words they lie in; from an aligned one as itself.
template <bool Aligned = false>
struct ShiftedWord {
  u32 low, high;

  /// `bits`: 8 times the address's distance from a multiple of 4.
  CULET_DEVICE u32 value(u32 bits) const {
    return Aligned ? low : __funnelshift_r(low, high, bits);
  }

  /// The first `valid` bytes from `from` on, the others zero. Of what the words hold beside them,
  /// `before` says whether it may be read in front, and `behind` how many bytes from `from` on.
  template <int Size>
  CULET_DEVICE void load(const u8* from, u32 valid, bool before, i64 behind) {
    const u32 shift = Aligned ? 0 : static_cast<u32>(reinterpret_cast<u64>(from)) & 3;
    low = 0;
    high = 0;
    if (Aligned ? behind >= 4 : before && behind >= 8) {
      const u32* words = reinterpret_cast<const u32*>(from - shift);
      low = words[0];
      if (shift != 0) high = words[1];
    } else {
      u32 word = 0;
#pragma unroll
      for (u32 byte = 0; byte < 4; byte += Size) {
        if (byte >= valid) continue;
        const u32 element = Size == 1 ? from[byte] : *reinterpret_cast<const u16*>(from + byte);
        word |= element << (8 * byte);
      }
      low = word << (8 * shift);
      if (!Aligned) high = __funnelshift_l(word, 0, 8 * shift);
    }
  }
};

template <class Tile, int Threads>
class ShiftLoader {
  using Pieces = MmaPieces<Tile, 4, Threads>;
  static constexpr bool kKFast = Tile::kKFast;

 public:
  CULET_DEVICE explicit ShiftLoader(const MmaSource& source) {
    const int thread = static_cast<int>(threadIdx.x);
    const i64 ld = source.ld * Tile::kSize;
    const i64 line = kKFast ? source.line + Pieces::row(thread, 0)
                            : source.line + Pieces::panel(thread, 0) * Tile::kPanel;
    const i64 k = source.k + (kKFast ? 0 : Pieces::k(thread, 0));
    from_ = static_cast<const u8*>(source.base) + Pieces::byte(thread) +
            (kKFast ? line * ld + k * Tile::kSize : k * ld + line * Tile::kSize);
    lines_ = source.lines - static_cast<i32>(line);
    // In front of a row's first piece there may be nothing that one may read.
    before_ = (kKFast ? source.k : static_cast<i32>(line)) > 0 || Pieces::byte(thread) > 0;
    ld_ = ld;
    to_ = Pieces::offset(thread, 0);
  }

  CULET_DEVICE void load(u32, i32 k_left) {
    const int thread = static_cast<int>(threadIdx.x);
    const int byte = Pieces::byte(thread);
    const u8* from = from_;
#pragma unroll
    for (int i = 0; i < Pieces::kCount; from += Pieces::step(i, ld_), ++i) {
      if (!Pieces::kExact && Pieces::row(thread, i) >= Tile::kRows) continue;
      i64 left;
      bool before = before_;
      if constexpr (kKFast) {
        left = i * Pieces::kRowStep < lines_ ? i64{k_left} * Tile::kSize - byte : 0;
      } else {
        const i32 panel = i * Pieces::kRowStep / Tile::kTileK;
        const i64 lines = lines_ - panel * Tile::kPanel;
        left = Pieces::k(thread, i) < k_left ? lines * Tile::kSize - byte : 0;
        before = before || panel > 0;
      }
      words_[i].template load<Tile::kSize>(from, bytes_left(left, 4), before, left);
    }
    from_ += kKFast ? i64{Tile::kTileK * Tile::kSize} : Tile::kTileK * ld_;
    if constexpr (kKFast) before_ = true;
  }

  CULET_DEVICE void store(u32 shared) const {
    const int thread = static_cast<int>(threadIdx.x);
    u32 from = static_cast<u32>(reinterpret_cast<u64>(from_));
#pragma unroll
    for (int i = 0; i < Pieces::kCount; from += static_cast<u32>(Pieces::step(i, ld_)), ++i) {
      if (!Pieces::kExact && Pieces::row(thread, i) >= Tile::kRows) continue;
      // A tile of k is a multiple of 4 bytes away from the next, whatever ld is.
      const u32 bits = (from & 3) * 8;
      store_shared(shared + (to_ ^ Tile::offset(i * Pieces::kRowStep, 0)), words_[i].value(bits));
    }
  }

 private:
  ShiftedWord<> words_[Pieces::kCount];
  const u8* from_;
  i64 ld_;  ///< bytes
  i32 lines_;
  bool before_;
  u32 to_;
};

template <class Tile, bool Aligned, int Threads>
class TransposeLoader {
  using Units = MmaUnits<Tile, Threads>;

 public:
  CULET_DEVICE explicit TransposeLoader(const MmaSource& source)
      : from_(static_cast<const u8*>(source.base) + source.k * source.ld + source.line),
        ld_(source.ld),
        line_(source.line),
        lines_(source.lines - source.line) {}

  CULET_DEVICE void load(u32, i32 k_left) {
#pragma unroll
    for (int i = 0; i < Units::kCount; ++i) {
      const int unit = Units::unit(static_cast<int>(threadIdx.x), i);
      if (!Units::kExact && unit >= Units::kUnits) continue;
      const int line = Units::line(unit), k = Units::k(unit);
      const u8* from = from_ + k * ld_ + line;
#pragma unroll
      for (int q = 0; q < 4; ++q, from += ld_) {
        const i64 left = k + q < k_left ? lines_ - line : 0;
        words_[i][q].template load<1>(from, bytes_left(left, 4), line_ + line > 0, left);
      }
    }
    from_ += Tile::kTileK * ld_;
  }

  CULET_DEVICE void store(u32 shared) const {
#pragma unroll
    for (int i = 0; i < Units::kCount; ++i) {
      const int unit = Units::unit(static_cast<int>(threadIdx.x), i);
      if (!Units::kExact && unit >= Units::kUnits) continue;
      const int line = Units::line(unit), k = Units::k(unit);
      // A tile of k is a multiple of 32 rows, and so of 4 bytes, away from the next.
      const u32 ld = static_cast<u32>(ld_);
      u32 from = static_cast<u32>(reinterpret_cast<u64>(from_)) + static_cast<u32>(k) * ld +
                 static_cast<u32>(line);
      u32 x[4];
#pragma unroll
      for (int q = 0; q < 4; ++q, from += ld) x[q] = words_[i][q].value((from & 3) * 8);
      transpose_bytes(x);
#pragma unroll
      for (int j = 0; j < 4; ++j) store_shared(shared + Tile::element(line + j, k), x[j]);
    }
  }

 private:
  ShiftedWord<Aligned> words_[Units::kCount][4];
  const u8* from_;
  i64 ld_;
  i32 line_, lines_;
};

}  // namespace culet::kernels

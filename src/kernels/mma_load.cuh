// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// How tiles of A and B reach shared memory in the general tensor-core kernel, each operand in the
// way its own alignment and order allow:
//   AsyncLoader      pieces of 4, 8 or 16 bytes by cp.async; all lines start at multiples of that
//   ShiftLoader      lines start anywhere: aligned 16 bytes through registers, shifted into place
//   TransposeLoader  bytes that are not contiguous in k, through registers, any alignment
// All have load(), which starts reading the tile that is next in k, and store(), which finishes
// what goes through registers and is called once the reads had time to arrive. k beyond the operand
// is zero; lines beyond it are zero or anything: they only make elements of D that do not exist.
// Nothing outside an operand is read.
#pragma once
#include "mma_layout.cuh"
#include "mma_ptx.cuh"

namespace culet::kernels {

/// Where an operand is. `line`: the tile's first; `k`: the piece of work's first.
struct MmaSource {
  const void* base;  ///< of this batch entry
  i64 ld;            ///< elements between lines (contiguous in k), or between k
  i32 line, lines;
  i32 k, k_end;
};

/// How many of the `wanted` bytes from some place on are among the `left` that there are.
CULET_DEVICE u32 bytes_left(i32 left, i32 wanted) {
  return static_cast<u32>(left < 0 ? 0 : left < wanted ? left : wanted);
}

/// Of a tile's k, which are all there?
enum class KRange {
  inside,  ///< and so are 32 bytes on either side: reading a little beyond a row is no harm
  edge,
};

/// A thread's pieces of an operand's tiles: where they are in memory and in shared memory.
template <class Tile, int Bytes, int Threads>
class PieceWalk {
 public:
  using Pieces = MmaPieces<Tile, Bytes, Threads>;
  static constexpr bool kKFast = Tile::kKFast;

  CULET_DEVICE explicit PieceWalk(const MmaSource& source) {
    const int thread = static_cast<int>(threadIdx.x);
    ld_ = source.ld * Tile::kSize;
    const i64 line = kKFast ? source.line + Pieces::row(thread, 0)
                            : source.line + Pieces::panel(thread, 0) * Tile::kPanel;
    const i64 k = source.k + (kKFast ? 0 : Pieces::k(thread, 0));
    from_ = static_cast<const u8*>(source.base) + Pieces::byte(thread) +
            (kKFast ? line * ld_ + k * Tile::kSize : k * ld_ + line * Tile::kSize);
    lines_ = smaller(source.lines - source.line, Tile::kLines);
    begun_ = source.k > 0;
    to_ = Pieces::offset(thread, 0);
  }

  CULET_DEVICE KRange k_range(i32 k_left) const {
    return begun_ && k_left >= Tile::kTileK + 32 / Tile::kSize ? KRange::inside : KRange::edge;
  }
  /// All lines of the tile are there.
  CULET_DEVICE bool whole() const { return lines_ == Tile::kLines; }
  CULET_DEVICE const u8* first() const { return from_; }
  /// From piece i to the next one. Hidden from the compiler, which would keep every piece's
  /// distance in registers.
  CULET_DEVICE const u8* next(const u8* from, int i) const {
    from += Pieces::step(i, ld_);
    asm volatile("" : "+l"(from));
    return from;
  }
  /// Where pieces go: the first one's place, and from it that of piece i. Hidden likewise.
  CULET_DEVICE u32 first_place() const {
    u32 place = to_;
    asm volatile("" : "+r"(place));
    return place;
  }
  static CULET_DEVICE u32 place(u32 first, int i) {
    return first ^ Tile::offset(i * Pieces::kRowStep, 0);
  }
  static CULET_DEVICE bool has(int i) {
    return Pieces::kExact || Pieces::row(static_cast<int>(threadIdx.x), i) < Tile::kRows;
  }
  /// What a tile at the operand's edge is cut by. Made anew for each such tile, hidden from the
  /// compiler: what follows from it would fill registers that most tiles have no use for.
  struct Edge {
    int thread;
    i32 lines, k_left;
  };
  CULET_DEVICE Edge edge(i32 k_left) const {
    int thread;
    asm volatile("mov.u32 %0, %%tid.x;" : "=r"(thread));
    return {thread, lines_, k_left};
  }
  /// Bytes of the operand from piece i on in its row.
  static CULET_DEVICE i32 left(const Edge& edge, int i) {
    const int byte = Pieces::byte(edge.thread);
    if constexpr (kKFast) {
      if (Pieces::row(edge.thread, i) >= edge.lines) return 0;
      return smaller(edge.k_left, Tile::kTileK) * Tile::kSize - byte;
    } else {
      if (Pieces::k(edge.thread, i) >= edge.k_left) return 0;
      return (edge.lines - Pieces::panel(edge.thread, i) * Tile::kPanel) * Tile::kSize - byte;
    }
  }
  CULET_DEVICE void advance() {
    from_ += kKFast ? i64{Tile::kTileK * Tile::kSize} : Tile::kTileK * ld_;
    begun_ = true;
  }
  /// first() before the last advance().
  CULET_DEVICE const u8* first_before() const {
    return from_ - (kKFast ? i64{Tile::kTileK * Tile::kSize} : Tile::kTileK * ld_);
  }

 private:
  const u8* from_;
  i64 ld_;     ///< bytes
  i32 lines_;  ///< of the tile
  bool begun_;
  u32 to_;
};

template <class Tile, int Bytes, int Threads>
class AsyncLoader {
  using Walk = PieceWalk<Tile, Bytes, Threads>;

 public:
  CULET_DEVICE explicit AsyncLoader(const MmaSource& source) : walk_(source) {}

  /// `k_left`: elements of k from the tile on.
  CULET_DEVICE void load(u32 shared, i32 k_left) {
    if (walk_.whole() && k_left >= Tile::kTileK) {
      copy(shared);
    } else {
      copy_edge(shared, k_left);
    }
    walk_.advance();
  }
  CULET_DEVICE void store(u32) const {}

 private:
  CULET_DEVICE void copy(u32 shared) const {
    const u8* from = walk_.first();
    const u32 to = walk_.first_place();
#pragma unroll
    for (int i = 0; i < Walk::Pieces::kCount; from = walk_.next(from, i), ++i) {
      if (Walk::has(i)) copy_async<Bytes>(shared + Walk::place(to, i), from);
    }
  }
  /// A loop, because it takes fewer registers, and because both ways would be merged without it.
  CULET_DEVICE void copy_edge(u32 shared, i32 k_left) const {
    const u8* from = walk_.first();
    const auto edge = walk_.edge(k_left);
#pragma unroll 1
    for (int i = 0; i < Walk::Pieces::kCount; from = walk_.next(from, i), ++i) {
      if (!Walk::has(i)) continue;
      copy_async<Bytes>(shared + Walk::place(walk_.first_place(), i), from,
                        bytes_left(Walk::left(edge, i), Bytes));
    }
  }

  Walk walk_;
};

/// The first `valid` bytes, at most four, from any address on; the others are zero.
template <int Size>
CULET_DEVICE u32 load_elements(const u8* from, u32 valid) {
  u32 word = 0;
#pragma unroll
  for (u32 byte = 0; byte < 4; byte += Size) {
    if (byte < valid) word |= load_global<Size>(from + byte) << (8 * byte);
  }
  return word;
}

/// Where an operand's elements are: those of one batch entry.
struct Extent {
  const u8 *begin, *end;
};
template <int Size>
CULET_DEVICE Extent extent_of(const void* base, i64 rows, i64 length, i64 ld) {
  const u8* begin = static_cast<const u8*>(base);
  return {begin, begin + ((rows - 1) * ld + length) * Size};
}

/// Pieces of 16 bytes that start anywhere: the two aligned 16 bytes that one lies in are read (the
/// second is a neighbour's first and comes from L1) and shifted.
template <class Tile, int Threads>
class ShiftLoader {
  using Walk = PieceWalk<Tile, 16, Threads>;
  using Pieces = typename Walk::Pieces;
  using Edge = typename Walk::Edge;
  /// So all of a thread's pieces are equally far from a multiple of 16 bytes, whatever ld is.
  static_assert(Pieces::kRowStep % 16 == 0 && Tile::kTileK % 16 == 0);

 public:
  CULET_DEVICE explicit ShiftLoader(const MmaSource& source) : walk_(source) {
    shift_ = static_cast<u32>(reinterpret_cast<u64>(walk_.first())) & 15;
    const i32 rows = Tile::kKFast ? source.lines : source.k_end;
    const i32 length = Tile::kKFast ? source.k_end : source.lines;
    extent_ = extent_of<Tile::kSize>(source.base, rows, length, source.ld);
  }

  CULET_DEVICE void load(u32, i32 k_left) {
    k_left_ = k_left;
    edge_ = walk_.k_range(k_left) == KRange::edge;
    const Edge edge = walk_.edge(k_left);
    const u8* from = walk_.first() - shift_;
#pragma unroll
    for (int i = 0; i < Pieces::kCount; from = walk_.next(from, i), ++i) {
      if (!Walk::has(i)) continue;
      const u32 valid = bytes_left(Walk::left(edge, i), 16);
      if (valid == 0 || (edge_ && !can_read(valid, from))) continue;
      load_global(from, low_[i]);
      if (shift_ + (edge_ ? valid : 16) > 16) load_global(from + 16, high_[i]);
    }
    walk_.advance();
  }

  CULET_DEVICE void store(u32 shared) const {
    const u32 to = walk_.first_place();
    const Edge edge = walk_.edge(k_left_);
#pragma unroll
    for (int i = 0; i < Pieces::kCount; ++i) {
      if (!Walk::has(i)) continue;
      u32 x[4];
      shift_bytes(low_[i], high_[i], shift_, x);
      if (edge_) keep_bytes(bytes_left(Walk::left(edge, i), 16), x);
      store_shared(shared + Walk::place(to, i), x);
    }
    if (edge_) store_corners(shared, edge);
  }

 private:
  /// Whether what `valid` bytes need lies in the operand, `from` the first aligned byte.
  CULET_DEVICE bool can_read(u32 valid, const u8* from) const {
    return from >= extent_.begin && from + (shift_ + valid > 16 ? 32 : 16) <= extent_.end;
  }
  /// The pieces that load() could not read, element by element: those at the operand's very ends.
  CULET_DEVICE void store_corners(u32 shared, const Edge& edge) const {
    const u8* from = walk_.first_before();
#pragma unroll 1
    for (int i = 0; i < Pieces::kCount; from = walk_.next(from, i), ++i) {
      const u32 valid = bytes_left(Walk::left(edge, i), 16);
      if (!Walk::has(i) || valid == 0 || can_read(valid, from - shift_)) continue;
#pragma unroll 1
      for (u32 byte = 0; byte < valid; byte += Tile::kSize) {
        store_shared_element<Tile::kSize>(shared + Walk::place(walk_.first_place(), i) + byte,
                                          load_global<Tile::kSize>(from + byte));
      }
    }
  }

  u32 low_[Pieces::kCount][4], high_[Pieces::kCount][4];
  Walk walk_;
  Extent extent_;
  u32 shift_;
  i32 k_left_;
  bool edge_;
};

template <class Tile, bool Aligned, int Threads>
class TransposeLoader {
  using Units = MmaUnits<Tile, Threads>;

 public:
  CULET_DEVICE explicit TransposeLoader(const MmaSource& source)
      : from_(static_cast<const u8*>(source.base) + source.k * source.ld + source.line),
        ld_(source.ld),
        lines_(smaller(source.lines - source.line, Tile::kLines)),
        begun_(source.k > 0) {}

  CULET_DEVICE void load(u32, i32 k_left) {
    if (begun_ && k_left >= Tile::kTileK + 8) {
      load_words();
    } else {
      load_edge(k_left);
    }
    from_ += Tile::kTileK * ld_;
    begun_ = true;
  }

  CULET_DEVICE void store(u32 shared) const {
#pragma unroll
    for (int i = 0; i < Units::kCount; ++i) {
      const int unit = Units::unit(static_cast<int>(threadIdx.x), i);
      if (!Units::kExact && unit >= Units::kUnits) continue;
      const int line = Units::line(unit), k = Units::k(unit);
      u32 x[4];
#pragma unroll
      for (int q = 0; q < 4; ++q) {
        x[q] = Aligned ? low_[i][q] : __funnelshift_r(low_[i][q], high_[i][q], 8 * shift(unit, q));
      }
      transpose_bytes(x);
#pragma unroll
      for (int j = 0; j < 4; ++j) store_shared(shared + Tile::element(line + j, k), x[j]);
    }
  }

 private:
  /// How far row q of a unit starts from a multiple of four bytes. A tile of k is a multiple of 32
  /// rows, so the next one is as far.
  CULET_DEVICE u32 shift(int unit, int q) const {
    return (static_cast<u32>(reinterpret_cast<u64>(from_)) +
            static_cast<u32>(Units::k(unit) + q) * static_cast<u32>(ld_)) &
           3;
  }
  CULET_DEVICE void load_words() {
#pragma unroll
    for (int i = 0; i < Units::kCount; ++i) {
      const int unit = Units::unit(static_cast<int>(threadIdx.x), i);
      if (!Units::kExact && unit >= Units::kUnits) continue;
      // Lines that do not exist are read as the tile's first ones.
      const int line = Units::line(unit) < lines_ ? Units::line(unit) : 0;
      const u8* from = from_ + Units::k(unit) * ld_ + line;
#pragma unroll
      for (int q = 0; q < 4; ++q, from += ld_) {
        if constexpr (Aligned) {
          low_[i][q] = load_global<4>(from);
        } else {
          const u64 address = reinterpret_cast<u64>(from);
          const auto* word = reinterpret_cast<const u8*>(address & ~u64{3});
          low_[i][q] = load_global<4>(word);
          high_[i][q] = load_global<4>(word + 4);
        }
      }
    }
  }
  CULET_DEVICE void load_edge(i32 k_left) {
#pragma unroll
    for (int i = 0; i < Units::kCount; ++i) {
      const int unit = Units::unit(static_cast<int>(threadIdx.x), i);
      if (!Units::kExact && unit >= Units::kUnits) continue;
      const int line = Units::line(unit), k = Units::k(unit);
      const u8* from = from_ + k * ld_ + line;
#pragma unroll
      for (int q = 0; q < 4; ++q, from += ld_) {
        const u32 word = load_elements<1>(from, k + q < k_left ? bytes_left(lines_ - line, 4) : 0);
        low_[i][q] = Aligned ? word : word << (8 * shift(unit, q));
        if (!Aligned) high_[i][q] = __funnelshift_l(word, 0, 8 * shift(unit, q));
      }
    }
  }

  u32 low_[Units::kCount][4], high_[Aligned ? 1 : Units::kCount][4];
  const u8* from_;
  i64 ld_;
  i32 lines_;
  bool begun_;
};

}  // namespace culet::kernels

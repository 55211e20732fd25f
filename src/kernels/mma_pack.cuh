// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// Operands that asynchronous copies cannot take as they are (lines that start anywhere, bytes that
// are not contiguous in k), copied once by the GEMM kernel itself into memory where they can:
// aligned rows, bytes contiguous in k. Otherwise every block that reads a tile mends it again.
//
// Blocks take pieces of this work off a counter until none are left, then wait until all are done.
// Who waits has nothing left to do for others, and who works never waits, so blocks that have not
// started yet hold nobody up.
#pragma once
#include "mma_load.cuh"

namespace culet::kernels {

/// Zero between runs.
struct PackCounters {
  u32 taken, done, left;
};

/// One operand, as it is and as it is wanted. Rows are what is contiguous in memory.
struct PackJob {
  const u8* from;
  i64 ld, stride;    ///< elements
  i32 rows, length;  ///< of a batch entry; `length` elements in a row
  i32 batch;
  u8* to;
  i32 to_ld;  ///< elements, a multiple of 16 bytes
};

CULET_DEVICE void store_global(u8* to, const u32 (&x)[4]) {
  asm volatile("st.global.v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(to), "r"(x[0]), "r"(x[1]),
               "r"(x[2]), "r"(x[3])
               : "memory");
}
CULET_DEVICE u32 load_acquire(const u32* from) {
  u32 value;
  asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(value) : "l"(from) : "memory");
  return value;
}

/// Copies rows to aligned ones, with zeros up to their end. A unit is 16 bytes of the result.
template <int Size, int Threads>
class PackRows {
 public:
  static constexpr int kUnits = 4;  ///< of a thread in a piece of work

  CULET_DEVICE explicit PackRows(const PackJob& job)
      : job_(job), per_row_(static_cast<u32>(job.to_ld) * Size / 16) {}
  CULET_DEVICE u32 units() const {
    return per_row_ * static_cast<u32>(job_.rows) * static_cast<u32>(job_.batch);
  }

  CULET_DEVICE void run(u32 first) const {
    u32 low[kUnits][4], high[kUnits][4];
#pragma unroll
    for (int i = 0; i < kUnits; ++i) {
      const Unit unit = unit_at(first, i);
      if (!unit.whole) continue;
      const u8* from = unit.from - unit.shift;
      load_global(from, low[i]);
      if (unit.shift + unit.valid > 16) load_global(from + 16, high[i]);
    }
#pragma unroll
    for (int i = 0; i < kUnits; ++i) {
      const Unit unit = unit_at(first, i);
      if (!unit.exists) continue;
      u32 x[4];
      shift_bytes(low[i], high[i], unit.shift, x);
      keep_bytes(unit.valid, x);
      store_global(unit.to, x);
      if (!unit.whole) store_corner(unit);
    }
  }

 private:
  struct Unit {
    const u8* from;
    u8* to;
    u32 valid, shift;
    bool exists;
    bool whole;  ///< the aligned bytes it lies in are all of the operand
  };
  CULET_DEVICE Unit unit_at(u32 first, int i) const {
    const u32 unit = first + threadIdx.x + static_cast<u32>(i) * Threads;
    Unit u{};
    u.exists = unit < units();
    if (!u.exists) return u;
    const u32 row = unit / per_row_, byte = unit % per_row_ * 16;
    const u32 entry = job_.batch == 1 ? 0 : row / static_cast<u32>(job_.rows);
    const u32 line = row - entry * static_cast<u32>(job_.rows);
    const u8* base = job_.from + entry * job_.stride * Size;
    u.from = base + line * job_.ld * Size + byte;
    u.to = job_.to + static_cast<u64>(unit) * 16;
    u.valid = bytes_left(job_.length * Size - static_cast<i32>(byte), 16);
    u.shift = static_cast<u32>(reinterpret_cast<u64>(u.from)) & 15;
    const Extent all = extent_of<Size>(base, job_.rows, job_.length, job_.ld);
    const u8* begin = u.from - u.shift;
    u.whole =
        u.valid > 0 && begin >= all.begin && begin + (u.shift + u.valid > 16 ? 32 : 16) <= all.end;
    return u;
  }
  /// Element by element, at an operand's very ends.
  static CULET_DEVICE void store_corner(const Unit& unit) {
#pragma unroll 1
    for (u32 byte = 0; byte < unit.valid; byte += Size) {
      const u32 element = load_global<Size>(unit.from + byte);
      if constexpr (Size == 2) {
        *reinterpret_cast<u16*>(unit.to + byte) = static_cast<u16>(element);
      } else {
        unit.to[byte] = static_cast<u8>(element);
      }
    }
  }

  PackJob job_;
  u32 per_row_;
};

/// Rows of bytes, one a k, to rows of k, one a line, with zeros up to their end. A unit is 4 lines
/// times 16 k; a warp takes 32 lines times 64 k, so that both sides move whole sectors.
template <int Threads>
class PackTransposed {
 public:
  static constexpr int kUnits = 1;

  CULET_DEVICE explicit PackTransposed(const PackJob& job)
      : job_(job),
        line_groups_(ceil_div(static_cast<u32>(job.length), 32U)),
        k_groups_(static_cast<u32>(job.to_ld) / 64) {}
  CULET_DEVICE u32 units() const {
    return 32 * line_groups_ * k_groups_ * static_cast<u32>(job_.batch);
  }

  CULET_DEVICE void run(u32 first) const {
    const u32 group = (first + threadIdx.x) / 32, lane = threadIdx.x % 32;
    const u32 per_entry = line_groups_ * k_groups_;
    if (group >= per_entry * static_cast<u32>(job_.batch)) return;
    const u32 entry = job_.batch == 1 ? 0 : group / per_entry;
    const u32 within = group - entry * per_entry;
    const auto line = static_cast<i32>(within % line_groups_ * 32 + lane % 8 * 4);
    const auto k = static_cast<i32>(within / line_groups_ * 64 + lane / 8 * 16);
    if (line >= job_.length) return;
    const u8* base = job_.from + entry * job_.stride;
    const u8* from = base + k * job_.ld + line;
    const Extent all = extent_of<1>(base, job_.rows, job_.length, job_.ld);
    u32 x[16];
    const u8* last = from + smaller(15, job_.rows - 1 - k) * job_.ld;
    if (from - 3 >= all.begin && last + 8 <= all.end) {
      load_words(from, job_.rows - k, x);
    } else {
      load_corner(from, job_.length - line, job_.rows - k, x);
    }
    u8* to = job_.to + (static_cast<i64>(entry) * job_.length + line) * job_.to_ld + k;
#pragma unroll
    for (int i = 0; i < 16; i += 4) {
      u32 block[4] = {x[i], x[i + 1], x[i + 2], x[i + 3]};
      transpose_bytes(block);
#pragma unroll
      for (int j = 0; j < 4; ++j) x[i + j] = block[j];
    }
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      const u32 row[4] = {x[j], x[4 + j], x[8 + j], x[12 + j]};
      if (line + j < job_.length) store_global(to + j * job_.to_ld, row);
    }
  }

 private:
  CULET_DEVICE void load_words(const u8* from, i32 k_left, u32 (&x)[16]) const {
#pragma unroll
    for (int i = 0; i < 16; ++i, from += job_.ld) {
      u32 low = 0, high = 0;
      const u32 shift = static_cast<u32>(reinterpret_cast<u64>(from)) & 3;
      if (i < k_left) {
        low = load_global<4>(from - shift);
        if (shift != 0) high = load_global<4>(from - shift + 4);
      }
      x[i] = __funnelshift_r(low, high, 8 * shift);
    }
  }
  static CULET_DEVICE u32 corner_word(const u8* from, i32 lines_left) {
    return load_elements<1>(from, bytes_left(lines_left, 4));
  }
  CULET_DEVICE void load_corner(const u8* from, i32 lines_left, i32 k_left, u32 (&x)[16]) const {
#pragma unroll
    for (int i = 0; i < 16; ++i, from += job_.ld) {
      x[i] = i < k_left ? corner_word(from, lines_left) : 0;
    }
  }

  PackJob job_;
  u32 line_groups_, k_groups_;
};

/// Runs both operands' jobs together with all other blocks. `slots`: 8 bytes of shared memory.
template <int Threads, class PackA, class PackB>
CULET_DEVICE void run_packing(const PackA& a, const PackB& b, PackCounters* counters, u32* slots) {
  const u32 items_a = ceil_div(a.units(), static_cast<u32>(Threads * PackA::kUnits));
  const u32 items = items_a + ceil_div(b.units(), static_cast<u32>(Threads * PackB::kUnits));
  const bool first_thread = threadIdx.x == 0;
  if (first_thread) slots[0] = atomic_add_gpu(&counters->taken, 1);
  __syncthreads();
  u32 done = 0;
#pragma unroll 1
  for (int turn = 0;; turn ^= 1, ++done) {
    const u32 item = slots[turn];
    if (item >= items) break;
    u32 next = 0;
    if (first_thread) next = atomic_add_gpu(&counters->taken, 1);
    if (item < items_a) {
      a.run(item * (Threads * PackA::kUnits));
    } else {
      b.run((item - items_a) * (Threads * PackB::kUnits));
    }
    if (first_thread) slots[turn ^ 1] = next;
    fence_gpu();
    __syncthreads();
  }
  if (first_thread) {
    if (done > 0) atomic_add_gpu(&counters->done, done);
    while (load_acquire(&counters->done) < items) __nanosleep(32);
  }
  __syncthreads();
}

/// Of an operand that stays as it is.
struct PackNothing {
  static constexpr int kUnits = 1;
  CULET_DEVICE u32 units() const { return 0; }
  CULET_DEVICE void run(u32) const {}
};

/// Called by every block's first thread when it has passed run_packing(): the last one makes the
/// counters zero again.
CULET_DEVICE void leave_packing(PackCounters* counters) {
  if (atomic_add_gpu(&counters->left, 1) != gridDim.x - 1) return;
  *counters = PackCounters{0, 0, 0};
}

}  // namespace culet::kernels

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// Where the operands of one run lie in memory, and what is in them. All operands of a set are one
// block of memory, filled with NaN (all bits one) wherever there is no element: between rows, and
// around each operand. D, poisoned, is checked there afterwards.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "culet/problem.h"
#include "kernels/verify/random.h"

namespace culet::benchmark {

/// The number format of a dtype for the functions of src/kernels/verify.
verify::Format format_of(DType dtype);

/// Operands by number: 0 A, 1 B, 2 D, 3 + i epilogue operand i.
enum : int { kA = 0, kB = 1, kD = 2, kExtra = 3 };

/// One operand in memory: `batches` x `lines` runs of `length` contiguous elements.
struct OperandPlace {
  int id = kA;
  DType dtype = DType::f32;
  std::int64_t batches = 1, lines = 1, length = 1;
  std::int64_t batch_stride = 0, line_stride = 0;  ///< elements
  std::int64_t begin = 0;                          ///< byte offset of element 0 in the block
  std::int64_t elements = 0;                       ///< span from the first to one past the last

  std::int64_t bytes() const;
};

/// Byte every operand's surroundings are filled with: a NaN in every floating-point format.
inline constexpr unsigned char kPadding = 0xff;
/// What D is filled with before a run, as four bytes: a NaN of its format that no computation
/// gives (where it has more than one), and for integers one of two patterns, so that two runs tell
/// an unwritten element from a result.
std::uint32_t poison_of(DType dtype, bool second_run);
inline constexpr std::int64_t kGuardBytes = 4096;

struct SetLayout {
  Problem problem;
  std::vector<OperandPlace> places;  ///< by id
  std::int64_t block_bytes = 0;      ///< the block itself must be 4096-byte aligned

  const OperandPlace& place(int id) const { return places[static_cast<std::size_t>(id)]; }
  /// Element offsets from an operand's element 0.
  std::int64_t offset_a(std::int64_t batch, std::int64_t row, std::int64_t k) const;
  std::int64_t offset_b(std::int64_t batch, std::int64_t k, std::int64_t column) const;
  std::int64_t offset_d(std::int64_t batch, std::int64_t row, std::int64_t column) const;
  std::int64_t offset_extra(int extra, std::int64_t batch, std::int64_t row,
                            std::int64_t column) const;
  /// D's poisoned surroundings: [first, last) in bytes of the block.
  /// Both multiples of 4.
  std::int64_t guard_begin() const { return (place(kD).begin - kGuardBytes) & ~std::int64_t{3}; }
  std::int64_t guard_end() const {
    return (place(kD).begin + place(kD).bytes() + kGuardBytes + 3) & ~std::int64_t{3};
  }
};

/// `tight_alignment`: bases are aligned as the problem guarantees and no more, so that a kernel
/// that relies on more shows; otherwise (for timing) at 256 bytes where the guarantee is the usual
/// 16 or more, as allocators give. Errors: unsupported for dtypes below 8 bits, and for more bytes
/// than any memory has.
Result<SetLayout> make_set_layout(const Problem& problem, bool tight_alignment);

/// Seeds of one set: every set of a run has its own contents.
struct SetSeed {
  std::uint64_t seed = 1;
  std::uint64_t copy = 0;
  verify::u64 key(int operand) const {
    return verify::stream_key(seed, static_cast<verify::u64>(operand), copy);
  }
};

/// Fills a whole block in host memory: poison, then the inputs.
void fill_set(const SetLayout& layout, const SetSeed& seed, void* block);
/// Poisons D and its surroundings only.
void poison_d(const SetLayout& layout, std::uint32_t poison, void* block);

/// Values of a stream at `first`, `first + step` ..., `count` of them.
void generate(DType dtype, verify::u64 key, std::int64_t first, std::int64_t step,
              std::int64_t count, double* to);

/// What was found in D and around it without knowing the right results.
struct SurfaceCheck {
  /// Elements that still hold the poison. Not counted for integers, where any value may be a
  /// result: those are run twice, with different poison.
  std::int64_t unwritten = 0;
  std::int64_t nan = 0;      ///< other elements that are NaN
  std::int64_t damaged = 0;  ///< bytes beside D's elements that were overwritten
  std::int64_t first_unwritten[3] = {-1, -1, -1};  ///< batch, row, column
  std::int64_t first_nan[3] = {-1, -1, -1};
  std::int64_t first_damaged = 0;  ///< byte offset from D's first element
  /// What a verdict says of damage, unwritten elements, or (unless allowed) NaN; empty if fine.
  std::string complaint(bool nan_allowed) const;
};
/// Batch, row and column of the element at an offset from D's element 0.
void locate(const SetLayout& layout, std::int64_t offset, std::int64_t (&at)[3]);
SurfaceCheck check_surface(const SetLayout& layout, std::uint32_t poison, const void* block);

/// What a candidate is verified on.
struct CheckCase {
  SetLayout layout;
  SetSeed seed;
  /// On the first case, which is also what is timed, every element may be asked for; on the others
  /// (tight alignment; the ends of the problem's range of m) samples do.
  bool main = false;
};
Result<std::vector<CheckCase>> check_cases(const Problem& problem, std::uint64_t seed);

/// Copies of the operands to rotate over so that `rotate_bytes` are touched before one comes
/// again, within `memory` bytes for their blocks; at least 1. 0 where not even one fits.
int rotation_copies(const SetLayout& layout, double rotate_bytes, double memory);

/// Whether the epilogue may produce a NaN from finite operands.
bool may_produce_nan(const Epilogue& epilogue);

}  // namespace culet::benchmark

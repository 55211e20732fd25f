// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// A GEMM problem: everything that selects a kernel, and nothing else.
//
//     D[m,n] = epilogue(sum over k of A[m,k] * B[k,n])        D row-major, one such product per
//     batch index
//
// Its text form is  MxNxK[xBATCH]:A[*B][>D][:key=value]...  and parses back to the same problem;
// see docs/problem.md.
#pragma once

#include <compare>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "culet/dtype.h"
#include "culet/epilogue.h"
#include "culet/error.h"

namespace culet {

/// Storage order of an operand as it stands in D = A*B. In problem text `layout` is A's letter,
/// then B's, in BLAS terms: `t` is row-major, `n` column-major. The default `tn` has both operands
/// contiguous in k (B column-major [K,N] is what a Linear layer stores as a row-major [N,K]
/// weight).
enum class Order : std::uint8_t { row_major, col_major };

/// How products are summed. `f32` is the contract of docs/numerics.md; `fast` allows a
/// lower-precision hardware accumulator (8-bit floats); `s32` for integers; `f16` accumulates in
/// half precision.
enum class Accumulate : std::uint8_t { f32, fast, s32, f16, f64 };

std::string_view to_string(Accumulate accumulate);

/// An inclusive range of m that one choice must serve (the batch hint). Equal bounds: exactly that
/// m.
struct MRange {
  std::int64_t low = 0;
  std::int64_t high = 0;
  friend auto operator<=>(const MRange&, const MRange&) = default;
};

struct Problem {
  std::int64_t m = 0;
  std::int64_t n = 0;
  std::int64_t k = 0;
  std::int64_t batch = 1;

  DType a = DType::bf16;
  DType b = DType::bf16;
  DType d = DType::bf16;
  Order a_order = Order::row_major;
  Order b_order = Order::col_major;
  Accumulate accumulate = Accumulate::f32;

  /// Leading dimensions in elements: the distance between rows of a row-major operand, or columns
  /// of a column-major one. Always resolved (never 0) in a validated problem.
  std::int64_t lda = 0;
  std::int64_t ldb = 0;
  std::int64_t ldd = 0;
  /// Batch strides in elements; -1 stands for tight, 0 broadcasts (A and B only). Resolved for
  /// batch > 1, 0 for batch <= 1 in a validated problem.
  std::int64_t stride_a = -1;
  std::int64_t stride_b = -1;
  std::int64_t stride_d = -1;
  /// Guaranteed alignment of the base pointers, in bytes. 16 unless stated (a power of two, at
  /// least the element size).
  int align_a = 16;
  int align_b = 16;
  int align_d = 16;

  /// The m the choice must serve; {m, m} when not given. `m` is then the value it is timed at
  /// (text: the leading M).
  MRange m_range;
  bool const_b = false;  ///< B's contents never change between runs: may be read before earlier
                         ///< work has finished
  bool pack_b = false;   ///< B may also be repacked, once, into memory of its own (Plan::prepare)
  bool deterministic = false;  ///< bitwise equal results from run to run are required

  Epilogue epilogue;

  /// Parses problem text. Errors name the field and the rule, e.g. "lda: 100 is smaller than the
  /// row length 4096 of A".
  static Result<Problem> parse(std::string_view text);

  /// The canonical text; `parse(text())` gives an equal problem. Defaults are not printed.
  std::string text() const;

  /// Fills in defaults (leading dimensions and range where they are 0, batch strides where they are
  /// -1) and checks every rule. Validating twice changes nothing.
  Result<Problem> validated() const;

  /// The same problem at another m. Without a range, m_range and tight leading dimensions and batch
  /// strides follow and explicit ones stay. With one, new_m must lie in it and memory stays laid
  /// out for the largest m of the range.
  Result<Problem> with_m(std::int64_t new_m) const;

  bool is_empty() const { return m == 0 || n == 0 || batch == 0; }  ///< nothing to launch
  double flops() const;                                             ///< 2*m*n*k*batch
  double compulsory_bytes()
      const;  ///< every operand read once (a broadcast one once in all), D written once

  /// Elements spanned in memory by an operand, from its first to one past its last element over all
  /// batches.
  std::int64_t span_a() const;
  std::int64_t span_b() const;
  std::int64_t span_d() const;

  friend bool operator==(const Problem& x, const Problem& y) { return x.text() == y.text(); }
  friend auto operator<=>(const Problem& x, const Problem& y) { return x.text() <=> y.text(); }
};

/// Reads a list of problems, one a line; `#` starts a comment outside quotes. Errors name file and
/// line number.
Result<std::vector<Problem>> read_shapes(const std::string& path);

/// A stable 64-bit hash of the canonical text.
std::uint64_t hash(const Problem& problem);

}  // namespace culet

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// Every rule a problem must keep, each with a message that names the field and the rule.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <limits>

#include "culet/problem.h"
#include "problem/problem_rules.h"

namespace culet {
namespace {

constexpr std::int64_t kMaxSize = std::numeric_limits<std::int32_t>::max();
// Offsets in bytes of up to 8-byte elements, and sums of a few of them, fit into 64 bits.
constexpr std::int64_t kMaxSpan = std::int64_t{1} << 58;
constexpr std::int64_t kMaxElements = std::int64_t{1} << 62;

using Check = Result<void>;

tl::unexpected<Error> wrong(std::string message) {
  return fail(ErrorCode::invalid_argument, std::move(message));
}

Check check_size(std::string_view name, std::int64_t value) {
  if (value < 0) return wrong(fmt::format("{}: {} is negative", name, value));
  if (value > kMaxSize) {
    return wrong(fmt::format("{}: {} is larger than {}", name, value, kMaxSize));
  }
  return {};
}

Check check_sizes(const Problem& p) {
  const std::array<std::pair<std::string_view, std::int64_t>, 4> sizes = {
      {{"m", p.m}, {"n", p.n}, {"k", p.k}, {"batch", p.batch}}};
  for (const auto& [name, value] : sizes) {
    if (const Check c = check_size(name, value); !c) return c;
  }
  const auto [low, high] = p.m_range;
  if (low < 0 || low > high) {
    return wrong(fmt::format("m: {}..{} is not a range (low..high)", low, high));
  }
  if (const Check c = check_size("m", high); !c) return c;
  if (p.m < low || p.m > high) {
    return wrong(fmt::format("m: the leading M {} is outside the range {}..{}", p.m, low, high));
  }
  return {};
}

bool is_narrow_float(DType x) { return x == DType::e4m3 || x == DType::e5m2; }
bool is_narrow_integer(DType x) { return x == DType::s8 || x == DType::u8; }

Check check_inputs(const Problem& p) {
  const std::array<std::pair<std::string_view, DType>, 2> inputs = {{{"a", p.a}, {"b", p.b}}};
  for (const auto& [name, dtype] : inputs) {
    if (dtype == DType::s32) {
      return wrong(
          fmt::format("{}: s32 is a dtype of results; integer operands are s8 or u8", name));
    }
    if (dtype == DType::e8m0 || dtype == DType::e2m1) {
      return wrong(fmt::format("{}: {} needs scales, which are not supported in this version", name,
                               to_string(dtype)));
    }
  }
  if (p.a == p.b || (is_narrow_float(p.a) && is_narrow_float(p.b)) ||
      (is_narrow_integer(p.a) && is_narrow_integer(p.b))) {
    return {};
  }
  return wrong(
      fmt::format("b: {}*{} cannot be multiplied: A and B have one dtype, or both are 8-bit "
                  "floats, or both are "
                  "8-bit integers",
                  to_string(p.a), to_string(p.b)));
}

Check check_result(const Problem& p) {
  if (p.d == DType::tf32) return wrong("d: tf32 is a dtype of inputs; write f32");
  if (p.d == DType::e8m0 || p.d == DType::e2m1) {
    return wrong(
        fmt::format("d: {} needs scales, which are not supported in this version", to_string(p.d)));
  }
  if (is_integer(p.d) && !is_integer(p.a)) {
    return wrong(
        fmt::format("d: {} needs integer operands, not {}", to_string(p.d), to_string(p.a)));
  }
  if ((p.d == DType::f64) != (p.a == DType::f64)) {
    return wrong(fmt::format("d: {} from {} operands: f64 goes with f64 only", to_string(p.d),
                             to_string(p.a)));
  }
  return {};
}

Check check_accumulate(const Problem& p) {
  const Accumulate acc = p.accumulate;
  if (acc == default_accumulate(p.a)) return {};
  if (acc == Accumulate::fast && is_narrow_float(p.a)) return {};
  if (acc == Accumulate::f16 && (p.a == DType::f16 || is_narrow_float(p.a))) return {};
  std::string allowed(to_string(default_accumulate(p.a)));
  if (is_narrow_float(p.a)) allowed += " or fast";
  if (p.a == DType::f16 || is_narrow_float(p.a)) allowed += " or f16";
  return wrong(fmt::format("acc: {} does not go with {} operands, which accumulate in {}",
                           to_string(acc), to_string(p.a), allowed));
}

Check check_ld(std::string_view name, std::int64_t ld, std::int64_t tight, Order order) {
  if (ld < 0) return wrong(fmt::format("{}: {} is negative", name, ld));
  if (ld < tight) {
    const std::string_view line = order == Order::row_major ? "row" : "column";
    const char matrix = static_cast<char>(name.back() - 'a' + 'A');
    return wrong(fmt::format("{}: {} is smaller than the {} length {} of {}", name, ld, line, tight,
                             matrix));
  }
  if (ld > kMaxSpan) return wrong(fmt::format("{}: {} is larger than 2^58", name, ld));
  return {};
}

Check check_lds(const Problem& p) {
  if (const Check c = check_ld("lda", p.lda, tight_lda(p), p.a_order); !c) return c;
  if (const Check c = check_ld("ldb", p.ldb, tight_ldb(p), p.b_order); !c) return c;
  return check_ld("ldd", p.ldd, tight_ldd(p), Order::row_major);
}

__extension__ typedef __int128 Wide;

Check check_span(std::string_view name, std::int64_t lines, std::int64_t length, std::int64_t ld,
                 std::int64_t batch, std::int64_t stride) {
  if (lines == 0 || length == 0 || batch == 0) return {};
  const Wide span = Wide{batch - 1} * stride + Wide{lines - 1} * ld + length;
  if (span > kMaxSpan) return wrong(fmt::format("{}: spans more than 2^58 elements", name));
  return {};
}

Check check_spans(const Problem& p) {
  const std::int64_t rows = rows_of_m(p);
  const bool a_rows = p.a_order == Order::row_major, b_rows = p.b_order == Order::row_major;
  Check c = check_span("a", a_rows ? rows : p.k, a_rows ? p.k : rows, p.lda, p.batch, p.stride_a);
  if (c) c = check_span("b", b_rows ? p.k : p.n, b_rows ? p.n : p.k, p.ldb, p.batch, p.stride_b);
  if (c) c = check_span("d", rows, p.n, p.ldd, p.batch, p.stride_d);
  const Wide work = Wide{rows} * p.n * std::max<std::int64_t>(p.batch, 1);
  if (c && work > kMaxElements) return wrong("d: more than 2^62 elements");
  return c;
}

Check check_strides(const Problem& p) {
  if (p.batch <= 1) return {};
  const std::array<std::pair<std::string_view, std::int64_t>, 3> strides = {
      {{"stridea", p.stride_a}, {"strideb", p.stride_b}, {"strided", p.stride_d}}};
  for (const auto& [name, value] : strides) {
    if (value < 0) return wrong(fmt::format("{}: {} is negative", name, value));
    if (value > kMaxSpan) return wrong(fmt::format("{}: {} is larger than 2^58", name, value));
  }
  const std::int64_t rows = rows_of_m(p);
  if (rows == 0 || p.n == 0) return {};
  const Wide one = Wide{rows - 1} * p.ldd + p.n;
  // Batches follow each other, or lie side by side within the rows of one big matrix.
  const bool apart = p.stride_d >= one;
  const bool beside = p.stride_d >= p.n && Wide{p.batch - 1} * p.stride_d + p.n <= p.ldd;
  if (apart || beside) return {};
  return wrong(fmt::format("strided: {} makes the batches of D overlap", p.stride_d));
}

// A page: what any allocation can be given. Beyond it operands could not be placed as promised.
constexpr int kMaxAlignment = 4096;

Check check_alignment(std::string_view name, int align, DType dtype) {
  if (align <= 0 || !std::has_single_bit(static_cast<unsigned>(align))) {
    return wrong(fmt::format("{}: {} is not a power of two", name, align));
  }
  if (align > kMaxAlignment) {
    return wrong(fmt::format("{}: {} is larger than {} bytes", name, align, kMaxAlignment));
  }
  const std::int64_t element = bytes(dtype, 1);
  if (align < element) {
    return wrong(fmt::format("{}: {} is below the {} bytes of a {} element", name, align, element,
                             to_string(dtype)));
  }
  return {};
}

Check check_alignments(const Problem& p) {
  if (const Check c = check_alignment("aligna", p.align_a, p.a); !c) return c;
  if (const Check c = check_alignment("alignb", p.align_b, p.b); !c) return c;
  return check_alignment("alignd", p.align_d, p.d);
}

void fill_lds(Problem& p) {
  if (p.lda == 0) p.lda = tight_lda(p);
  if (p.ldb == 0) p.ldb = tight_ldb(p);
  if (p.ldd == 0) p.ldd = tight_ldd(p);
}

void fill_strides(Problem& p) {
  if (p.batch <= 1) {
    p.stride_a = p.stride_b = p.stride_d = 0;
    return;
  }
  if (p.stride_a == -1) p.stride_a = tight_stride_a(p);
  if (p.stride_b == -1) p.stride_b = tight_stride_b(p);
  if (p.stride_d == -1) p.stride_d = tight_stride_d(p);
}

// A tight stride of huge leading dimensions must be refused before it is computed.
Check check_tight_products(const Problem& p) {
  const Wide largest = std::max({p.lda, p.ldb, p.ldd});
  const Wide lines = std::max({rows_of_m(p), p.n, p.k});
  if (p.batch > 1 && largest * lines > Wide{kMaxElements}) {
    return wrong("batch: a batch entry spans more than 2^62 elements");
  }
  return {};
}

}  // namespace

Result<Problem> Problem::validated() const {
  Problem p = *this;
  if (p.m_range == MRange{}) p.m_range = {p.m, p.m};
  if (p.accumulate == Accumulate::f32) p.accumulate = default_accumulate(p.a);
  p.epilogue = p.epilogue.with_default_dtype(p.d);
  Check c = check_sizes(p);
  if (c) c = check_inputs(p);
  if (c) c = check_result(p);
  if (c) c = check_accumulate(p);
  if (c) {
    fill_lds(p);
    c = check_lds(p);
  }
  if (c) c = check_tight_products(p);
  if (c) {
    fill_strides(p);
    c = check_strides(p);
  }
  if (c) c = check_spans(p);
  if (c) c = check_alignments(p);
  if (!c) return tl::unexpected<Error>(c.error());
  return p;
}

}  // namespace culet

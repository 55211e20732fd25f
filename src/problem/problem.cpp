// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// The value type Problem: defaults, canonical text, and the figures derived from it.
#include "culet/problem.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "base/hash.h"
#include "problem/problem_rules.h"

namespace culet {
namespace {

// Distance from the first element to one past the last: `lines` runs of `length` elements, `ld`
// apart, repeated `batch` times.
std::int64_t span(std::int64_t lines, std::int64_t length, std::int64_t ld, std::int64_t batch,
                  std::int64_t stride) {
  if (lines == 0 || length == 0 || batch == 0) return 0;
  return (batch - 1) * stride + (lines - 1) * ld + length;
}

double operand_elements(const Problem& p, EpilogueIndex index) {
  switch (index) {
    case EpilogueIndex::scalar:
      return 1;
    case EpilogueIndex::row:
      return static_cast<double>(p.m);
    case EpilogueIndex::column:
      return static_cast<double>(p.n);
    case EpilogueIndex::full:
      return static_cast<double>(p.m) * static_cast<double>(p.n) * static_cast<double>(p.batch);
  }
  return 0;
}

double storage(DType dtype, double elements) { return elements * bits(dtype) / 8; }

// Texts are keys of look-ups, so they are put together without a formatting library.
void append(std::string& text, std::int64_t number) {
  char digits[24];
  text.append(digits, std::to_chars(digits, digits + sizeof digits, number).ptr);
}

void append_key(std::string& text, std::string_view key, std::string_view value) {
  text += ':';
  text += key;
  text += '=';
  text += value;
}

void print_memory(const Problem& p, std::string& text) {
  const auto print = [&](std::string_view key, std::int64_t value, std::int64_t standard,
                         bool stated) {
    if (!stated || value == standard) return;
    append_key(text, key, {});
    append(text, value);
  };
  print("lda", p.lda, tight_lda(p), p.lda != 0);
  print("ldb", p.ldb, tight_ldb(p), p.ldb != 0);
  print("ldd", p.ldd, tight_ldd(p), p.ldd != 0);
  print("stridea", p.stride_a, tight_stride_a(p), p.batch > 1 && p.stride_a >= 0);
  print("strideb", p.stride_b, tight_stride_b(p), p.batch > 1 && p.stride_b >= 0);
  print("strided", p.stride_d, tight_stride_d(p), p.batch > 1 && p.stride_d >= 0);
  print("aligna", p.align_a, 16, true);
  print("alignb", p.align_b, 16, true);
  print("alignd", p.align_d, 16, true);
}

void print_sizes(const Problem& p, std::string& text) {
  append(text, p.m);
  text += 'x';
  append(text, p.n);
  text += 'x';
  append(text, p.k);
  if (p.batch == 1) return;
  text += 'x';
  append(text, p.batch);
}

void print_dtypes(const Problem& p, std::string& text) {
  text += ':';
  text += to_string(p.a);
  if (p.b != p.a) {
    text += '*';
    text += to_string(p.b);
  }
  if (p.d != default_d(p.a, p.b)) {
    text += '>';
    text += to_string(p.d);
  }
}

void print_range(const Problem& p, std::string& text) {
  if (p.m_range == MRange{} || p.m_range == MRange{p.m, p.m}) return;
  append_key(text, "m", {});
  append(text, p.m_range.low);
  text += "..";
  append(text, p.m_range.high);
}

}  // namespace

std::string_view to_string(Accumulate accumulate) {
  switch (accumulate) {
    case Accumulate::f32:
      return "f32";
    case Accumulate::fast:
      return "fast";
    case Accumulate::s32:
      return "s32";
    case Accumulate::f16:
      return "f16";
    case Accumulate::f64:
      return "f64";
  }
  return "";
}

DType default_d(DType a, DType b) {
  if (a == DType::f64) return DType::f64;
  if (a == DType::f32 || a == DType::tf32) return DType::f32;
  if (a == DType::f16 && b == DType::f16) return DType::f16;
  return is_integer(a) ? DType::s32 : DType::bf16;
}

Accumulate default_accumulate(DType a) {
  if (is_integer(a)) return Accumulate::s32;
  return a == DType::f64 ? Accumulate::f64 : Accumulate::f32;
}

std::int64_t rows_of_m(const Problem& p) { return std::max(p.m, p.m_range.high); }

std::int64_t tight_lda(const Problem& p) {
  return std::max<std::int64_t>(1, p.a_order == Order::row_major ? p.k : rows_of_m(p));
}
std::int64_t tight_ldb(const Problem& p) {
  return std::max<std::int64_t>(1, p.b_order == Order::row_major ? p.n : p.k);
}
std::int64_t tight_ldd(const Problem& p) { return std::max<std::int64_t>(1, p.n); }

// A leading dimension that is not resolved yet counts as tight. Products are made of validated
// sizes; before validation they may wrap, so they are taken as unsigned.
static std::int64_t product(std::int64_t ld, std::int64_t tight, std::int64_t lines) {
  return static_cast<std::int64_t>(static_cast<std::uint64_t>(ld != 0 ? ld : tight) *
                                   static_cast<std::uint64_t>(lines));
}
std::int64_t tight_stride_a(const Problem& p) {
  return product(p.lda, tight_lda(p), p.a_order == Order::row_major ? rows_of_m(p) : p.k);
}
std::int64_t tight_stride_b(const Problem& p) {
  return product(p.ldb, tight_ldb(p), p.b_order == Order::row_major ? p.k : p.n);
}
std::int64_t tight_stride_d(const Problem& p) { return product(p.ldd, tight_ldd(p), rows_of_m(p)); }

std::string Problem::text() const {
  std::string text;
  text.reserve(96);
  print_sizes(*this, text);
  print_dtypes(*this, text);
  const char layout[] = {a_order == Order::row_major ? 't' : 'n',
                         b_order == Order::row_major ? 't' : 'n'};
  const std::string_view letters(layout, 2);
  if (letters != "tn") append_key(text, "layout", letters);
  print_memory(*this, text);
  // f32 is also what a Problem made by hand has before validated() puts in what integers need.
  if (accumulate != default_accumulate(a) && accumulate != Accumulate::f32) {
    append_key(text, "acc", to_string(accumulate));
  }
  print_range(*this, text);
  if (deterministic) append_key(text, "order", "deterministic");
  if (const_b) append_key(text, "const", "b");
  if (pack_b) append_key(text, "pack", "b");
  if (!epilogue.is_identity()) {
    append_key(text, "epi", "\"");
    text += epilogue.with_default_dtype(d).text();
    text += '"';
  }
  return text;
}

Result<Problem> Problem::with_m(std::int64_t new_m) const {
  Problem p = *this;
  const MRange range = m_range == MRange{} ? MRange{m, m} : m_range;
  if (range.low != range.high) {
    if (new_m < range.low || new_m > range.high) {
      return fail(ErrorCode::invalid_argument,
                  fmt::format("m: {} is outside the range {}..{}", new_m, range.low, range.high));
    }
  } else {
    // What is tight now is to be tight again.
    if (p.stride_a == tight_stride_a(*this)) p.stride_a = -1;
    if (p.stride_d == tight_stride_d(*this)) p.stride_d = -1;
    if (p.lda == tight_lda(*this)) p.lda = 0;
    p.m_range = {new_m, new_m};
  }
  p.m = new_m;
  return p.validated();
}

double Problem::flops() const {
  return 2.0 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k) *
         static_cast<double>(batch);
}

double Problem::compulsory_bytes() const {
  const double all = static_cast<double>(batch);
  const double a_batches = stride_a == 0 ? std::min(all, 1.0) : all;
  const double b_batches = stride_b == 0 ? std::min(all, 1.0) : all;
  const double rows = static_cast<double>(m), columns = static_cast<double>(n);
  const double depth = static_cast<double>(k);
  double total = storage(a, rows * depth * a_batches) + storage(b, columns * depth * b_batches) +
                 storage(d, rows * columns * all);
  for (const EpilogueOperand& operand : epilogue.operands()) {
    total += storage(operand.dtype, operand_elements(*this, operand.index));
  }
  return total;
}

std::int64_t Problem::span_a() const {
  return a_order == Order::row_major ? span(m, k, lda, batch, stride_a)
                                     : span(k, m, lda, batch, stride_a);
}

std::int64_t Problem::span_b() const {
  return b_order == Order::row_major ? span(k, n, ldb, batch, stride_b)
                                     : span(n, k, ldb, batch, stride_b);
}

std::int64_t Problem::span_d() const { return span(m, n, ldd, batch, stride_d); }

std::uint64_t hash(const Problem& problem) { return hash64(problem.text()); }

}  // namespace culet

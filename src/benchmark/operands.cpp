// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// Lays operands out, fills them, and checks what is around D.
#include "benchmark/operands.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <type_traits>

#include "base/parallel.h"

namespace culet::benchmark {
namespace {

static_assert(static_cast<int>(verify::Format::e8m0) == static_cast<int>(DType::e8m0) &&
              static_cast<int>(verify::Format::s8) == static_cast<int>(DType::s8) &&
              static_cast<int>(verify::Format::f64) == static_cast<int>(DType::f64));

/// No memory has more. One operand is at most this long (Problem::validated()), so that with what
/// lies before it the sums here stay far from the end of 64 bits.
constexpr std::int64_t kMostBytes = std::int64_t{1} << 61;

std::int64_t round_up(std::int64_t value, std::int64_t to) { return (value + to - 1) / to * to; }

OperandPlace matrix(int id, DType dtype, std::int64_t lines, std::int64_t length, std::int64_t ld,
                    std::int64_t batch, std::int64_t stride) {
  OperandPlace place;
  place.id = id;
  place.dtype = dtype;
  place.batches = stride == 0 ? std::min<std::int64_t>(batch, 1) : batch;
  place.lines = lines;
  place.length = length;
  place.line_stride = ld;
  place.batch_stride = stride;
  const bool empty = place.batches <= 0 || lines <= 0 || length <= 0;
  place.elements = empty ? 0 : (place.batches - 1) * stride + (lines - 1) * ld + length;
  return place;
}

OperandPlace extra_place(const Problem& p, int index) {
  const EpilogueOperand& operand = p.epilogue.operands()[static_cast<std::size_t>(index)];
  const int id = kExtra + index;
  switch (operand.index) {
    case EpilogueIndex::row:
      return matrix(id, operand.dtype, 1, p.m, p.m, 1, 0);
    case EpilogueIndex::column:
      return matrix(id, operand.dtype, 1, p.n, p.n, 1, 0);
    case EpilogueIndex::full:
      return matrix(id, operand.dtype, p.m, p.n, p.ldd, p.batch, p.stride_d);
    case EpilogueIndex::scalar:
      break;
  }
  return matrix(id, operand.dtype, 1, 1, 1, 1, 0);
}

/// Bytes beyond a multiple of 256 at which an operand's element 0 lies.
std::int64_t misalignment(const Problem& p, int id, DType dtype, bool tight) {
  int guaranteed = id == kA ? p.align_a : id == kB ? p.align_b : p.align_d;
  // Epilogue matrices lie as D does; vectors and scalars are always 16-byte aligned, on which
  // vendor libraries rely (cuBLASLt stops with a misaligned address on a bias that is not).
  if (id >= kExtra) {
    const auto& operand = p.epilogue.operands()[static_cast<std::size_t>(id - kExtra)];
    if (operand.index != EpilogueIndex::full) guaranteed = 16;
  }
  guaranteed = std::max(guaranteed, bits(dtype) / 8);
  if (guaranteed >= 256) return 0;
  return tight || (id < kExtra && guaranteed < 16) ? guaranteed : 0;
}

/// Calls `use` with the format as a constant, so that its loop has no case distinctions left.
template <typename Use>
void with_format(verify::Format format, const Use& use) {
  using F = verify::Format;
  switch (format) {
    case F::f64:
      return use(std::integral_constant<F, F::f64>());
    case F::f32:
      return use(std::integral_constant<F, F::f32>());
    case F::tf32:
      return use(std::integral_constant<F, F::tf32>());
    case F::f16:
      return use(std::integral_constant<F, F::f16>());
    case F::bf16:
      return use(std::integral_constant<F, F::bf16>());
    case F::e4m3:
      return use(std::integral_constant<F, F::e4m3>());
    case F::e5m2:
      return use(std::integral_constant<F, F::e5m2>());
    case F::s8:
      return use(std::integral_constant<F, F::s8>());
    case F::u8:
      return use(std::integral_constant<F, F::u8>());
    case F::s32:
      return use(std::integral_constant<F, F::s32>());
    default:
      return;
  }
}

template <int kBytes>
struct CodeOf;
template <>
struct CodeOf<1> {
  using type = std::uint8_t;
};
template <>
struct CodeOf<2> {
  using type = std::uint16_t;
};
template <>
struct CodeOf<4> {
  using type = std::uint32_t;
};
template <>
struct CodeOf<8> {
  using type = std::uint64_t;
};

void fill_elements(const OperandPlace& place, verify::u64 key, std::int64_t first,
                   std::int64_t count, char* base) {
  with_format(format_of(place.dtype), [&](auto format) {
    using Code = typename CodeOf<verify::bytes_of(format.value)>::type;
    Code* to = reinterpret_cast<Code*>(base) + first;
    for (std::int64_t i = 0; i < count; ++i) {
      const double value =
          verify::random_value(format.value, key, static_cast<verify::u64>(first + i));
      to[i] = static_cast<Code>(verify::encode_exact(format.value, value));
    }
  });
}

void fill_operand(const OperandPlace& place, verify::u64 key, char* block) {
  if (place.elements == 0) return;
  char* base = block + place.begin;
  // Long runs (a vector, a tight matrix) are cut, so that all cores have work.
  constexpr std::int64_t kPiece = 1 << 18;
  const bool tight = place.line_stride == place.length &&
                     (place.batches == 1 || place.batch_stride == place.lines * place.length);
  const std::int64_t runs = tight ? 1 : place.batches * place.lines;
  const std::int64_t length = tight ? place.elements : place.length;
  const std::int64_t pieces = (length + kPiece - 1) / kPiece;
  const std::int64_t runs_per_job =
      std::max<std::int64_t>(1, kPiece / std::max<std::int64_t>(length, 1));
  const std::int64_t jobs = (runs + runs_per_job - 1) / runs_per_job * pieces;
  parallel_for(static_cast<int>(jobs), jobs > 1 ? 0 : 1, [&](int job) {
    const std::int64_t group = job / pieces, piece = job % pieces;
    const std::int64_t end = std::min(runs, (group + 1) * runs_per_job);
    for (std::int64_t run = group * runs_per_job; run < end; ++run) {
      const std::int64_t start =
          tight ? 0
                : run / place.lines * place.batch_stride + run % place.lines * place.line_stride;
      const std::int64_t from = piece * kPiece;
      fill_elements(place, key, start + from, std::min(kPiece, length - from), base);
    }
  });
}

}  // namespace

std::int64_t OperandPlace::bytes() const { return culet::bytes(dtype, elements); }

verify::Format format_of(DType dtype) { return static_cast<verify::Format>(dtype); }

std::int64_t SetLayout::offset_a(std::int64_t batch, std::int64_t row, std::int64_t k) const {
  const bool row_major = problem.a_order == Order::row_major;
  return batch * problem.stride_a + (row_major ? row * problem.lda + k : k * problem.lda + row);
}

std::int64_t SetLayout::offset_b(std::int64_t batch, std::int64_t k, std::int64_t column) const {
  const bool row_major = problem.b_order == Order::row_major;
  return batch * problem.stride_b +
         (row_major ? k * problem.ldb + column : column * problem.ldb + k);
}

std::int64_t SetLayout::offset_d(std::int64_t batch, std::int64_t row, std::int64_t column) const {
  return batch * problem.stride_d + row * problem.ldd + column;
}

std::int64_t SetLayout::offset_extra(int extra, std::int64_t batch, std::int64_t row,
                                     std::int64_t column) const {
  switch (problem.epilogue.operands()[static_cast<std::size_t>(extra)].index) {
    case EpilogueIndex::row:
      return row;
    case EpilogueIndex::column:
      return column;
    case EpilogueIndex::full:
      return offset_d(batch, row, column);
    case EpilogueIndex::scalar:
      break;
  }
  return 0;
}

Result<SetLayout> make_set_layout(const Problem& problem, bool tight_alignment) {
  SetLayout layout;
  layout.problem = problem;
  const Problem& p = problem;
  const bool a_rows = p.a_order == Order::row_major, b_rows = p.b_order == Order::row_major;
  layout.places.push_back(
      matrix(kA, p.a, a_rows ? p.m : p.k, a_rows ? p.k : p.m, p.lda, p.batch, p.stride_a));
  layout.places.push_back(
      matrix(kB, p.b, b_rows ? p.k : p.n, b_rows ? p.n : p.k, p.ldb, p.batch, p.stride_b));
  layout.places.push_back(matrix(kD, p.d, p.m, p.n, p.ldd, p.batch, p.stride_d));
  for (std::size_t i = 0; i < p.epilogue.operands().size(); ++i)
    layout.places.push_back(extra_place(p, static_cast<int>(i)));

  std::int64_t at = kGuardBytes;
  for (OperandPlace& place : layout.places) {
    if (bits(place.dtype) < 8 || place.dtype == DType::e8m0) {
      return fail(ErrorCode::unsupported, fmt::format("operands of dtype {} cannot be verified yet",
                                                      to_string(place.dtype)));
    }
    place.begin = at + misalignment(p, place.id, place.dtype, tight_alignment);
    at = round_up(place.begin + place.bytes() + kGuardBytes + 4, 4096);
    if (at > kMostBytes)
      return fail(ErrorCode::unsupported, "the operands take more than 2^61 bytes");
  }
  layout.block_bytes = at;
  return layout;
}

void generate(DType dtype, verify::u64 key, std::int64_t first, std::int64_t step,
              std::int64_t count, double* to) {
  with_format(format_of(dtype), [&](auto format) {
    for (std::int64_t i = 0; i < count; ++i)
      to[i] = verify::random_value(format.value, key, static_cast<verify::u64>(first + i * step));
  });
}

void fill_set(const SetLayout& layout, const SetSeed& seed, void* block) {
  std::memset(block, kPadding, static_cast<std::size_t>(layout.block_bytes));
  for (const OperandPlace& place : layout.places) {
    if (place.id != kD) fill_operand(place, seed.key(place.id), static_cast<char*>(block));
  }
}

std::uint32_t poison_of(DType dtype, bool second_run) {
  switch (dtype) {
    case DType::f16:
      return 0x7ea57ea5;
    case DType::bf16:
      return 0x7fe57fe5;
    case DType::e4m3:
      return 0x7f7f7f7f;
    case DType::e5m2:
      return 0x7e7e7e7e;
    case DType::s8:
    case DType::u8:
    case DType::s32:
      return second_run ? 0x5a5a5a5a : 0xa5a5a5a5;
    default:
      return 0x7ff5a5a5;  // as f32, and twice as f64
  }
}

void poison_d(const SetLayout& layout, std::uint32_t poison, void* block) {
  char* bytes = static_cast<char*>(block);
  for (std::int64_t at = layout.guard_begin(); at < layout.guard_end(); at += 4)
    std::memcpy(bytes + at, &poison, sizeof poison);
}

void locate(const SetLayout& layout, std::int64_t offset, std::int64_t (&at)[3]) {
  const OperandPlace& d = layout.place(kD);
  for (std::int64_t b = 0; b < d.batches; ++b) {
    const std::int64_t rest = offset - b * d.batch_stride;
    if (rest < 0 || rest / d.line_stride >= d.lines || rest % d.line_stride >= d.length) continue;
    at[0] = b;
    at[1] = rest / d.line_stride;
    at[2] = rest % d.line_stride;
    return;
  }
}

namespace {

class SurfaceScan {
 public:
  SurfaceScan(const SetLayout& layout, std::uint32_t poison, const void* block)
      : layout_(layout),
        d_(layout.place(kD)),
        bytes_(static_cast<const unsigned char*>(block)),
        format_(format_of(d_.dtype)),
        width_(verify::bytes_of(format_)) {
    poisoned_ = (std::uint64_t{poison} << 32) | poison;
    if (width_ < 8) poisoned_ &= (std::uint64_t{1} << (8 * width_)) - 1;
  }

  SurfaceCheck run() {
    // Rows in the order of memory, whatever order batches and rows have in it.
    std::vector<std::int64_t> starts;
    for (std::int64_t b = 0; b < d_.batches && d_.elements > 0; ++b)
      for (std::int64_t row = 0; row < d_.lines; ++row)
        starts.push_back(b * d_.batch_stride + row * d_.line_stride);
    if (!std::is_sorted(starts.begin(), starts.end())) std::sort(starts.begin(), starts.end());
    std::int64_t at = -kGuardBytes;
    for (std::int64_t start : starts) {
      scan_beside(at, start * width_);
      scan_row(start);
      at = (start + d_.length) * width_;
    }
    scan_beside(at, d_.bytes() + kGuardBytes);
    return check_;
  }

 private:
  void scan_beside(std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; i += width_) {
      if (code_at(i) == poisoned_) continue;
      if (check_.damaged++ == 0) check_.first_damaged = i;
    }
  }

  std::uint64_t code_at(std::int64_t byte) const {
    std::uint64_t code = 0;
    std::memcpy(&code, bytes_ + d_.begin + byte, static_cast<std::size_t>(width_));
    return code;
  }

  void scan_row(std::int64_t start) {
    if (verify::is_integer(format_)) return;  // any value may be a result
    for (std::int64_t j = 0; j < d_.length; ++j) {
      const std::uint64_t code = code_at((start + j) * width_);
      if (code == poisoned_) {
        note(check_.unwritten, check_.first_unwritten, start, j);
      } else if (is_nan(code)) {
        note(check_.nan, check_.first_nan, start, j);
      }
    }
  }

  bool is_nan(std::uint64_t code) const {
    const double value = verify::decode(format_, code);
    return value != value;
  }

  void note(std::int64_t& count, std::int64_t (&first)[3], std::int64_t start, std::int64_t j) {
    if (count++ > 0) return;
    locate(layout_, start + j, first);
  }

  const SetLayout& layout_;
  const OperandPlace& d_;
  const unsigned char* bytes_;
  verify::Format format_;
  int width_;
  std::uint64_t poisoned_ = 0;
  SurfaceCheck check_;
};

}  // namespace

SurfaceCheck check_surface(const SetLayout& layout, std::uint32_t poison, const void* block) {
  return SurfaceScan(layout, poison, block).run();
}

std::string SurfaceCheck::complaint(bool nan_allowed) const {
  if (damaged > 0) {
    return fmt::format(
        "memory beside D was overwritten in {} places, the first {} bytes {} D's "
        "first element",
        damaged, first_damaged < 0 ? -first_damaged : first_damaged,
        first_damaged < 0 ? "before" : "after");
  }
  if (unwritten > 0) {
    return fmt::format("D[{},{}] of batch {} was not written ({} elements in all)",
                       first_unwritten[1], first_unwritten[2], first_unwritten[0], unwritten);
  }
  if (nan > 0 && !nan_allowed) {
    return fmt::format("D[{},{}] of batch {} is NaN ({} elements in all)", first_nan[1],
                       first_nan[2], first_nan[0], nan);
  }
  return {};
}

namespace {

/// The problem at another m with everything else as it is, if its leading dimensions allow it.
bool fits_at(const Problem& p, std::int64_t m) {
  if (p.a_order == Order::col_major && p.lda < m) return false;
  if (p.batch == 1) return true;
  const std::int64_t a_span =
      p.a_order == Order::row_major ? (m - 1) * p.lda + p.k : (p.k - 1) * p.lda + m;
  return (p.stride_a == 0 || p.stride_a >= a_span) && p.stride_d >= (m - 1) * p.ldd + p.n;
}

}  // namespace

Result<std::vector<CheckCase>> check_cases(const Problem& problem, std::uint64_t seed) {
  std::vector<CheckCase> cases;
  auto layout = make_set_layout(problem, false);
  if (!layout) return tl::unexpected(layout.error());
  cases.push_back({std::move(*layout), {seed, 0}, true});
  std::vector<std::int64_t> ms;
  for (const std::int64_t m : {problem.m_range.low, problem.m_range.high})
    if (m > 0 && m != problem.m && fits_at(problem, m)) ms.push_back(m);
  if (ms.empty()) ms.push_back(problem.m);
  for (const std::int64_t m : ms) {
    Problem at = problem;
    at.m = m;
    auto tight = make_set_layout(at, true);
    if (!tight) return tl::unexpected(tight.error());
    // A seed of its own: copies 1, 2 ... are the rotation's.
    cases.push_back({std::move(*tight), {verify::mix(seed + cases.size()), 0}, false});
  }
  return cases;
}

int rotation_copies(const SetLayout& layout, double rotate_bytes, double memory) {
  // Tiny operands would need millions of copies; a thousand take them out of the innermost cache.
  constexpr double kMost = 1024;
  double touched = 0;
  for (const OperandPlace& place : layout.places) touched += static_cast<double>(place.bytes());
  const double wanted = std::ceil(rotate_bytes / std::max(touched, 1.0));
  const double fitting = std::floor(memory / static_cast<double>(layout.block_bytes));
  if (fitting < 1) return 0;
  return static_cast<int>(std::max(1.0, std::min({wanted, fitting, kMost})));
}

bool may_produce_nan(const Epilogue& epilogue) {
  // Of a finite argument only these give a NaN, or an infinity that can become one.
  return std::any_of(epilogue.nodes().begin(), epilogue.nodes().end(), [](const EpilogueNode& n) {
    return n.op == "sqrt" || n.op == "rcp" || n.op == "/" || n.op == "exp";
  });
}

}  // namespace culet::benchmark

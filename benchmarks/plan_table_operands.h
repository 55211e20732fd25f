// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// Of bench_plan_table: operands in memory of the device that is measured, and what it means for two
// results to agree.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include "common.h"
#include "cuda_memory.h"
#include "culet/culet.h"

namespace plan_table {

using bench::stop;
using culet::DType;
using culet::Problem;

template <typename T>
T must(culet::Result<T> result) {
  if (!result) stop(result.error().message, culet::exit_status(result.error().code));
  if constexpr (!std::is_void_v<T>) return std::move(*result);
}

[[gnu::format(printf, 1, 2)]] inline std::string text(const char* format, ...) {
  char buffer[1024];
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(buffer, sizeof buffer, format, arguments);
  va_end(arguments);
  return buffer;
}

/// Rows behind D that must not be written.
constexpr std::int64_t kGuardRows = 64;
constexpr std::int64_t kMostCopies = 1024;

/// Memory of the device that is measured.
class Block {
 public:
  Block(std::int64_t bytes, bool cuda) {
    bytes_ = static_cast<std::size_t>(std::max<std::int64_t>(bytes, 1) + 4095) / 4096 * 4096;
    if (cuda) {
      device_.emplace(bytes_);
    } else {
      host_.reset(static_cast<char*>(std::aligned_alloc(4096, bytes_)));
      if (!host_) stop(text("no memory for %zu bytes", bytes_), 5);
    }
  }
  char* at(std::int64_t offset) const {
    return (device_ ? static_cast<char*>(device_->data()) : host_.get()) + offset;
  }
  std::size_t bytes() const { return bytes_; }
  void fill(unsigned char value) const {
    device_ ? device_->fill(value) : void(std::memset(host_.get(), value, bytes_));
  }
  void upload(const void* from, std::size_t bytes) const {
    device_ ? device_->upload(from, bytes) : void(std::memcpy(host_.get(), from, bytes));
  }
  void download(void* to, std::size_t bytes) const {
    device_ ? device_->download(to, bytes) : void(std::memcpy(to, host_.get(), bytes));
  }

 private:
  struct Free {
    void operator()(char* memory) const { std::free(memory); }
  };
  std::size_t bytes_;
  std::optional<bench::Memory> device_;
  std::unique_ptr<char, Free> host_;
};

/// The problem at exactly this m, its memory laid out as for the whole range.
inline Problem at_m(const Problem& whole, std::int64_t m) {
  Problem p = whole;
  p.m = m;
  p.m_range = {m, m};
  return must(p.validated());
}

/// Copies of the operands, as many as keep each out of the cache until its turn comes again. At any
/// m the first copy lies at the same place, and copies follow each other as closely as m allows.
class Operands {
 public:
  Operands(const Problem& whole, const std::vector<std::int64_t>& ms, double rotate, bool cuda)
      : rotate_(rotate) {
    std::int64_t a = 0, b = 0, d = 0;
    for (const std::int64_t m : ms) {
      const Problem p = at_m(whole, m);
      a = std::max(a, copies(p) * stride(p.a, p.span_a()));
      b = std::max(b, copies(p) * stride(p.b, p.span_b()));
      d = std::max(d, copies(p) * stride(p.d, p.span_d()));
    }
    a_ = random(a, whole.a, 1, 1, cuda);
    b_ = random(b, whole.b, 1.0 / static_cast<double>(std::max<std::int64_t>(whole.k, 1)), 2, cuda);
    d_ = std::make_unique<Block>(d + culet::bytes(whole.d, kGuardRows * whole.ldd), cuda);
  }
  std::int64_t copies(const Problem& p) const {
    const auto set = stride(p.a, p.span_a()) + stride(p.b, p.span_b()) + stride(p.d, p.span_d());
    const auto wanted = static_cast<std::int64_t>(std::ceil(rotate_ / static_cast<double>(set)));
    return std::clamp<std::int64_t>(wanted, 1, kMostCopies);
  }
  culet::Arguments arguments(const Problem& p, std::int64_t copy, const Block& workspace) const {
    culet::Arguments arguments;
    arguments.a = a_->at(copy * stride(p.a, p.span_a()));
    arguments.b = b_->at(copy * stride(p.b, p.span_b()));
    arguments.d = d_->at(copy * stride(p.d, p.span_d()));
    arguments.workspace = workspace.at(0);
    arguments.m = p.m;
    return arguments;
  }
  const Block& d() const { return *d_; }

 private:
  static std::int64_t stride(DType dtype, std::int64_t elements) {
    return (culet::bytes(dtype, elements) + 255) / 256 * 256;
  }
  /// tf32 gets 11 significant bits, so that its products are exact on every path.
  static std::unique_ptr<Block> random(std::int64_t bytes, DType dtype, double variance,
                                       std::uint64_t seed, bool cuda) {
    auto block = std::make_unique<Block>(bytes, cuda);
    bench::Random numbers(variance, seed);
    std::vector<std::uint16_t> halves;
    std::vector<std::uint32_t> words;
    if (dtype == DType::bf16) {
      halves.resize(block->bytes() / 2);
      for (std::uint16_t& half : halves) half = bench::to_bf16(numbers.next());
      block->upload(halves.data(), block->bytes());
    } else {
      words.resize(block->bytes() / 4);
      for (std::uint32_t& word : words) {
        const float value = numbers.next();
        std::memcpy(&word, &value, 4);
        if (dtype == DType::tf32) word &= ~std::uint32_t{0x1FFF};
      }
      block->upload(words.data(), block->bytes());
    }
    return block;
  }

  double rotate_;
  std::unique_ptr<Block> a_, b_, d_;
};

using Bytes = std::vector<unsigned char>;

/// The largest difference of two results, in shares of what two sound plans may differ by: four
/// roundings of D (of numbers of at least 1/16) and, for either, what summing k products may cost
/// (docs/numerics.md). Where `after` is said, all between and behind the elements must hold what D
/// was filled with; where it does not, or for NaN, the difference is a large number.
inline double difference(const Bytes& got, const Bytes& want, const Problem& p, bool after) {
  constexpr double kFar = 1e9;
  const auto number = [&](const Bytes& from, std::size_t index) {
    if (p.d == DType::bf16) {
      std::uint16_t half;
      std::memcpy(&half, &from[index * 2], 2);
      return static_cast<double>(bench::from_bf16(half));
    }
    float word;
    std::memcpy(&word, &from[index * 4], 4);
    return static_cast<double>(word);
  };
  const double root = std::sqrt(static_cast<double>(p.k));
  const double summing = 2 * std::ldexp(1, -24) * (4 + root) * (root + 2);
  const double rounding = 4 * std::ldexp(1, -culet::significand_bits(p.d));
  const auto size = static_cast<std::size_t>(culet::bits(p.d) / 8);
  double worst = 0;
  std::size_t checked = 0;
  const auto untouched = [&](std::size_t end) {
    for (; after && checked < end; ++checked)
      if (got[checked] != 0xFF) worst = kFar;
  };
  for (std::int64_t row = 0; row < p.m; ++row) {
    const auto begin = static_cast<std::size_t>(row * p.ldd);
    const std::size_t end = begin + static_cast<std::size_t>(p.n);
    untouched(begin * size);
    for (std::size_t i = begin; i < end; ++i) {
      const double wanted = number(want, i), off = std::fabs(number(got, i) - wanted);
      const double share = off / (rounding * std::max(std::fabs(wanted), 1.0 / 16) + summing);
      worst = std::max(worst, std::isfinite(share) ? share : kFar);
    }
    checked = end * size;
  }
  untouched(got.size());
  return worst;
}

}  // namespace plan_table

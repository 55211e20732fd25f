// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// The epilogue as a list of loops over a block of columns: each loop is one operation, simple
// enough for the compiler's vectoriser, and the block stays in the first-level cache.
#include "launch/pointwise.h"

#include <algorithm>
#include <cmath>
#include <type_traits>

#include "launch/element.h"
#include "launch/vector_math.h"

/// Before a loop whose stores meet none of its loads. Clang has a pragma like it, but warns where
/// it makes no use of it.
#if defined(__clang__)
#define CULET_NO_ALIASES
#else
#define CULET_NO_ALIASES _Pragma("GCC ivdep")
#endif

namespace culet {

namespace {

constexpr int kBlock = 256;

template <typename T>
T exp_of(T x) {
  if constexpr (std::is_same_v<T, float>) {
    return vector_exp(x);
  } else {
    return std::exp(x);
  }
}

template <typename T>
T tanh_of(T x) {
  if constexpr (std::is_same_v<T, float>) {
    return vector_tanh(x);
  } else {
    return std::tanh(x);
  }
}

/// A row of elements into floats or doubles.
template <typename T>
void load_row(DType dtype, const void* base, std::int64_t index, int count, T* out) {
  if (dtype == DType::f32) {
    const float* from = static_cast<const float*>(base) + index;
    for (int i = 0; i < count; ++i) out[i] = static_cast<T>(from[i]);
  } else if (dtype == DType::s32) {
    const auto* from = static_cast<const std::int32_t*>(base) + index;
    for (int i = 0; i < count; ++i) out[i] = static_cast<T>(from[i]);
  } else if (dtype == DType::bf16) {
    const auto* from = static_cast<const std::uint16_t*>(base) + index;
    for (int i = 0; i < count; ++i) out[i] = static_cast<T>(from_bf16_bits(from[i]));
  } else {
    for (int i = 0; i < count; ++i) out[i] = static_cast<T>(load_element(dtype, base, index + i));
  }
}

/// A float to bf16 in integer operations, which vectorise; a NaN stays one.
std::uint16_t bf16_of(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t rounded = (bits + 0x7fffU + ((bits >> 16) & 1U)) >> 16;
  const std::uint32_t quiet = (bits >> 16) | 0x40U;
  return static_cast<std::uint16_t>((bits & 0x7fffffffU) > 0x7f800000U ? quiet : rounded);
}

template <typename T>
void store_row(DType dtype, void* base, std::int64_t index, int count, const T* from) {
  if (dtype == DType::f32) {
    float* to = static_cast<float*>(base) + index;
    for (int i = 0; i < count; ++i) to[i] = static_cast<float>(from[i]);
  } else if (dtype == DType::bf16 && std::is_same_v<T, float>) {
    auto* to = static_cast<std::uint16_t*>(base) + index;
    for (int i = 0; i < count; ++i) to[i] = bf16_of(static_cast<float>(from[i]));
  } else {
    for (int i = 0; i < count; ++i) {
      store_element(dtype, base, index + i, static_cast<double>(from[i]));
    }
  }
}

// The result is a block of its own or lies exactly over an operand, so no iteration depends on
// another, which the compiler cannot know.

template <typename T, typename F>
void apply(int count, const T* x, T* out, const F& function) {
  CULET_NO_ALIASES
  for (int i = 0; i < count; ++i) out[i] = function(x[i]);
}

template <typename T, typename F>
void apply(int count, const T* x, const T* y, T* out, const F& function) {
  CULET_NO_ALIASES
  for (int i = 0; i < count; ++i) out[i] = function(x[i], y[i]);
}

}  // namespace

Pointwise::Operation::Code Pointwise::code_of(const std::string& op) {
  using Code = Operation::Code;
  static constexpr struct {
    std::string_view name;
    Code code;
  } kCodes[] = {
      {"neg", Code::neg},    {"relu", Code::relu},
      {"gelu", Code::gelu},  {"gelu_tanh", Code::gelu_tanh},
      {"silu", Code::silu},  {"sigmoid", Code::sigmoid},
      {"tanh", Code::tanh},  {"exp", Code::exp},
      {"abs", Code::abs},    {"sqrt", Code::sqrt},
      {"rcp", Code::rcp},    {"+", Code::add},
      {"-", Code::subtract}, {"*", Code::multiply},
      {"/", Code::divide},   {"max", Code::max},
      {"min", Code::min},
  };
  for (const auto& entry : kCodes) {
    if (entry.name == op) return entry.code;
  }
  return Code::acc;  // unreachable: the parser knows no other names
}

Pointwise::Pointwise(const Problem& problem, DType accumulator)
    : operands_(problem.epilogue.operands()),
      n_(problem.n),
      ldd_(problem.ldd),
      d_(problem.d),
      accumulator_(accumulator),
      in_double_(accumulator != DType::f32) {
  for (const EpilogueNode& node : problem.epilogue.nodes()) {
    Operation operation;
    switch (node.kind) {
      case EpilogueNode::Kind::acc:
        operation.code = Operation::Code::acc;
        break;
      case EpilogueNode::Kind::constant:
        operation.code = Operation::Code::constant;
        break;
      case EpilogueNode::Kind::operand:
        operation.code = Operation::Code::operand;
        break;
      default:
        operation.code = code_of(node.op);
        break;
    }
    operation.value = node.value;
    operation.operand = node.operand;
    operation.lhs = node.lhs;
    operation.rhs = node.rhs;
    operations_.push_back(operation);
  }
  assign_slots();
}

/// A slot is free again once the last operation that reads it is past, so that long expressions
/// stay in the cache.
void Pointwise::assign_slots() {
  const std::size_t count = operations_.size();
  std::vector<std::size_t> last_use(count, count);
  for (std::size_t i = 0; i < count; ++i) {
    if (operations_[i].lhs >= 0) last_use[static_cast<std::size_t>(operations_[i].lhs)] = i;
    if (operations_[i].rhs >= 0) last_use[static_cast<std::size_t>(operations_[i].rhs)] = i;
  }
  std::vector<int> free;
  slots_ = 0;
  for (std::size_t i = 0; i < count; ++i) {
    // An operation may write over an operand it is the last to read: its loops go index by index.
    for (std::size_t j = 0; j < i; ++j) {
      if (last_use[j] == i) free.push_back(operations_[j].slot);
    }
    if (free.empty()) {
      operations_[i].slot = slots_++;
    } else {
      operations_[i].slot = free.back();
      free.pop_back();
    }
  }
}

std::size_t Pointwise::scratch_bytes() const {
  return static_cast<std::size_t>(slots_) * kBlock * (in_double_ ? sizeof(double) : sizeof(float));
}

template <typename T>
void Pointwise::load(const Operation& operation, const Part& part, std::int64_t row,
                     std::int64_t column, int count, T* out) const {
  if (operation.code == Operation::Code::acc) {
    return load_row(accumulator_, part.accumulator, row * n_ + column, count, out);
  }
  if (operation.code == Operation::Code::constant) {
    std::fill_n(out, count, static_cast<T>(operation.value));
    return;
  }
  const EpilogueOperand& operand = operands_[static_cast<std::size_t>(operation.operand)];
  const void* base = part.extra[operation.operand];
  switch (operand.index) {
    case EpilogueIndex::scalar:
      std::fill_n(out, count, static_cast<T>(load_element(operand.dtype, base, 0)));
      return;
    case EpilogueIndex::row:
      std::fill_n(out, count, static_cast<T>(load_element(operand.dtype, base, row)));
      return;
    case EpilogueIndex::column:
      return load_row(operand.dtype, base, column, count, out);
    case EpilogueIndex::full:
      return load_row(operand.dtype, base, row * ldd_ + column, count, out);
  }
}

template <typename T>
void Pointwise::evaluate(const Part& part, std::int64_t row, std::int64_t column, int count,
                         T* scratch) const {
  using Code = Operation::Code;
  constexpr T kSqrtHalf = static_cast<T>(0.70710678118654752440);
  constexpr T kSqrt2OverPi = static_cast<T>(0.79788456080286535588);
  constexpr T kOne = 1;
  const auto block = [&](int index) {
    return scratch + operations_[static_cast<std::size_t>(index)].slot * kBlock;
  };
  for (const Operation& operation : operations_) {
    T* out = scratch + operation.slot * kBlock;
    const T* x = operation.lhs >= 0 ? block(operation.lhs) : nullptr;
    const T* y = operation.rhs >= 0 ? block(operation.rhs) : nullptr;
    const auto unary = [&](const auto& function) { apply(count, x, out, function); };
    const auto binary = [&](const auto& function) { apply(count, x, y, out, function); };
    switch (operation.code) {
      case Code::acc:
      case Code::constant:
      case Code::operand:
        load(operation, part, row, column, count, out);
        break;
      case Code::neg:
        unary([](T v) { return -v; });
        break;
      case Code::relu:
        unary([](T v) { return v < 0 ? T{0} : v; });
        break;
      case Code::gelu:
        unary([&](T v) { return static_cast<T>(0.5) * v * (kOne + std::erf(v * kSqrtHalf)); });
        break;
      case Code::gelu_tanh:
        // 0.5 * (1 + tanh(y)) is 1 / (1 + exp(-2 y)).
        unary([&](T v) {
          const T inner = kSqrt2OverPi * (v + static_cast<T>(0.044715) * v * v * v);
          return v / (kOne + exp_of(-2 * inner));
        });
        break;
      case Code::silu:
        unary([&](T v) { return v / (kOne + exp_of(-v)); });
        break;
      case Code::sigmoid:
        unary([&](T v) { return kOne / (kOne + exp_of(-v)); });
        break;
      case Code::tanh:
        unary([](T v) { return tanh_of(v); });
        break;
      case Code::exp:
        unary([](T v) { return exp_of(v); });
        break;
      case Code::abs:
        unary([](T v) { return std::fabs(v); });
        break;
      case Code::sqrt:
        unary([](T v) { return std::sqrt(v); });
        break;
      case Code::rcp:
        unary([&](T v) { return kOne / v; });
        break;
      case Code::add:
        binary([](T v, T w) { return v + w; });
        break;
      case Code::subtract:
        binary([](T v, T w) { return v - w; });
        break;
      case Code::multiply:
        binary([](T v, T w) { return v * w; });
        break;
      case Code::divide:
        binary([](T v, T w) { return v / w; });
        break;
      case Code::max:
        binary([](T v, T w) { return v > w || v != v ? v : w; });
        break;
      case Code::min:
        binary([](T v, T w) { return v < w || v != v ? v : w; });
        break;
    }
  }
}

template <typename T>
void Pointwise::run_in(const Part& part, T* scratch) const {
  const T* result = scratch + operations_.back().slot * kBlock;
  for (std::int64_t row = part.m_begin; row < part.m_end; ++row) {
    for (std::int64_t column = part.n_begin; column < part.n_end; column += kBlock) {
      const int count = static_cast<int>(std::min<std::int64_t>(kBlock, part.n_end - column));
      evaluate(part, row, column, count, scratch);
      store_row(d_, part.d, row * ldd_ + column, count, result);
    }
  }
}

void Pointwise::run(const Part& part, void* scratch) const {
  if (in_double_) {
    run_in(part, static_cast<double*>(scratch));
  } else {
    run_in(part, static_cast<float*>(scratch));
  }
}

}  // namespace culet

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// The constants of the numerics contract, and the error bound's way through the epilogue.
#include "benchmark/tolerance.h"

#include <fmt/format.h>

#include <cassert>
#include <cmath>
#include <vector>

namespace culet::benchmark {
namespace {

using verify::Bounded;
using verify::EpilogueAccuracy;

bool is_float8(DType dtype) { return dtype == DType::e4m3 || dtype == DType::e5m2; }

/// Bound of the accumulation error over sum |a*b|. `unit` is the rounding of one addition. The
/// worst case of k additions grows with k. But operands have random signs here, so partial sums are
/// of the order of sqrt(k) and sum |a*b| of the order of k: even tensor cores, which truncate, once
/// per 8 products or more, stay below sqrt(k)/3 units, and additions that round stay far below
/// that. The 4 covers short sums. Split-k adds a handful of further roundings.
double accumulation_factor(const Problem& p, DeviceKind device) {
  const double root = std::sqrt(static_cast<double>(p.k));
  switch (p.accumulate) {
    case Accumulate::s32:
      return 0;
    case Accumulate::f16:
      return std::ldexp(4 + root, -11);
    case Accumulate::f64:
      return std::ldexp(2 * (4 + root), -53);  // the reference itself is computed in f64
    case Accumulate::fast:
      // 8-bit floats on tensor cores: additions keep 13 bits or so below the largest addend and
      // truncate; one instruction adds 32 products.
      if (is_float8(p.a) && device == DeviceKind::cuda) return std::ldexp(1 + root / 16, -13);
      break;
    case Accumulate::f32:
      break;
  }
  const double f32 = std::ldexp(4 + root, -24);
  // Even where partial sums of 8-bit floats are promoted to f32, the tensor core adds the products
  // within a partial sum (128 of them, usually) as above.
  if (is_float8(p.a) && device == DeviceKind::cuda) return f32 + std::ldexp(1.0, -13);
  return f32;
}

Bounded apply_unary(const std::string& op, Bounded x, const EpilogueAccuracy& a) {
  if (op == "neg") return verify::negate(x);
  if (op == "relu") return verify::relu(x);
  if (op == "gelu") return verify::gelu(x, a);
  if (op == "gelu_tanh") return verify::gelu_tanh(x, a);
  if (op == "silu") return verify::silu(x, a);
  if (op == "sigmoid") return verify::sigmoid(x, a);
  if (op == "tanh") return verify::hyperbolic_tangent(x, a);
  if (op == "exp") return verify::exponential(x, a);
  if (op == "abs") return verify::absolute(x);
  if (op == "sqrt") return verify::square_root(x, a);
  if (op == "rcp") return verify::reciprocal(x, a);
  assert(false && "unknown unary operation");
  return verify::exact(std::nan(""));
}

Bounded apply_binary(const std::string& op, Bounded x, Bounded y, const EpilogueAccuracy& a) {
  if (op == "+") return verify::add(x, y, a);
  if (op == "-") return verify::subtract(x, y, a);
  if (op == "*") return verify::multiply(x, y, a);
  if (op == "/") return verify::divide(x, y, a);
  if (op == "max") return verify::maximum(x, y);
  if (op == "min") return verify::minimum(x, y);
  assert(false && "unknown binary operation");
  return verify::exact(std::nan(""));
}

/// Name and whether it takes the accuracy, of the function of running_error.h for an operation.
std::pair<std::string_view, bool> device_function(const std::string& op) {
  static const struct {
    std::string_view op, function;
    bool accuracy;
  } kTable[] = {
      {"neg", "negate", false},     {"relu", "relu", false},
      {"gelu", "gelu", true},       {"gelu_tanh", "gelu_tanh", true},
      {"silu", "silu", true},       {"sigmoid", "sigmoid", true},
      {"exp", "exponential", true}, {"tanh", "hyperbolic_tangent", true},
      {"abs", "absolute", false},   {"sqrt", "square_root", true},
      {"rcp", "reciprocal", true},  {"+", "add", true},
      {"-", "subtract", true},      {"*", "multiply", true},
      {"/", "divide", true},        {"max", "maximum", false},
      {"min", "minimum", false},
  };
  for (const auto& row : kTable)
    if (row.op == op) return {row.function, row.accuracy};
  assert(false && "unknown operation");
  return {"", false};
}

}  // namespace

Tolerance Tolerance::of(const Problem& p, DeviceKind device) {
  Tolerance t;
  t.accumulation = accumulation_factor(p, device);
  const bool doubles = p.accumulate == Accumulate::f64;
  // Two roundings each: contraction and re-association within the epilogue are allowed.
  t.epilogue.rounding = doubles ? 0x1p-52 : 0x1p-23;
  // Those of epilogue_math.h are good to 3e-7; libraries' are no worse.
  t.epilogue.function = doubles ? 0x1p-46 : 0x1p-20;
  // Except that on a GPU tanh is an instruction, good to 2^-11, which vendor libraries fuse.
  t.epilogue.gelu_tanh = device == DeviceKind::cuda && !doubles ? 0x1p-10 : t.epilogue.function;
  const bool integers = p.accumulate == Accumulate::s32;
  t.exact_store = integers && p.epilogue.is_identity() && is_integer(p.d);
  // An s32 sum beyond 2^24 is rounded on its way to f32.
  t.conversion = integers && !t.exact_store ? 0x1p-23 : 0;
  return t;
}

Bounded evaluate(const Epilogue& epilogue, Bounded acc, const double* operands,
                 const EpilogueAccuracy& accuracy) {
  const auto& nodes = epilogue.nodes();
  Bounded small[32];
  std::vector<Bounded> large(nodes.size() > 32 ? nodes.size() : 0);
  Bounded* values = large.empty() ? small : large.data();
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    const EpilogueNode& node = nodes[i];
    switch (node.kind) {
      case EpilogueNode::Kind::acc:
        values[i] = acc;
        break;
      case EpilogueNode::Kind::constant:
        // Kernels hold constants in single precision.
        values[i] = {node.value, accuracy.rounding / 2 * std::fabs(node.value)};
        break;
      case EpilogueNode::Kind::operand:
        values[i] = verify::exact(operands[node.operand]);
        break;
      case EpilogueNode::Kind::unary:
        values[i] = apply_unary(node.op, values[node.lhs], accuracy);
        break;
      case EpilogueNode::Kind::binary:
        values[i] = apply_binary(node.op, values[node.lhs], values[node.rhs], accuracy);
        break;
    }
  }
  return values[nodes.size() - 1];
}

std::string evaluate_source(const Epilogue& epilogue) {
  std::string text;
  const auto& nodes = epilogue.nodes();
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    const EpilogueNode& node = nodes[i];
    text += fmt::format("  const Bounded v{} = ", i);
    switch (node.kind) {
      case EpilogueNode::Kind::acc:
        text += "acc";
        break;
      case EpilogueNode::Kind::constant:
        text += fmt::format("{{{0:.17e}, a.rounding / 2 * {1:.17e}}}", node.value,
                            std::fabs(node.value));
        break;
      case EpilogueNode::Kind::operand:
        text += fmt::format("exact(operands[{}])", node.operand);
        break;
      case EpilogueNode::Kind::unary: {
        const auto [name, accuracy] = device_function(node.op);
        text += fmt::format("{}(v{}{})", name, node.lhs, accuracy ? ", a" : "");
        break;
      }
      case EpilogueNode::Kind::binary: {
        const auto [name, accuracy] = device_function(node.op);
        text += fmt::format("{}(v{}, v{}{})", name, node.lhs, node.rhs, accuracy ? ", a" : "");
        break;
      }
    }
    text += ";\n";
  }
  return text + fmt::format("  return v{};\n", nodes.size() - 1);
}

}  // namespace culet::benchmark

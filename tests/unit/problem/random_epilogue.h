// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// Random epilogues as text, with an evaluation that shares nothing with the library's: it follows
// the grammar straight from a tree of its own.
#pragma once

#include <cmath>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

namespace culet::testing_support {

struct Expr {
  std::string op;  ///< "number", "acc", "operand", "neg", a function, or + - * /
  double number = 0;
  std::string name;  ///< of an operand, without index
  std::string text;  ///< of an operand, with index and dtype
  std::unique_ptr<Expr> x, y;
};

inline double evaluate(const Expr& e, double acc, const std::map<std::string, double>& operands) {
  if (e.op == "number") return e.number;
  if (e.op == "acc") return acc;
  if (e.op == "operand") return operands.at(e.name);
  const double x = evaluate(*e.x, acc, operands);
  if (e.op == "neg") return -x;
  if (e.op == "relu") return x < 0 ? 0 : x;
  if (e.op == "gelu") return x * 0.5 * (1 + std::erf(x / std::sqrt(2.0)));
  if (e.op == "gelu_tanh") {
    return 0.5 * x *
           (1 + std::tanh(std::sqrt(2 / 3.14159265358979323846) * (x + 0.044715 * std::pow(x, 3))));
  }
  if (e.op == "silu") return x / (1 + std::exp(-x));
  if (e.op == "sigmoid") return 1 / (1 + std::exp(-x));
  if (e.op == "tanh") return std::tanh(x);
  if (e.op == "exp") return std::exp(x);
  if (e.op == "abs") return std::abs(x);
  if (e.op == "sqrt") return std::sqrt(x);
  if (e.op == "rcp") return 1 / x;
  const double y = evaluate(*e.y, acc, operands);
  if (e.op == "+") return x + y;
  if (e.op == "-") return x - y;
  if (e.op == "*") return x * y;
  if (e.op == "/") return x / y;
  const bool nan = std::isnan(x) || std::isnan(y);
  if (e.op == "max") return nan ? std::nan("") : std::max(x, y);
  if (e.op == "min") return nan ? std::nan("") : std::min(x, y);
  return std::nan("");
}

class RandomEpilogue {
 public:
  explicit RandomEpilogue(std::uint64_t seed) : random_(seed) {}

  std::unique_ptr<Expr> expression(int depth) {
    auto e = std::make_unique<Expr>();
    const int kind = pick(depth <= 0 ? 3 : 9);
    if (kind == 0) {
      e->op = "acc";
    } else if (kind == 1) {
      e->op = "number";
      static const double kNumbers[] = {0, 1, 2, 0.5, 0.1, 3.25, 1e-3, 1e10, 123456789, 0.044715};
      e->number = kNumbers[pick(10)];
    } else if (kind == 2) {
      static const char* kOperands[] = {"bias[n]",  "c[m,n]", "s",
                                        "r[m]:f32", "t:f16",  "x_1[n]:e4m3"};
      e->op = "operand";
      e->text = kOperands[pick(6)];
      e->name = e->text.substr(0, e->text.find_first_of("[:"));
    } else if (kind == 3) {
      e->op = "neg";
      e->x = expression(depth - 1);
    } else if (kind == 4) {
      static const char* kUnary[] = {"relu", "gelu", "gelu_tanh", "silu", "sigmoid",
                                     "tanh", "exp",  "abs",       "sqrt", "rcp"};
      e->op = kUnary[pick(10)];
      e->x = expression(depth - 1);
    } else {
      static const char* kBinary[] = {"+", "-", "*", "/", "max", "min"};
      e->op = kBinary[pick(6)];
      e->x = expression(depth - 1);
      e->y = expression(depth - 1);
    }
    return e;
  }

  // Every compound is put in parentheses, so the text's meaning needs no rules of precedence.
  std::string print(const Expr& e) {
    const std::string gap(static_cast<std::size_t>(pick(2)), ' ');
    if (e.op == "number") return number(e.number);
    if (e.op == "acc") return "acc";
    if (e.op == "operand") return e.text;
    if (e.op == "neg") return "(-" + gap + print(*e.x) + ")";
    if (!e.y) return e.op + "(" + gap + print(*e.x) + ")";
    if (e.op.size() > 1) return e.op + "(" + print(*e.x) + "," + gap + print(*e.y) + ")";
    return "(" + print(*e.x) + gap + e.op + gap + print(*e.y) + ")";
  }

  int pick(int count) { return static_cast<int>(random_() % static_cast<std::uint64_t>(count)); }
  std::mt19937_64& random() { return random_; }

 private:
  static std::string number(double value) {
    char buffer[40];
    std::snprintf(buffer, sizeof buffer, "%.17g", value);
    return buffer;
  }
  std::mt19937_64 random_;
};

}  // namespace culet::testing_support

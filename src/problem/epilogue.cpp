// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// What an epilogue can be asked: its text, its value in double precision, and whether a vendor
// library could fuse it.
#include "culet/epilogue.h"

#include <fmt/format.h>

#include <cassert>
#include <charconv>
#include <cmath>

#include "problem/epilogue_tree.h"

namespace culet {
namespace {

// Binding strength: a sum, a product, a sign, and what needs no parentheses anywhere.
enum Strength { kSum = 1, kProduct, kSign, kAtom };

bool is_infix(const std::string& op) {
  return op.size() == 1 && std::string_view("+-*/").find(op[0]) != std::string_view::npos;
}

Strength strength(const EpilogueNode& node) {
  switch (node.kind) {
    case EpilogueNode::Kind::constant:
      return std::signbit(node.value) ? kSign : kAtom;
    case EpilogueNode::Kind::unary:
      return node.op == "neg" ? kSign : kAtom;
    case EpilogueNode::Kind::binary:
      if (!is_infix(node.op)) return kAtom;
      return node.op == "+" || node.op == "-" ? kSum : kProduct;
    default:
      return kAtom;
  }
}

class Printer {
 public:
  explicit Printer(const Epilogue& epilogue)
      : epilogue_(epilogue), dtype_printed_(epilogue.operands().size(), false) {}

  std::string run() {
    print(static_cast<int>(epilogue_.nodes().size()) - 1, kSum);
    return std::move(out_);
  }

 private:
  void print(int index, int minimum) {
    const EpilogueNode& node = epilogue_.nodes()[static_cast<std::size_t>(index)];
    const bool parentheses = strength(node) < minimum;
    if (parentheses) out_ += '(';
    switch (node.kind) {
      case EpilogueNode::Kind::acc:
        out_ += "acc";
        break;
      case EpilogueNode::Kind::constant:
        print_number(node.value);
        break;
      case EpilogueNode::Kind::operand:
        print_operand(static_cast<std::size_t>(node.operand));
        break;
      case EpilogueNode::Kind::unary:
        print_unary(node);
        break;
      case EpilogueNode::Kind::binary:
        print_binary(node);
        break;
    }
    if (parentheses) out_ += ')';
  }

  void print_unary(const EpilogueNode& node) {
    if (node.op == "neg") {
      out_ += '-';
      print(node.lhs, kSign);
      return;
    }
    out_ += node.op;
    out_ += '(';
    print(node.lhs, kSum);
    out_ += ')';
  }

  void print_binary(const EpilogueNode& node) {
    if (is_infix(node.op)) {
      const int own = strength(node);
      print(node.lhs, own);
      out_ += ' ';
      out_ += node.op;
      out_ += ' ';
      print(node.rhs, own + 1);  // operators group from the left
      return;
    }
    out_ += node.op;
    out_ += '(';
    print(node.lhs, kSum);
    out_ += ", ";
    print(node.rhs, kSum);
    out_ += ')';
  }

  void print_number(double value) {
    char buffer[40];
    const auto end = std::to_chars(buffer, buffer + sizeof buffer, value).ptr;
    out_.append(buffer, end);
  }

  void print_operand(std::size_t index) {
    static constexpr std::string_view kIndices[] = {"", "[m]", "[n]", "[m,n]"};
    const EpilogueOperand& operand = epilogue_.operands()[index];
    out_ += operand.name;
    out_ += kIndices[static_cast<std::size_t>(operand.index)];
    if (operand.dtype_given && !dtype_printed_[index]) {
      out_ += ':';
      out_ += to_string(operand.dtype);
      dtype_printed_[index] = true;
    }
  }

  const Epilogue& epilogue_;
  std::vector<bool> dtype_printed_;
  std::string out_;
};

// alpha*acc + beta*c[m,n] + gamma*bias[n] + constant, as far as an expression is of that form.
struct Linear {
  bool valid = false;
  double acc = 0, full = 0, column = 0, constant = 0;
  int full_operand = -1, column_operand = -1;

  bool is_constant() const { return valid && acc == 0 && full_operand < 0 && column_operand < 0; }
};

Linear scaled(Linear x, double factor) {
  x.acc *= factor;
  x.full *= factor;
  x.column *= factor;
  x.constant *= factor;
  return x;
}

bool same_operand(int x, int y) { return x < 0 || y < 0 || x == y; }

Linear sum(const Linear& x, const Linear& y) {
  Linear r;
  r.valid = x.valid && y.valid && same_operand(x.full_operand, y.full_operand) &&
            same_operand(x.column_operand, y.column_operand);
  r.acc = x.acc + y.acc;
  r.full = x.full + y.full;
  r.column = x.column + y.column;
  r.constant = x.constant + y.constant;
  r.full_operand = std::max(x.full_operand, y.full_operand);
  r.column_operand = std::max(x.column_operand, y.column_operand);
  return r;
}

Linear linear_operand(const EpilogueOperand& operand, int index) {
  Linear r;
  if (operand.index == EpilogueIndex::full) {
    r.valid = true;
    r.full = 1;
    r.full_operand = index;
  } else if (operand.index == EpilogueIndex::column) {
    r.valid = true;
    r.column = 1;
    r.column_operand = index;
  }
  return r;
}

Linear linear_binary(const std::string& op, const Linear& x, const Linear& y) {
  if (op == "+") return sum(x, y);
  if (op == "-") return sum(x, scaled(y, -1));
  if (op == "*" && y.is_constant() && x.valid) return scaled(x, y.constant);
  if (op == "*" && x.is_constant() && y.valid) return scaled(y, x.constant);
  if (op == "/" && y.is_constant() && x.valid && y.constant != 0) {
    return scaled(x, 1 / y.constant);
  }
  return {};
}

std::vector<Linear> linear_forms(const Epilogue& epilogue) {
  std::vector<Linear> forms;
  for (const EpilogueNode& node : epilogue.nodes()) {
    Linear form;
    switch (node.kind) {
      case EpilogueNode::Kind::acc:
        form.valid = true;
        form.acc = 1;
        break;
      case EpilogueNode::Kind::constant:
        form.valid = true;
        form.constant = node.value;
        break;
      case EpilogueNode::Kind::operand:
        form = linear_operand(epilogue.operands()[static_cast<std::size_t>(node.operand)],
                              node.operand);
        break;
      case EpilogueNode::Kind::unary:
        if (node.op == "neg") form = scaled(forms[static_cast<std::size_t>(node.lhs)], -1);
        break;
      case EpilogueNode::Kind::binary:
        form = linear_binary(node.op, forms[static_cast<std::size_t>(node.lhs)],
                             forms[static_cast<std::size_t>(node.rhs)]);
        break;
    }
    forms.push_back(form);
  }
  return forms;
}

}  // namespace

const EpilogueFunction* find_epilogue_function(std::string_view name) {
  for (const EpilogueFunction& function : kEpilogueFunctions) {
    if (function.name == name) return &function;
  }
  return nullptr;
}

// relu, max and min pass a NaN on, as the kernels' versions do (src/kernels/epilogue_math.h).
double apply_unary(std::string_view op, double x) {
  constexpr double kSqrtHalf = 0.70710678118654752440;
  constexpr double kSqrt2OverPi = 0.79788456080286535588;
  if (op == "neg") return -x;
  if (op == "relu") return x < 0 ? 0 : x;
  if (op == "gelu") return 0.5 * x * (1 + std::erf(x * kSqrtHalf));
  if (op == "gelu_tanh") {
    return 0.5 * x * (1 + std::tanh(kSqrt2OverPi * (x + 0.044715 * x * x * x)));
  }
  if (op == "silu") return x / (1 + std::exp(-x));
  if (op == "sigmoid") return 1 / (1 + std::exp(-x));
  if (op == "tanh") return std::tanh(x);
  if (op == "exp") return std::exp(x);
  if (op == "abs") return std::fabs(x);
  if (op == "sqrt") return std::sqrt(x);
  if (op == "rcp") return 1 / x;
  assert(false && "unknown unary operation");
  return std::nan("");
}

double apply_binary(std::string_view op, double x, double y) {
  if (op == "+") return x + y;
  if (op == "-") return x - y;
  if (op == "*") return x * y;
  if (op == "/") return x / y;
  if (op == "max") return x > y || x != x ? x : y;
  if (op == "min") return x < y || x != x ? x : y;
  assert(false && "unknown binary operation");
  return std::nan("");
}

Epilogue::Epilogue() {
  static const std::shared_ptr<const Tree> identity =
      std::make_shared<const Tree>(Tree{{EpilogueNode{}}, {}});
  tree_ = identity;
}

std::string Epilogue::text() const { return Printer(*this).run(); }

bool Epilogue::is_identity() const {
  return tree_->nodes.size() == 1 && tree_->nodes[0].kind == EpilogueNode::Kind::acc;
}

const std::vector<EpilogueNode>& Epilogue::nodes() const { return tree_->nodes; }

const std::vector<EpilogueOperand>& Epilogue::operands() const { return tree_->operands; }

Epilogue Epilogue::with_default_dtype(DType dtype) const {
  bool changes = false;
  for (const EpilogueOperand& operand : operands()) {
    changes |= operand.dtype_given == (operand.dtype == dtype);
  }
  if (!changes) return *this;
  Tree tree = *tree_;
  for (EpilogueOperand& operand : tree.operands) {
    if (!operand.dtype_given) operand.dtype = dtype;
    operand.dtype_given = operand.dtype != dtype;
  }
  Epilogue result;
  result.tree_ = std::make_shared<const Tree>(std::move(tree));
  return result;
}

double Epilogue::evaluate(double acc, const std::vector<double>& operand_values) const {
  assert(operand_values.size() >= operands().size());
  const std::vector<EpilogueNode>& all = nodes();
  // Most epilogues are small; the reference calls this for every element.
  double small[32];
  std::vector<double> large(all.size() > 32 ? all.size() : 0);
  double* values = large.empty() ? small : large.data();
  for (std::size_t i = 0; i < all.size(); ++i) {
    const EpilogueNode& node = all[i];
    switch (node.kind) {
      case EpilogueNode::Kind::acc:
        values[i] = acc;
        break;
      case EpilogueNode::Kind::constant:
        values[i] = node.value;
        break;
      case EpilogueNode::Kind::operand:
        values[i] = operand_values[static_cast<std::size_t>(node.operand)];
        break;
      case EpilogueNode::Kind::unary:
        values[i] = apply_unary(node.op, values[node.lhs]);
        break;
      case EpilogueNode::Kind::binary:
        values[i] = apply_binary(node.op, values[node.lhs], values[node.rhs]);
        break;
    }
  }
  return values[all.size() - 1];
}

bool Epilogue::as_affine(Affine* out) const {
  const std::vector<EpilogueNode>& all = nodes();
  std::size_t top = all.size() - 1;
  Affine affine;
  const EpilogueNode& last = all[top];
  if (last.kind == EpilogueNode::Kind::unary && (last.op == "relu" || last.op == "gelu_tanh")) {
    affine.activation = last.op;
    top = static_cast<std::size_t>(last.lhs);
  }
  const Linear form = linear_forms(*this)[top];
  // A factor of zero is not the same as an absent operand: 0 * inf is not 0.
  if (!form.valid || form.constant != 0 || form.acc == 0) return false;
  if (form.full_operand >= 0 && form.full == 0) return false;
  if (form.column_operand >= 0 && form.column != 1) return false;
  affine.alpha = form.acc;
  affine.beta = form.full;
  affine.c = form.full_operand;
  affine.bias = form.column_operand;
  if (out != nullptr) *out = affine;
  return true;
}

}  // namespace culet

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// A recursive-descent parser of epilogue expressions that shares common subexpressions as it goes.
// Length and depth are limited, so that no input can exhaust time or the stack.
#include <fmt/format.h>

#include <bit>
#include <charconv>
#include <map>
#include <string>
#include <tuple>

#include "culet/epilogue.h"
#include "problem/epilogue_tree.h"

namespace culet {
namespace {

constexpr std::size_t kMaxLength = 4096;  // characters: far beyond any epilogue that would be fast
constexpr std::size_t kMaxName = 40;
constexpr std::size_t kMaxOperands = 32;  // each is an argument of the kernel
constexpr int kMaxDepth = 100;            // nested parentheses, calls and signs

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }

/// Nodes found so far, each expression once.
class Builder {
 public:
  int acc() { return add({}); }

  int constant(double value) {
    EpilogueNode node;
    node.kind = EpilogueNode::Kind::constant;
    node.value = value;
    return add(std::move(node));
  }

  int operand(int index) {
    EpilogueNode node;
    node.kind = EpilogueNode::Kind::operand;
    node.operand = index;
    return add(std::move(node));
  }

  int unary(std::string_view op, int x) {
    // -3 is a number, not an operation on one; it prints and parses back as itself.
    if (op == "neg" && nodes[static_cast<std::size_t>(x)].kind == EpilogueNode::Kind::constant) {
      return constant(-nodes[static_cast<std::size_t>(x)].value);
    }
    EpilogueNode node;
    node.kind = EpilogueNode::Kind::unary;
    node.op = std::string(op);
    node.lhs = x;
    return add(std::move(node));
  }

  int binary(std::string_view op, int x, int y) {
    EpilogueNode node;
    node.kind = EpilogueNode::Kind::binary;
    node.op = std::string(op);
    node.lhs = x;
    node.rhs = y;
    return add(std::move(node));
  }

  /// Drops nodes the result does not need (the 3 that became -3); the order of the others stays.
  std::vector<EpilogueNode> finish(int result) const;

  std::vector<EpilogueNode> nodes;

 private:
  int add(EpilogueNode node) {
    const Key key{static_cast<int>(node.kind),
                  std::bit_cast<std::uint64_t>(node.value),
                  node.operand,
                  node.op,
                  node.lhs,
                  node.rhs};
    const auto [it, is_new] = known_.try_emplace(key, static_cast<int>(nodes.size()));
    if (is_new) nodes.push_back(std::move(node));
    return it->second;
  }

  using Key = std::tuple<int, std::uint64_t, int, std::string, int, int>;
  std::map<Key, int> known_;
};

std::vector<EpilogueNode> Builder::finish(int result) const {
  std::vector<bool> used(nodes.size(), false);
  used[static_cast<std::size_t>(result)] = true;
  for (std::size_t i = nodes.size(); i-- > 0;) {
    if (!used[i]) continue;
    if (nodes[i].lhs >= 0) used[static_cast<std::size_t>(nodes[i].lhs)] = true;
    if (nodes[i].rhs >= 0) used[static_cast<std::size_t>(nodes[i].rhs)] = true;
  }
  std::vector<EpilogueNode> kept;
  std::vector<int> place(nodes.size(), -1);
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    if (!used[i]) continue;
    EpilogueNode node = nodes[i];
    if (node.lhs >= 0) node.lhs = place[static_cast<std::size_t>(node.lhs)];
    if (node.rhs >= 0) node.rhs = place[static_cast<std::size_t>(node.rhs)];
    place[i] = static_cast<int>(kept.size());
    kept.push_back(std::move(node));
  }
  return kept;
}

class Parser {
 public:
  Parser(std::string_view text, DType default_dtype) : text_(text), default_dtype_(default_dtype) {}

  /// Fills `nodes` and `operands`.
  Result<void> run() {
    if (text_.size() > kMaxLength) {
      return error(kMaxLength, fmt::format("longer than {} characters", kMaxLength));
    }
    const Result<int> result = sum();
    if (!result) return tl::unexpected<Error>(result.error());
    if (peek() != '\0' || position_ < text_.size()) return unexpected("an operator or the end");
    nodes = builder_.finish(*result);
    return {};
  }

  std::vector<EpilogueNode> nodes;
  std::vector<EpilogueOperand> operands;

 private:
  char peek() {
    while (position_ < text_.size() && (text_[position_] == ' ' || text_[position_] == '\t')) {
      ++position_;
    }
    return position_ < text_.size() ? text_[position_] : '\0';
  }

  bool accept(char c) {
    if (peek() != c || position_ >= text_.size()) return false;
    ++position_;
    return true;
  }

  tl::unexpected<Error> error(std::size_t position, const std::string& message) const {
    return fail(ErrorCode::invalid_argument,
                fmt::format("epi: column {}: {}", position + 1, message));
  }

  tl::unexpected<Error> unexpected(std::string_view wanted) {
    peek();
    if (position_ >= text_.size()) {
      return error(position_, fmt::format("the expression ends, {} was expected", wanted));
    }
    const unsigned char c = static_cast<unsigned char>(text_[position_]);
    if (c == ';' || c == '=') {
      return error(position_, "statements (';' and '=') are not supported in this version");
    }
    const std::string shown =
        c >= 0x20 && c < 0x7f ? fmt::format("'{}'", text_[position_]) : fmt::format("byte {}", c);
    return error(position_, fmt::format("{} found, {} was expected", shown, wanted));
  }

  Result<int> sum() {
    Result<int> left = product();
    while (left) {
      const bool plus = accept('+');
      if (!plus && !accept('-')) break;
      const Result<int> right = product();
      if (!right) return right;
      left = builder_.binary(plus ? "+" : "-", *left, *right);
    }
    return left;
  }

  Result<int> product() {
    Result<int> left = sign();
    while (left) {
      const bool times = accept('*');
      if (!times && !accept('/')) break;
      const Result<int> right = sign();
      if (!right) return right;
      left = builder_.binary(times ? "*" : "/", *left, *right);
    }
    return left;
  }

  Result<int> sign() {
    if (!accept('-')) return atom();
    if (++depth_ > kMaxDepth) return too_deep();
    const Result<int> inner = sign();
    --depth_;
    if (!inner) return inner;
    return builder_.unary("neg", *inner);
  }

  tl::unexpected<Error> too_deep() const {
    return error(position_, fmt::format("nested deeper than {}", kMaxDepth));
  }

  Result<int> atom() {
    const char c = peek();
    if (is_digit(c) || c == '.') return number();
    if (is_letter(c)) return name();
    if (!accept('(')) return unexpected("a number, acc, an operand, a function or '('");
    if (++depth_ > kMaxDepth) return too_deep();
    const Result<int> inner = sum();
    --depth_;
    if (!inner) return inner;
    if (!accept(')')) return unexpected("')'");
    return inner;
  }

  Result<int> number() {
    const std::size_t start = position_;
    double value = 0;
    const char* begin = text_.data() + position_;
    const auto [end, code] = std::from_chars(begin, text_.data() + text_.size(), value);
    if (code == std::errc::result_out_of_range) {
      return error(start, "the number does not fit into double precision");
    }
    if (code != std::errc()) return error(start, "not a number");
    position_ += static_cast<std::size_t>(end - begin);
    return builder_.constant(value);
  }

  std::string_view word() {
    const std::size_t start = position_;
    while (position_ < text_.size() &&
           (is_letter(text_[position_]) || is_digit(text_[position_]))) {
      ++position_;
    }
    return text_.substr(start, position_ - start);
  }

  Result<int> name() {
    const std::size_t start = position_;
    const std::string_view id = word();
    if (id == "acc") {
      if (peek() == '[') return error(position_, "acc takes no index");
      return builder_.acc();
    }
    const EpilogueFunction* function = find_epilogue_function(id);
    if (peek() == '(') {
      if (function == nullptr) return unknown_function(start, id);
      return call(start, *function);
    }
    if (function != nullptr) {
      return error(start, fmt::format("{} is a function: write {}(...)", id, id));
    }
    return operand(start, id);
  }

  tl::unexpected<Error> unknown_function(std::size_t start, std::string_view id) const {
    std::string known;
    for (const EpilogueFunction& f : kEpilogueFunctions) {
      known += known.empty() ? "" : " ";
      known += f.name;
    }
    return error(start, fmt::format("unknown function '{}'; known: {}", id.substr(0, 40), known));
  }

  Result<int> call(std::size_t start, const EpilogueFunction& function) {
    accept('(');
    if (++depth_ > kMaxDepth) return too_deep();
    const Result<int> first = sum();
    if (!first) return first;
    Result<int> second = -1;
    int count = 1;
    while (accept(',')) {
      second = sum();
      if (!second) return second;
      ++count;
    }
    --depth_;
    if (!accept(')')) return unexpected(count < function.arguments ? "',' or ')'" : "')'");
    if (count != function.arguments) {
      return error(start,
                   fmt::format("{} takes {} argument{}, not {}", function.name, function.arguments,
                               function.arguments == 1 ? "" : "s", count));
    }
    if (count == 1) return builder_.unary(function.name, *first);
    return builder_.binary(function.name, *first, *second);
  }

  Result<EpilogueIndex> index() {
    if (!accept('[')) return EpilogueIndex::scalar;
    const std::size_t start = position_;
    std::string inside;
    while (position_ < text_.size() && text_[position_] != ']' && inside.size() < 16) {
      if (text_[position_] != ' ') inside += text_[position_];
      ++position_;
    }
    if (accept(']')) {
      if (inside == "m") return EpilogueIndex::row;
      if (inside == "n") return EpilogueIndex::column;
      if (inside == "m,n") return EpilogueIndex::full;
    }
    return error(start, "an index is [m], [n] or [m,n]");
  }

  Result<int> operand(std::size_t start, std::string_view id) {
    if (id == "m" || id == "n" || id == "k") {
      return error(start, fmt::format("'{}' is a size, not the name of an operand", id));
    }
    if (id.size() > kMaxName) {
      return error(start, fmt::format("a name is at most {} characters long", kMaxName));
    }
    const Result<EpilogueIndex> at = index();
    if (!at) return tl::unexpected<Error>(at.error());
    EpilogueOperand found{std::string(id), *at, default_dtype_, false};
    if (accept(':')) {
      peek();
      const std::size_t dtype_start = position_;
      const Result<DType> dtype = parse_dtype(word());
      if (!dtype) return error(dtype_start, dtype.error().message);
      if (*dtype == DType::tf32 || bits(*dtype) < 8 || *dtype == DType::e8m0) {
        return error(dtype_start,
                     fmt::format("an operand cannot be {} in this version", to_string(*dtype)));
      }
      found.dtype = *dtype;
      found.dtype_given = true;
    }
    return known_operand(start, std::move(found));
  }

  // The same name always means the same operand; its dtype may be stated at any of its uses.
  Result<int> known_operand(std::size_t start, EpilogueOperand found) {
    for (std::size_t i = 0; i < operands.size(); ++i) {
      EpilogueOperand& known = operands[i];
      if (known.name != found.name) continue;
      if (known.index != found.index) {
        return error(start, fmt::format("'{}' is used with two different indices", found.name));
      }
      if (found.dtype_given && known.dtype_given && found.dtype != known.dtype) {
        return error(start, fmt::format("'{}' is used with two different dtypes", found.name));
      }
      if (found.dtype_given) known = std::move(found);
      return builder_.operand(static_cast<int>(i));
    }
    if (operands.size() == kMaxOperands) {
      return error(start, fmt::format("more than {} operands", kMaxOperands));
    }
    operands.push_back(std::move(found));
    return builder_.operand(static_cast<int>(operands.size()) - 1);
  }

  std::string_view text_;
  DType default_dtype_;
  std::size_t position_ = 0;
  int depth_ = 0;
  Builder builder_;
};

}  // namespace

Result<Epilogue> Epilogue::parse(std::string_view text, DType default_dtype) {
  Parser parser(text, default_dtype);
  const Result<void> parsed = parser.run();
  if (!parsed) return tl::unexpected<Error>(parsed.error());
  Epilogue result;
  result.tree_ =
      std::make_shared<const Tree>(Tree{std::move(parser.nodes), std::move(parser.operands)});
  // The canonical text may be longer (it has spaces), and must parse back too.
  if (text.size() > kMaxLength / 4 && result.text().size() > kMaxLength) {
    return fail(ErrorCode::invalid_argument,
                fmt::format("epi: longer than {} characters", kMaxLength));
  }
  return result;
}

}  // namespace culet

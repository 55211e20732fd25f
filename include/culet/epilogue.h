// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// The epilogue of a GEMM: an immutable expression over the accumulator `acc`, applied element by
// element before D is stored. One tree drives CUDA code, CPU code, the reference and the matching
// of what a vendor library can fuse.
//
//     relu(acc + bias[n])          0.5 * acc + 2 * c[m,n]          gelu(acc * s)
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "culet/dtype.h"
#include "culet/error.h"

namespace culet {

/// How an epilogue operand is indexed: s (one scalar in memory), s[m], bias[n] or c[m,n]
/// (row-major, ld of D by default). With a batch, c has D's batch stride and all others are shared
/// by all entries.
enum class EpilogueIndex : std::uint8_t { scalar, row, column, full };

/// A named operand of an epilogue. Written `bias[n]:bf16`; the dtype defaults to D's (scalars and
/// vectors too).
struct EpilogueOperand {
  std::string name;
  EpilogueIndex index = EpilogueIndex::scalar;
  DType dtype = DType::f32;
  bool dtype_given = false;
};

/// Node of the expression. Children come before their parents in `Epilogue::nodes()`, so one
/// forward pass evaluates it.
struct EpilogueNode {
  enum class Kind : std::uint8_t { acc, constant, operand, unary, binary };
  Kind kind = Kind::acc;
  double value = 0;  ///< constant
  int operand = -1;  ///< index into Epilogue::operands()
  std::string op;  ///< unary: neg relu gelu gelu_tanh silu sigmoid tanh exp abs sqrt rcp; binary: +
                   ///< - * / max min
  int lhs = -1;
  int rhs = -1;
};

/// Value type; copies share the immutable tree. The default is the identity, `acc`.
class Epilogue {
 public:
  Epilogue();

  /// Parses an expression. Errors name the column and what was expected.
  /// `default_dtype` is given to operands that state none.
  static Result<Epilogue> parse(std::string_view text, DType default_dtype = DType::f32);

  /// Canonical text: parses back to an equal tree. Operands print their dtype where one was given.
  std::string text() const;

  /// The same expression where operands without a dtype of their own take `dtype` (D's), and those
  /// that state exactly that dtype no longer need to.
  Epilogue with_default_dtype(DType dtype) const;

  bool is_identity() const;
  const std::vector<EpilogueNode>& nodes()
      const;  ///< topological order, the last one is the result
  const std::vector<EpilogueOperand>& operands() const;

  /// Evaluates one element in double precision: the reference. `operand_values[i]` is the value of
  /// operands()[i] there.
  double evaluate(double acc, const std::vector<double>& operand_values) const;

  /// alpha and beta if the whole epilogue is `alpha*acc [+ beta*c[m,n]] [+ bias[n]]` optionally
  /// under relu or gelu_tanh: what vendor libraries can fuse. `c`, `bias` are operand indices or
  /// -1. False where it is anything else.
  struct Affine {
    double alpha = 1;
    double beta = 0;
    int c = -1;
    int bias = -1;           ///< operand indexed [n]
    std::string activation;  ///< "", "relu", "gelu_tanh"
  };
  bool as_affine(Affine* out) const;

  friend bool operator==(const Epilogue& x, const Epilogue& y) { return x.text() == y.text(); }

 private:
  struct Tree;
  std::shared_ptr<const Tree> tree_;
};

}  // namespace culet

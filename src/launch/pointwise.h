// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// Applies an epilogue to a finished accumulator on the CPU: the second step of a candidate whose
// first is a vendor's GEMM, and the end of a k-split kernel.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "culet/problem.h"

namespace culet {

/// An epilogue prepared for evaluation, block of columns by block of columns, in float (double
/// where the accumulator is s32 or f64). Immutable.
class Pointwise {
 public:
  /// `accumulator` is the dtype of what is read: f32, s32 or f64.
  Pointwise(const Problem& problem, DType accumulator);

  /// Scratch memory one call needs.
  std::size_t scratch_bytes() const;

  struct Part {
    const void* accumulator = nullptr;   ///< tight row-major m x n, from its element 0
    void* d = nullptr;                   ///< from its element 0, with ldd
    const void* const* extra = nullptr;  ///< of this batch entry
    std::int64_t m_begin = 0, m_end = 0;
    std::int64_t n_begin = 0, n_end = 0;
  };
  void run(const Part& part, void* scratch) const;

 private:
  struct Operation {
    enum class Code : std::uint8_t {
      acc,
      constant,
      operand,
      neg,
      relu,
      gelu,
      gelu_tanh,
      silu,
      sigmoid,
      tanh,
      exp,
      abs,
      sqrt,
      rcp,
      add,
      subtract,
      multiply,
      divide,
      max,
      min,
    };
    Code code = Code::acc;
    double value = 0;
    int operand = -1;
    int lhs = -1, rhs = -1;
    int slot = 0;  ///< block of scratch that holds the result
  };
  static Operation::Code code_of(const std::string& op);
  void assign_slots();
  template <typename T>
  void run_in(const Part& part, T* scratch) const;
  template <typename T>
  void evaluate(const Part& part, std::int64_t row, std::int64_t column, int count,
                T* scratch) const;
  template <typename T>
  void load(const Operation& operation, const Part& part, std::int64_t row, std::int64_t column,
            int count, T* out) const;

  std::vector<Operation> operations_;
  std::vector<EpilogueOperand> operands_;
  std::int64_t n_ = 0, ldd_ = 0;
  DType d_ = DType::f32;
  DType accumulator_ = DType::f32;
  bool in_double_ = false;
  int slots_ = 1;
};

}  // namespace culet

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// The operands of an epilogue expression as the generated code declares them, and loading their
// values for an element of D. The generated struct of an epilogue looks like this:
//
//     struct Epilogue {
//       using Operands = OperandList<Operand<Index::column, DType::bf16>>;
//       static constexpr bool identity = false;
//       template <class T> static CULET_DEVICE T apply(T acc, const T* x) { return culet_relu(acc +
//       x[0]); }
//     };
#pragma once
#include "convert.cuh"

namespace culet::kernels {

/// What an operand is indexed by: nothing, m, n, or both with D's strides.
enum class Index { scalar, row, column, full };

template <Index Kind, DType Type>
struct Operand {
  static constexpr Index kind = Kind;
  static constexpr DType type = Type;
};

/// Pointers to the operands, in order.
template <int Count>
struct OperandPointers {
  const void* pointer[Count > 0 ? Count : 1];
};

template <class... Operands>
struct OperandList;

template <>
struct OperandList<> {
  static constexpr int count = 0;
  template <class T>
  static CULET_DEVICE void load_rows(const void* const*, i64, T*) {}
  template <class T>
  static CULET_DEVICE void load_columns(const void* const*, i64, i64, T*) {}
  struct Pair {
    CULET_DEVICE void clear() {}
    CULET_DEVICE void load(const void* const*, i64, i64) {}
    template <class T>
    CULET_DEVICE void values(int, const T*, T*) const {}
  };
};

template <class First, class... Rest>
struct OperandList<First, Rest...> {
  static constexpr int count = 1 + sizeof...(Rest);
  using Tail = OperandList<Rest...>;
  /// Fills in the values that are the same along row m. The row must exist.
  template <class T>
  static CULET_DEVICE void load_rows(const void* const* pointers, i64 m, T* x) {
    if constexpr (First::kind == Index::scalar) x[0] = load_element<T, First::type>(pointers[0], 0);
    if constexpr (First::kind == Index::row) x[0] = load_element<T, First::type>(pointers[0], m);
    Tail::load_rows(pointers + 1, m, x + 1);
  }
  /// Fills in the others: of column n, and of the element `offset` from D's start.
  template <class T>
  static CULET_DEVICE void load_columns(const void* const* pointers, i64 n, i64 offset, T* x) {
    if constexpr (First::kind == Index::column) x[0] = load_element<T, First::type>(pointers[0], n);
    if constexpr (First::kind == Index::full) {
      x[0] = load_element<T, First::type>(pointers[0], offset);
    }
    Tail::load_columns(pointers + 1, n, offset, x + 1);
  }

  /// The operands that load_columns() fills in, for two neighbours in a row of D, as they stand in
  /// memory: what is loaded early waits here, in few registers.
  struct Pair {
    PairBits<First::type> bits;
    typename Tail::Pair rest;

    CULET_DEVICE void clear() {
      bits = {};
      rest.clear();
    }
    /// n and offset, of the first, are even.
    CULET_DEVICE void load(const void* const* pointers, i64 n, i64 offset) {
      if constexpr (First::kind == Index::column) bits.load(pointers[0], n);
      if constexpr (First::kind == Index::full) bits.load(pointers[0], offset);
      rest.load(pointers + 1, n, offset);
    }
    /// All operands of neighbour i; `rows` is from load_rows().
    template <class T>
    CULET_DEVICE void values(int i, const T* rows, T* x) const {
      if constexpr (First::kind == Index::column || First::kind == Index::full) {
        x[0] = bits.template element<T>(i);
      } else {
        x[0] = rows[0];
      }
      rest.values(i, rows + 1, x + 1);
    }
  };
};

/// The epilogue of one element, every operand loaded for it.
template <class Epilogue, class T>
CULET_DEVICE T evaluate_element(T acc, const void* const* pointers, i64 m, i64 n, i64 offset) {
  if constexpr (Epilogue::identity) {
    return acc;
  } else {
    T x[Epilogue::Operands::count + 1];
    Epilogue::Operands::load_rows(pointers, m, x);
    Epilogue::Operands::load_columns(pointers, n, offset, x);
    return Epilogue::apply(acc, x);
  }
}

}  // namespace culet::kernels

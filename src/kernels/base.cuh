// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// What all device code starts from: integer types, function attributes and the element types.
// Kernels include no toolkit or standard header, because headers dominate run-time compilation.
// Files that hold only index maths compile as ordinary C++ too, so host tests call the same code.
#pragma once

#ifdef __CUDACC__
#define CULET_HD __host__ __device__ __forceinline__
#define CULET_DEVICE __device__ __forceinline__
#else
#define CULET_HD inline
#endif

namespace culet::kernels {

using u8 = unsigned char;
using u16 = unsigned short;
using u32 = unsigned int;
using u64 = unsigned long long;
using i8 = signed char;
using i32 = int;
using i64 = long long;

/// Element types, named as in problem text.
enum class DType { f64, f32, tf32, f16, bf16, e4m3, e5m2, s8, u8, s32 };

/// Bytes of one element.
CULET_HD constexpr int size_of(DType type) {
  switch (type) {
    case DType::f64:
      return 8;
    case DType::f32:
    case DType::tf32:
    case DType::s32:
      return 4;
    case DType::f16:
    case DType::bf16:
      return 2;
    default:
      return 1;
  }
}

template <class T>
CULET_HD constexpr T ceil_div(T x, T y) {
  return (x + y - 1) / y;
}
template <class T>
CULET_HD constexpr T smaller(T x, T y) {
  return y < x ? y : x;
}
template <class T>
CULET_HD constexpr T larger(T x, T y) {
  return x < y ? y : x;
}

}  // namespace culet::kernels

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// Arithmetic on values that carry a bound of their error: how far a correct kernel's result may lie
// from the reference follows the accumulator's bound through the epilogue, operation by operation
// (docs/numerics.md). The host's reference and the GPU's compare kernel use the same functions.
// Includes nothing but the formats, for NVRTC.
#pragma once

#include "random.h"

#if defined(__CUDA_ARCH__) || defined(__CUDACC__)
#define CULET_VERIFY_MATH(name) ::name
#else
#define CULET_VERIFY_MATH(name) __builtin_##name
#endif

namespace culet::verify {

/// A reference value and a bound of |what a correct kernel has - value|.
struct Bounded {
  double value;
  double error;
};

/// How accurately a kernel computes its epilogue.
struct EpilogueAccuracy {
  double rounding;   ///< relative error of one basic operation
  double function;   ///< of exp, tanh and their like, relative to the function's scale
  double gelu_tanh;  ///< of gelu_tanh alone, which vendor libraries compute with less
};

CULET_VERIFY_FN double magnitude(double x) { return x < 0 ? -x : x; }

CULET_VERIFY_FN Bounded rounded(double value, double error, const EpilogueAccuracy& a) {
  return {value, error + a.rounding * (magnitude(value) + error)};
}

CULET_VERIFY_FN Bounded exact(double value) { return {value, 0}; }

CULET_VERIFY_FN Bounded add(Bounded x, Bounded y, const EpilogueAccuracy& a) {
  return rounded(x.value + y.value, x.error + y.error, a);
}
CULET_VERIFY_FN Bounded subtract(Bounded x, Bounded y, const EpilogueAccuracy& a) {
  return rounded(x.value - y.value, x.error + y.error, a);
}
CULET_VERIFY_FN Bounded multiply(Bounded x, Bounded y, const EpilogueAccuracy& a) {
  const double error =
      magnitude(x.value) * y.error + magnitude(y.value) * x.error + x.error * y.error;
  return rounded(x.value * y.value, error, a);
}

inline constexpr double kUnbounded = 1e300;

CULET_VERIFY_FN Bounded reciprocal(Bounded x, const EpilogueAccuracy& a) {
  const double size = magnitude(x.value);
  const double value = 1 / x.value;
  if (size <= x.error) return {value, kUnbounded};  // zero is within reach
  // Reciprocals are often the hardware's approximation.
  return rounded(value, x.error / (size * (size - x.error)) + a.function * magnitude(value), a);
}
CULET_VERIFY_FN Bounded divide(Bounded x, Bounded y, const EpilogueAccuracy& a) {
  const Bounded inverse = reciprocal(y, a);
  Bounded r = multiply(x, inverse, a);
  r.value = x.value / y.value;
  return r;
}
// A NaN passes, as in the kernels: see docs/numerics.md.
CULET_VERIFY_FN Bounded maximum(Bounded x, Bounded y) {
  const double error = x.error > y.error ? x.error : y.error;
  return {x.value > y.value || x.value != x.value ? x.value : y.value, error};
}
CULET_VERIFY_FN Bounded minimum(Bounded x, Bounded y) {
  const double error = x.error > y.error ? x.error : y.error;
  return {x.value < y.value || x.value != x.value ? x.value : y.value, error};
}
CULET_VERIFY_FN Bounded negate(Bounded x) { return {-x.value, x.error}; }
CULET_VERIFY_FN Bounded absolute(Bounded x) { return {magnitude(x.value), x.error}; }
CULET_VERIFY_FN Bounded relu(Bounded x) { return {x.value < 0 ? 0 : x.value, x.error}; }

CULET_VERIFY_FN Bounded square_root(Bounded x, const EpilogueAccuracy& a) {
  const double value = CULET_VERIFY_MATH(sqrt)(x.value);
  if (x.value <= x.error) return {value, kUnbounded};  // NaN or not is within the error
  const double low = CULET_VERIFY_MATH(sqrt)(x.value - x.error);
  return rounded(value, value - low + a.function * value, a);
}
CULET_VERIFY_FN Bounded exponential(Bounded x, const EpilogueAccuracy& a) {
  const double value = CULET_VERIFY_MATH(exp)(x.value);
  // The argument is scaled by log2(e) in single precision, which costs |x| roundings.
  const double argument = x.error + a.rounding * 2 * magnitude(x.value);
  // Results that are not normal in single precision may be zero.
  constexpr double kTiny = 1.2e-38;
  const double relative = CULET_VERIFY_MATH(exp)(argument) - 1 + a.function;
  return rounded(value, value * relative + kTiny, a);
}
CULET_VERIFY_FN Bounded hyperbolic_tangent(Bounded x, const EpilogueAccuracy& a) {
  return rounded(CULET_VERIFY_MATH(tanh)(x.value), x.error + a.function, a);
}
CULET_VERIFY_FN Bounded sigmoid(Bounded x, const EpilogueAccuracy& a) {
  const double value = 1 / (1 + CULET_VERIFY_MATH(exp)(-x.value));
  return rounded(value, 0.25 * x.error + a.function, a);
}
// x * F(x) with F in 0..1: an error of F counts times |x|. The slopes stay below 1.13.
CULET_VERIFY_FN Bounded gated(double value, Bounded x, const EpilogueAccuracy& a) {
  return rounded(value, 1.13 * x.error + a.function * magnitude(x.value), a);
}
CULET_VERIFY_FN Bounded silu(Bounded x, const EpilogueAccuracy& a) {
  return gated(x.value / (1 + CULET_VERIFY_MATH(exp)(-x.value)), x, a);
}
CULET_VERIFY_FN Bounded gelu(Bounded x, const EpilogueAccuracy& a) {
  return gated(0.5 * x.value * (1 + CULET_VERIFY_MATH(erf)(x.value * 0.70710678118654752440)), x,
               a);
}
CULET_VERIFY_FN Bounded gelu_tanh(Bounded x, const EpilogueAccuracy& a) {
  const double v = x.value;
  const double inner = 0.79788456080286535588 * (v + 0.044715 * v * v * v);
  return gated(0.5 * v * (1 + CULET_VERIFY_MATH(tanh)(inner)), x,
               EpilogueAccuracy{a.rounding, a.gelu_tanh, a.gelu_tanh});
}

/// Storing a result in D: saturation of the formats that saturate, and the rounding. `factor`
/// half-ulps are allowed.
CULET_VERIFY_FN Bounded stored(Bounded x, Format f, double factor) {
  const double top = largest(f);
  const double bottom = f == Format::u8    ? 0
                        : f == Format::s8  ? -128
                        : f == Format::s32 ? -2147483648.0
                                           : -top;
  const bool saturates = is_integer(f) || f == Format::e4m3 || f == Format::e5m2;
  Bounded r = x;
  if (is_integer(f) && x.error > 0) r.error += 0.5;  // which integer it rounds to is open
  if (is_integer(f)) r.value = CULET_VERIFY_MATH(rint)(x.value);
  if (saturates && r.value > top) r.value = top;
  if (saturates && r.value < bottom) r.value = bottom;
  if (!is_integer(f)) r.error += factor * half_ulp(f, magnitude(r.value) + x.error);
  return r;
}

/// |got - wanted| / bound; 0 where both are NaN or the same infinity, huge where only one is.
CULET_VERIFY_FN double error_ratio(double got, Bounded wanted, Format f) {
  constexpr double kWrong = 1e30;
  if (wanted.error >= kUnbounded) return 0;
  if (wanted.value != wanted.value) return got != got ? 0 : kWrong;
  if (got != got) return kWrong;
  if (got == wanted.value) return 0;
  const double top = largest(f);
  if (magnitude(got) > top) {  // infinity: right where the exact result may round to it
    const bool same_sign = (got > 0) == (wanted.value > 0);
    return same_sign && magnitude(wanted.value) + wanted.error >= top ? 0 : kWrong;
  }
  const double difference = magnitude(got - wanted.value);
  if (wanted.error == 0) return kWrong;
  const double ratio = difference / wanted.error;
  return ratio < kWrong ? ratio : kWrong;
}

}  // namespace culet::verify

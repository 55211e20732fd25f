// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// The functions of epilogue expressions, for kernels on GPU and CPU alike: compiled by NVRTC, nvcc,
// g++ and clang, without any header. In float each is a straight line of arithmetic and selects, so
// that a loop over it becomes vector code (g++ needs -fno-trapping-math for that); the double
// versions, for f64 problems, call the math library. A NaN passes through all of them.
#pragma once

#if defined(__CUDACC__)
#define CULET_FN __device__ __forceinline__
#else
#define CULET_FN static inline __attribute__((always_inline))
#endif

// --- exact ones --------------------------------------------------------------------------------

template <class T>
CULET_FN T culet_relu(T x) {
  return x < T(0) ? T(0) : x;
}
template <class T>
CULET_FN T culet_max(T x, T y) {
  return x > y || x != x ? x : y;
}
template <class T>
CULET_FN T culet_min(T x, T y) {
  return x < y || x != x ? x : y;
}

#if defined(__CUDACC__)
CULET_FN float culet_abs(float x) { return fabsf(x); }
CULET_FN double culet_abs(double x) { return fabs(x); }
CULET_FN float culet_sqrt(float x) { return sqrtf(x); }
CULET_FN double culet_sqrt(double x) { return sqrt(x); }
CULET_FN float culet_exp(float x) { return expf(x); }
CULET_FN double culet_exp(double x) { return exp(x); }
CULET_FN double culet_tanh(double x) { return tanh(x); }
CULET_FN double culet_erf(double x) { return erf(x); }
// At most 2 units in the last place off, without the slow path of an IEEE division.
CULET_FN float culet_divide(float x, float y) { return __fdividef(x, y); }
#else
CULET_FN float culet_abs(float x) { return __builtin_fabsf(x); }
CULET_FN double culet_abs(double x) { return __builtin_fabs(x); }
CULET_FN float culet_sqrt(float x) { return __builtin_sqrtf(x); }
CULET_FN double culet_sqrt(double x) { return __builtin_sqrt(x); }
CULET_FN double culet_exp(double x) { return __builtin_exp(x); }
CULET_FN double culet_tanh(double x) { return __builtin_tanh(x); }
CULET_FN double culet_erf(double x) { return __builtin_erf(x); }
CULET_FN float culet_divide(float x, float y) { return x / y; }

// e^x = 2^n * e^r with |r| <= ln(2)/2. Relative error below 2e-7; infinity from ln(FLT_MAX) on,
// zero where the result would not be a normal number.
CULET_FN float culet_exp(float x) {
  const float low = -87.336544f;                               // ln(FLT_MIN)
  const float high = 88.722839f;                               // ln(FLT_MAX)
  const float inside = x > low ? (x < high ? x : high) : low;  // a NaN becomes low, see below
  // Adding 1.5 * 2^23 rounds to an integer, which then stands in the low bits.
  const float shifted = inside * 1.44269504f + 12582912.0f;
  const float n = shifted - 12582912.0f;
  // ln(2) in two parts, the first with few enough bits that n times it is exact.
  const float r = (inside - n * 0.693359375f) + n * 2.12194440e-4f;
  // Taylor up to r^7: the remainder is below 1e-8 for |r| <= 0.35.
  float p = 1.98412698e-4f;
  p = p * r + 1.38888889e-3f;
  p = p * r + 8.33333333e-3f;
  p = p * r + 4.16666667e-2f;
  p = p * r + 1.66666667e-1f;
  p = p * r + 0.5f;
  p = p * r + 1.0f;
  p = p * r + 1.0f;
  // In two factors: 2^128, which is needed just below the upper end, is not a float.
  const int exponent = __builtin_bit_cast(int, shifted) - __builtin_bit_cast(int, 12582912.0f);
  const int half = exponent >> 1;
  const float scaled = p * __builtin_bit_cast(float, (half + 127) << 23) *
                       __builtin_bit_cast(float, (exponent - half + 127) << 23);
  const float finite = x < low ? 0.0f : scaled;
  const float result = x > high ? __builtin_inff() : finite;
  return x == x ? result : x;
}
#endif

// --- built on exp ------------------------------------------------------------------------------

CULET_FN float culet_sigmoid(float x) { return culet_divide(1.0f, 1.0f + culet_exp(-x)); }
CULET_FN double culet_sigmoid(double x) { return 1.0 / (1.0 + culet_exp(-x)); }

CULET_FN float culet_silu(float x) { return culet_divide(x, 1.0f + culet_exp(-x)); }
CULET_FN double culet_silu(double x) { return x / (1.0 + culet_exp(-x)); }

// Relative error below 3e-7. Close to zero 1 - 2 / (e^2x + 1) would cancel, so there a polynomial
// (Taylor; its remainder is below 1e-7 for |x| < 0.35).
CULET_FN float culet_tanh(float x) {
  const float z = x * x;
  float p = -8.86323553e-3f;  // -1382/155925
  p = p * z + 2.18694885e-2f;
  p = p * z - 5.39682540e-2f;
  p = p * z + 1.33333333e-1f;
  p = p * z - 3.33333333e-1f;
  const float near_zero = x * (1.0f + z * p);
  const float magnitude = 1.0f - culet_divide(2.0f, culet_exp(2.0f * culet_abs(x)) + 1.0f);
  const float far = x < 0.0f ? -magnitude : magnitude;
  return culet_abs(x) < 0.35f ? near_zero : far;
}

// x/2 * (1 + tanh(u)) is x * sigmoid(2u), which does not cancel for negative x.
CULET_FN float culet_gelu_tanh(float x) {
  const float u = 0.797884561f * (x + 0.044715f * x * x * x);
  return culet_divide(x, 1.0f + culet_exp(-2.0f * u));
}
CULET_FN double culet_gelu_tanh(double x) {
  const double u = 0.79788456080286535588 * (x + 0.044715 * x * x * x);
  return 0.5 * x * (1.0 + culet_tanh(u));
}

// x * Phi(x), Phi the normal distribution function, in its erf form. With z = |x| / sqrt(2) the
// tail is erfc(z) / 2 = e^(-z^2) * P(u) / (2 (z + 2)), u = (z - 2) / (z + 2). P interpolates
// e^(z^2) erfc(z) (z + 2) at the Chebyshev points of z in [0, 10.5], within 6e-8; the whole is
// within 1e-6 relative for x > -5, and within 1e-11 absolute beyond.
CULET_FN float culet_gelu(float x) {
  const float z = culet_abs(x) * 0.707106781f;
  const float t = culet_divide(1.0f, z + 2.0f);
  const float u = 1.0f - 4.0f * t;
  float p = -0.00046885004f;
  p = p * u - 0.000767410666f;
  p = p * u + 0.00298008425f;
  p = p * u + 0.00644733759f;
  p = p * u - 0.0214816647f;
  p = p * u - 0.0364375123f;
  p = p * u + 0.279469171f;
  p = p * u - 0.687160831f;
  p = p * u + 1.02158276f;
  const float tail = 0.5f * culet_exp(-0.5f * x * x) * (t * p);
  const float phi = x < 0.0f ? tail : 1.0f - tail;
  return x * phi;
}
CULET_FN double culet_gelu(double x) {
  return 0.5 * x * (1.0 + culet_erf(x * 0.70710678118654752440));
}

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// OpenBLAS: sgemm, and sgemv where m or n is 1, which sgemm does not do by itself (2 to 3 times
// slower there).
#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "device/openblas.h"
#include "launch/library_steps.h"
#include "launch/loaded_step.h"
#include "launch/split.h"

namespace culet {

namespace {

class OpenBlasStep final : public LoadedStep {
 public:
  enum class Call { gemm, gemv, automatic };

  OpenBlasStep(const OpenBlas& blas, const Problem& problem, Call call, int threads)
      : blas_(blas), problem_(problem), call_(call), threads_(threads) {}

  Result<void> run(const StepPointers& pointers) const override {
    blas_.use_threads(threads_);
    const Problem& p = problem_;
    const auto* a = static_cast<const float*>(pointers.a);
    const auto* b = static_cast<const float*>(pointers.b);
    auto* d = static_cast<float*>(pointers.d);
    for (std::int64_t entry = 0; entry < p.batch; ++entry) {
      multiply(at(a, entry * p.stride_a), at(b, entry * p.stride_b), d + entry * p.stride_d,
               static_cast<int>(pointers.m));
    }
    return {};
  }

 private:
  static const float* at(const float* base, std::int64_t index) {
    return base == nullptr ? nullptr : base + index;
  }

  void multiply(const float* a, const float* b, float* d, int m) const {
    const bool one = m == 1 || problem_.n == 1;
    if (problem_.k == 0) {
      zero(d, m);  // sgemv returns at once, without touching its result
    } else if (call_ == Call::gemm || !one) {
      gemm(a, b, d, m);
    } else if (m == 1) {
      row_times_matrix(a, b, d);
    } else {
      matrix_times_column(a, b, d, m);
    }
  }

  void zero(float* d, int m) const {
    for (std::int64_t row = 0; row < m; ++row) {
      std::fill_n(d + row * problem_.ldd, problem_.n, 0.0F);
    }
  }

  void gemm(const float* a, const float* b, float* d, int m) const {
    const Problem& p = problem_;
    const int trans_a = p.a_order == Order::row_major ? kCblasNoTrans : kCblasTrans;
    const int trans_b = p.b_order == Order::row_major ? kCblasNoTrans : kCblasTrans;
    blas_.sgemm(kCblasRowMajor, trans_a, trans_b, m, static_cast<int>(p.n), static_cast<int>(p.k),
                1.0F, a, static_cast<int>(p.lda), b, static_cast<int>(p.ldb), 0.0F, d,
                static_cast<int>(p.ldd));
  }

  // Where beta is 0 some versions multiply the old result by it all the same, and a NaN stays: the
  // result is cleared first, which costs next to nothing beside reading the matrix.

  /// d[n] = sum of a[k] * B[k,n]; a is a row of A with distance 1 or lda.
  void row_times_matrix(const float* a, const float* b, float* d) const {
    const Problem& p = problem_;
    const int n = static_cast<int>(p.n);
    const int k = static_cast<int>(p.k);
    const int ldb = static_cast<int>(p.ldb);
    const int step = p.a_order == Order::row_major ? 1 : static_cast<int>(p.lda);
    std::fill_n(d, p.n, 0.0F);
    if (p.b_order == Order::row_major) {
      blas_.sgemv(kCblasRowMajor, kCblasTrans, k, n, 1.0F, b, ldb, a, step, 0.0F, d, 1);
    } else {
      blas_.sgemv(kCblasRowMajor, kCblasNoTrans, n, k, 1.0F, b, ldb, a, step, 0.0F, d, 1);
    }
  }

  /// d[m] = sum of A[m,k] * b[k]; d lies in a column of D, with distance ldd.
  void matrix_times_column(const float* a, const float* b, float* d, int m) const {
    const Problem& p = problem_;
    const int k = static_cast<int>(p.k);
    const int lda = static_cast<int>(p.lda);
    const int ldd = static_cast<int>(p.ldd);
    const int step = p.b_order == Order::row_major ? static_cast<int>(p.ldb) : 1;
    for (std::int64_t row = 0; row < m; ++row) d[row * p.ldd] = 0;
    if (p.a_order == Order::row_major) {
      blas_.sgemv(kCblasRowMajor, kCblasNoTrans, m, k, 1.0F, a, lda, b, step, 0.0F, d, ldd);
    } else {
      blas_.sgemv(kCblasRowMajor, kCblasTrans, k, m, 1.0F, a, lda, b, step, 0.0F, d, ldd);
    }
  }

  const OpenBlas& blas_;
  Problem problem_;
  Call call_;
  int threads_;
};

}  // namespace

Result<std::unique_ptr<LoadedStep>> load_openblas_step(const Problem& problem,
                                                       const BuiltStep& step,
                                                       const DeviceSpec& device) {
  if (device.is_cuda()) return fail(ErrorCode::device, "OpenBLAS runs on the CPU");
  const Result<OpenBlas>& blas = openblas();
  if (!blas) return tl::unexpected(blas.error());
  auto same = check_library_attributes(step.artifact.bytes, "OpenBLAS", blas->version);
  if (!same) return tl::unexpected(same.error());
  const std::string_view name = step.step.config.get("call");
  if (name != "gemm" && name != "gemv" && name != "auto") {
    return fail(ErrorCode::build_failed, fmt::format("openblas: no call '{}'", name));
  }
  using Call = OpenBlasStep::Call;
  const Call call = name == "gemm" ? Call::gemm : name == "gemv" ? Call::gemv : Call::automatic;
  const int threads = std::max(1, step.launch.host.threads);
  return std::make_unique<OpenBlasStep>(*blas, problem, call, threads);
}

}  // namespace culet

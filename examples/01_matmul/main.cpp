// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// D = relu(A*B + bias) in one call. Nothing is tuned unasked: where the store knows a choice for
// this problem it runs, and otherwise the vendor library does.
#include <algorithm>
#include <cstdio>
#include <vector>

#include "common/example.h"

int main() {
  constexpr std::int64_t m = 24, n = 512, k = 768;
  std::vector<float> a = example::small_integers(m * k, 1);
  std::vector<float> weight = example::small_integers(n * k, 2);  // a Linear layer's, [n, k]
  std::vector<float> bias = example::small_integers(n, 3);
  std::vector<float> d(m * n, -1.0F);

  const culet::MatrixView view_a{a.data(), culet::DType::f32, m, k, /*row_stride=*/k};
  // B is [k, n]: the weight read by columns.
  const culet::MatrixView view_b{weight.data(),      culet::DType::f32, k, n, /*row_stride=*/1,
                                 /*column_stride=*/k};
  const culet::MatrixView view_d{d.data(), culet::DType::f32, m, n, /*row_stride=*/n};

  const void* extra[] = {bias.data()};
  culet::MatmulOptions options;
  options.device = "cpu";
  options.epilogue = "relu(acc + bias[n])";
  options.extra = extra;
  example::must(culet::matmul(view_a, view_b, view_d, options));

  std::int64_t wrong = 0;
  for (std::int64_t i = 0; i < m; ++i) {
    for (std::int64_t j = 0; j < n; ++j) {
      float sum = bias[static_cast<std::size_t>(j)];
      for (std::int64_t l = 0; l < k; ++l) {
        sum += a[static_cast<std::size_t>(i * k + l)] * weight[static_cast<std::size_t>(j * k + l)];
      }
      wrong += d[static_cast<std::size_t>(i * n + j)] != std::max(sum, 0.0F);
    }
  }
  const culet::Problem problem =
      example::must(culet::problem_of(view_a, view_b, view_d, options.epilogue));
  std::printf("%s: %lld of %lld elements wrong\n", problem.text().c_str(),
              static_cast<long long>(wrong), static_cast<long long>(m * n));
  return wrong == 0 ? 0 : 1;
}

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// The smallest user's program: one product of 2x2 matrices, through the whole library.
#include <culet/culet.h>

#include <cstdio>

int main() {
  float a[] = {1, 2, 3, 4};
  float b[] = {5, 6, 7, 8};
  float d[] = {0, 0, 0, 0};
  const float expected[] = {19, 22, 43, 50};
  const auto view = [](float* data) {
    return culet::MatrixView{data, culet::DType::f32, 2, 2, /*row_stride=*/2};
  };
  culet::MatmulOptions options;
  options.device = "cpu";
  const culet::Result<void> done = culet::matmul(view(a), view(b), view(d), options);
  if (!done) {
    std::printf("%s\n", done.error().message.c_str());
    return culet::exit_status(done.error().code);
  }
  int right = 0;
  for (int i = 0; i < 4; ++i) right += d[i] == expected[i];
  std::printf("culet %s: %d of 4 right\n", CULET_VERSION, right);
  return right == 4 ? 0 : 1;
}

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// These tests are their own worker process: nothing else need be on a machine with a GPU.
#include <gtest/gtest.h>

#include "culet/worker.h"

int main(int argc, char** argv) {
  if (const auto status = culet::run_as_worker(argc, argv)) return *status;
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// These tests are their own worker process.
#include <gtest/gtest.h>

#include <cstdlib>
#include <string_view>

#include "benchmark/isolation.h"
#include "benchmark/worker_messages.h"
#include "benchmark/worker_process.h"
#include "hanging_owner.h"

int main(int argc, char** argv) {
  culet::benchmark::this_program_serves();
  const std::string_view verb = argc > 1 ? argv[1] : "";
  if (verb == culet::benchmark::kWorkerVerb && argc == 4)
    return culet::serve_worker(std::atoi(argv[2]), std::atoi(argv[3]));
  if (verb == culet::kAnotherBuild) {
    const std::string ready = culet::benchmark::ready_message("0123456789abcdef").bytes();
    return culet::benchmark::send_message(culet::benchmark::kWorkerSocket, ready) ? 0 : 1;
  }
  if (verb == culet::kHangingOwner) return culet::own_a_hanging_worker();
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}

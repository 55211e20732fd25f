// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// These tests are their own worker process.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdlib>
#include <string_view>

#include "benchmark/build_id.h"
#include "benchmark/isolation.h"
#include "benchmark/worker_messages.h"
#include "benchmark/worker_process.h"
#include "hanging_owner.h"

namespace {

int serve_badly(std::string_view fault) {
  using namespace culet::benchmark;  // NOLINT: messages
  (void)send_message(kWorkerSocket, ready_message(culet::build_id()).bytes());
  char first = 0;
  (void)recv(kWorkerSocket, &first, 1, 0);  // of the problem
  if (fault == "dies") raise(SIGKILL);
  if (fault == "nonsense")
    (void)send_message(kWorkerSocket, MessageWriter(MessageKind::step).put(1e300).bytes());
  alarm(60);
  pause();  // until it is killed
  return 1;
}

}  // namespace

int main(int argc, char** argv) {
  culet::benchmark::this_program_serves();
  const std::string_view verb = argc > 1 ? argv[1] : "";
  const char* fault = std::getenv(culet::kWorkerFault);
  if (verb == culet::benchmark::kWorkerVerb && fault != nullptr) return serve_badly(fault);
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

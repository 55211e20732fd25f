// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// The entry of a worker process.
#include "culet/worker.h"

#include <string_view>

#include "base/text.h"
#include "benchmark/isolation.h"
#include "benchmark/worker_process.h"
#include "culet/registry.h"

namespace culet {

std::optional<int> run_as_worker(int argc, char** argv) {
  benchmark::this_program_serves();
  if (argc < 2 || std::string_view(argv[1]) != benchmark::kWorkerVerb) return std::nullopt;
  std::int64_t socket = -1, owner = -1;
  if (argc != 4 || parse_int(argv[2], &socket) != IntParse::ok ||
      parse_int(argv[3], &owner) != IntParse::ok) {
    return 2;
  }
  (void)Registry::standard();  // its backends register the kernels that are compiled in
  return serve_worker(static_cast<int>(socket), static_cast<int>(owner));
}

}  // namespace culet

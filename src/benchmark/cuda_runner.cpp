// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// Verifies and times candidates on a CUDA device, in this process.
#include "benchmark/runners.h"

namespace culet::benchmark {

Result<std::unique_ptr<TrialRunner>> make_cuda_runner(const Problem&, const DeviceSpec&,
                                                      const RunnerOptions&) {
  return fail(ErrorCode::device, "measuring on CUDA devices is still being written");
}

}  // namespace culet::benchmark

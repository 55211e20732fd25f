// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// Which implementation of LoadedStep an artifact is for.
#include <fmt/format.h>

#include "launch/library_steps.h"
#include "launch/loaded_step.h"

namespace culet {

Result<void> LoadedStep::pack(const void*, void*, Stream) const {
  return fail(ErrorCode::unsupported, "this step reads B as it is");
}

Result<std::unique_ptr<LoadedStep>> load_step(const Problem& problem, const BuiltStep& step,
                                              const DeviceSpec& device) {
  if (!device.present) {
    return fail(ErrorCode::device,
                fmt::format("{} is only described here, so nothing can run on it", device.name));
  }
  const Artifact& artifact = step.artifact;
  switch (artifact.kind) {
    case ArtifactKind::cubin:
      return load_cuda_step(problem, step, device);
    case ArtifactKind::host_so:
    case ArtifactKind::host_builtin:
      return load_host_step(problem, step, device);
    case ArtifactKind::library_call:
      break;
  }
  if (artifact.entry == "cublaslt") return load_cublaslt_step(problem, step, device);
  if (artifact.entry == "openblas") return load_openblas_step(problem, step, device);
  if (artifact.entry == "onednn") return load_onednn_step(problem, step, device);
  if (artifact.entry == "reference") return load_reference_step(problem, step, device);
  if (artifact.entry == "cpu_pointwise") return load_cpu_pointwise_step(problem, step, device);
  return fail(ErrorCode::build_failed, fmt::format("no library named '{}'", artifact.entry));
}

}  // namespace culet

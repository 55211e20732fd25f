// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// A call of cublasLtMatmul with everything but pointers and m prepared. The library's algorithm is
// checked again while loading: what was tuned for one version is never used with another.
#include <fmt/format.h>

#include <memory>

#include "device/cuda.h"
#include "launch/cublaslt_matmul.h"
#include "launch/loaded_step.h"

namespace culet {

namespace {

class CublasltStep final : public LoadedStep {
 public:
  static Result<std::unique_ptr<LoadedStep>> load(const Problem& problem, const BuiltStep& step,
                                                  const DeviceSpec& device);
  Result<void> run(const StepPointers& pointers) const override;

 private:
  CublasltStep(const CudaDriver& driver, const cublaslt::Library& library)
      : driver_(driver), library_(library) {}

  /// Calls the library with a description whose m and bias are in place.
  Result<void> call(const CublasltMatmul& matmul, const StepPointers& pointers) const;

  const CudaDriver& driver_;
  const cublaslt::Library& library_;
  cuda::CUcontext context_ = nullptr;
  cublaslt::Handle handle_ = nullptr;
  CublasltMatmul matmul_;
  cublaslt::Algorithm algorithm_;
  std::size_t workspace_bytes_ = 0;
  std::int64_t described_m_ = 0;
};

Result<std::unique_ptr<LoadedStep>> CublasltStep::load(const Problem& problem,
                                                       const BuiltStep& step,
                                                       const DeviceSpec& device) {
  auto config = Config::parse(step.artifact.bytes);
  if (!config) return tl::unexpected<Error>(config.error());
  auto algorithm = parse_cublaslt_config(*config);
  if (!algorithm) return tl::unexpected<Error>(algorithm.error());
  auto library = cublaslt::library();
  if (!library) return tl::unexpected<Error>(library.error());
  if (config->get("lib") != (*library)->version) {
    return fail(ErrorCode::device, fmt::format("the algorithm is cuBLASLt {}'s, here is {}: tune "
                                               "again",
                                               config->get("lib"), (*library)->version));
  }
  auto driver = cuda_driver();
  if (!driver) return tl::unexpected<Error>(driver.error());
  auto context = cuda::Context::enter(device.ordinal);
  if (!context) return tl::unexpected<Error>(context.error());
  auto handle = cublaslt::handle();
  if (!handle) return tl::unexpected<Error>(handle.error());
  auto matmul = CublasltMatmul::describe(problem, **library);
  if (!matmul) return tl::unexpected<Error>(matmul.error());
  for (const std::int64_t m : {problem.m, problem.m_range.low, problem.m_range.high}) {
    if (m == 0) continue;
    const auto need = cublaslt_check(problem, **library, algorithm->algorithm, m);
    if (!need) return tl::unexpected<Error>(need.error());
    if (*need > step.launch.workspace_bytes.at(m)) {
      return fail(ErrorCode::build_failed,
                  fmt::format("the algorithm needs {} bytes of workspace at m={}, not {}", *need, m,
                              step.launch.workspace_bytes.at(m)));
    }
  }
  std::unique_ptr<CublasltStep> loaded(new CublasltStep(**driver, **library));
  loaded->context_ = context->get();
  loaded->handle_ = *handle;
  loaded->matmul_ = *matmul;
  loaded->algorithm_ = algorithm->algorithm;
  loaded->workspace_bytes_ = static_cast<std::size_t>(algorithm->workspace_bytes);
  loaded->described_m_ = problem.m;
  return loaded;
}

Result<void> CublasltStep::call(const CublasltMatmul& matmul, const StepPointers& p) const {
  // Where nothing is added the library never reads C, but wants an address.
  const void* c = matmul.c_operand < 0 ? p.d : p.extra[matmul.c_operand];
  const auto status = library_.matmul(handle_, &matmul.desc, matmul.alpha, p.b, &matmul.first, p.a,
                                      &matmul.second, matmul.beta, c, &matmul.c, p.d, &matmul.d,
                                      &algorithm_, p.scratch, workspace_bytes_, p.stream);
  if (status == cublaslt::kStatusSuccess) return {};
  return fail(ErrorCode::device, cublaslt::describe(status, "cublasLtMatmul"));
}

Result<void> CublasltStep::run(const StepPointers& pointers) const {
  if (pointers.m == 0) return {};
  const bool needs_extra = matmul_.c_operand >= 0 || matmul_.bias_operand >= 0;
  if (needs_extra && pointers.extra == nullptr) {
    return fail(ErrorCode::invalid_argument, "the epilogue's operands are missing");
  }
  const cuda::Scope scope(driver_, context_);
  if (pointers.m == described_m_ && matmul_.bias_operand < 0) return call(matmul_, pointers);
  // Descriptors are plain memory: a copy on the stack keeps runs in parallel apart.
  CublasltMatmul own = matmul_;
  if (pointers.m != described_m_) {
    if (auto ok = own.set_m(library_, pointers.m); !ok) return ok;
  }
  if (own.bias_operand >= 0) {
    const void* bias = pointers.extra[own.bias_operand];
    const auto status =
        library_.desc_set(&own.desc, cublaslt::DescAttribute::kBiasPointer, &bias, sizeof bias);
    if (status != cublaslt::kStatusSuccess) {
      return fail(ErrorCode::device, cublaslt::describe(status, "setting the bias"));
    }
  }
  return call(own, pointers);
}

}  // namespace

Result<std::unique_ptr<LoadedStep>> load_cublaslt_step(const Problem& problem,
                                                       const BuiltStep& step,
                                                       const DeviceSpec& device) {
  if (step.artifact.kind != ArtifactKind::library_call || step.artifact.entry != "cublaslt") {
    return fail(ErrorCode::invalid_argument, "not a call of cuBLASLt");
  }
  return CublasltStep::load(problem, step, device);
}

}  // namespace culet

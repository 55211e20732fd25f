// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// Loading cuBLASLt.
#include "device/cublaslt.h"

#include <fmt/format.h>
#include <unistd.h>

#include <map>
#include <memory>
#include <mutex>
#include <utility>

#include "device/cuda.h"
#include "device/library.h"

namespace culet::cublaslt {

namespace {

bool bind(const culet::Library& from, Library& to) {
  from.bind(to.status_string, "cublasLtGetStatusString");
  return from.bind(to.get_version, "cublasLtGetVersion") &&
         from.bind(to.create, "cublasLtCreate") && from.bind(to.destroy, "cublasLtDestroy") &&
         from.bind(to.desc_init, "cublasLtMatmulDescInit_internal") &&
         from.bind(to.desc_set, "cublasLtMatmulDescSetAttribute") &&
         from.bind(to.layout_init, "cublasLtMatrixLayoutInit_internal") &&
         from.bind(to.layout_set, "cublasLtMatrixLayoutSetAttribute") &&
         from.bind(to.preference_init, "cublasLtMatmulPreferenceInit_internal") &&
         from.bind(to.preference_set, "cublasLtMatmulPreferenceSetAttribute") &&
         from.bind(to.heuristic, "cublasLtMatmulAlgoGetHeuristic") &&
         from.bind(to.algorithm_check, "cublasLtMatmulAlgoCheck") &&
         from.bind(to.config_get, "cublasLtMatmulAlgoConfigGetAttribute") &&
         from.bind(to.matmul, "cublasLtMatmul");
}

Result<std::unique_ptr<Library>> load() {
  auto opened =
      culet::Library::open("cuBLASLt", {"libcublasLt.so.13", "libcublasLt.so.12", "libcublasLt.so"},
                           cuda_library_folders());
  if (!opened) return tl::unexpected<Error>(opened.error());
  auto loaded = std::make_unique<Library>();
  loaded->path = opened->path();
  if (!bind(*opened, *loaded)) {
    return fail(ErrorCode::device, fmt::format("{} is not a usable cuBLASLt", opened->path()));
  }
  const std::size_t number = loaded->get_version();  // 130100 for 13.1.0
  loaded->version = fmt::format("{}.{}.{}", number / 10000, number / 100 % 100, number % 100);
  return loaded;
}

}  // namespace

Result<const Library*> library() {
  static const Result<std::unique_ptr<Library>> loaded = load();
  if (!loaded) return tl::unexpected<Error>(loaded.error());
  return loaded->get();
}

std::string describe(Status status, std::string_view what) {
  const auto loaded = library();
  if (loaded && (*loaded)->status_string != nullptr) {
    return fmt::format("{}: {}", what, (*loaded)->status_string(status));
  }
  return fmt::format("{}: cuBLAS status {}", what, status);
}

Result<void> check(Status status, std::string_view what) {
  if (status == kStatusSuccess) return {};
  return fail(ErrorCode::device, describe(status, what));
}

Result<Handle> handle() {
  auto loaded = library();
  if (!loaded) return tl::unexpected<Error>(loaded.error());
  auto driver = cuda_driver();
  if (!driver) return tl::unexpected<Error>(driver.error());
  cuda::CUcontext context = nullptr;
  if (auto ok = cuda::check((*driver)->ctx_get_current(&context), "cuCtxGetCurrent"); !ok) {
    return tl::unexpected<Error>(ok.error());
  }
  if (context == nullptr) return fail(ErrorCode::device, "no CUDA context is current");
  static std::mutex mutex;
  static std::map<cuda::CUcontext, Handle> handles;
  const std::lock_guard lock(mutex);
  Handle& made = handles[context];
  if (made == nullptr) {
    if (auto ok = check((*loaded)->create(&made), "cublasLtCreate"); !ok) {
      made = nullptr;
      return tl::unexpected<Error>(ok.error());
    }
  }
  return made;
}

}  // namespace culet::cublaslt

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// Loading of OpenBLAS. It is opened with local symbols: BLAS names clash between libraries.
#include "device/openblas.h"

#include <fmt/format.h>

#include <string_view>

#include "device/library.h"

namespace culet {

namespace {

/// "OpenBLAS 0.3.21 DYNAMIC_ARCH NO_AFFINITY Cooperlake MAX_THREADS=64" -> "0.3.21".
std::string version_number(std::string_view config) {
  constexpr std::string_view kName = "OpenBLAS ";
  const std::size_t at = config.find(kName);
  if (at == std::string_view::npos) return "unknown";
  const std::string_view rest = config.substr(at + kName.size());
  return std::string(rest.substr(0, rest.find(' ')));
}

Result<OpenBlas> load() {
  // The alternatives system may point the plain name at any build; its folders are tried after it.
  const Result<Library> library = Library::open(
      "OpenBLAS", {"libopenblas.so.0", "libopenblas.so"},
      {"/usr/lib/x86_64-linux-gnu/openblas-pthread", "/usr/lib/x86_64-linux-gnu/openblas-openmp",
       "/usr/lib/aarch64-linux-gnu/openblas-pthread", "/usr/lib64", "/usr/local/lib",
       "/opt/OpenBLAS/lib"});
  if (!library) return tl::unexpected(library.error());

  OpenBlas blas;
  char* (*get_config)() = nullptr;
  char* (*get_corename)() = nullptr;
  const bool complete = library->bind(blas.sgemm, "cblas_sgemm") &&
                        library->bind(blas.sgemv, "cblas_sgemv") &&
                        library->bind(blas.set_num_threads, "openblas_set_num_threads") &&
                        library->bind(blas.get_num_threads, "openblas_get_num_threads") &&
                        library->bind(get_config, "openblas_get_config") &&
                        library->bind(get_corename, "openblas_get_corename");
  if (!complete) {
    return fail(ErrorCode::device,
                fmt::format("{} lacks entry points of OpenBLAS", library->path()));
  }
  const std::string config = get_config();
  if (config.find("USE64BITINT") != std::string::npos) {
    return fail(ErrorCode::device,
                fmt::format("{} is built with 64-bit integers", library->path()));
  }
  blas.version = fmt::format("{} {}", version_number(config), get_corename());
  blas.path = library->path();
  return blas;
}

}  // namespace

const Result<OpenBlas>& openblas() {
  static const Result<OpenBlas> loaded = load();
  return loaded;
}

}  // namespace culet

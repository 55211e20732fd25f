// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// Loading of OpenBLAS. It is opened with local symbols: BLAS names clash between libraries.
#include "device/openblas.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <initializer_list>
#include <string_view>

#include "device/cpu_info.h"
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

using Names = std::vector<std::string>;

std::string core_name(const Library& library) {
  char* (*get_corename)() = nullptr;
  return library.bind(get_corename, "openblas_get_corename") ? get_corename() : "";
}

/// The core whose kernels suit this CPU, where those chosen do not; null where all is well.
const char* better_core(const std::string& core) {
  const auto is_one_of = [&](std::initializer_list<std::string_view> names) {
    return std::find(names.begin(), names.end(), core) != names.end();
  };
  const int level = cpu_level_rank(cpu_info().level);
  const bool wide = is_one_of({"SkylakeX", "Cooperlake", "SapphireRapids"});
  if (level >= cpu_level_rank("x86-64-v4")) return wide ? nullptr : "SkylakeX";
  if (level < cpu_level_rank("x86-64-v3")) return nullptr;
  return wide || is_one_of({"Haswell", "Zen"}) ? nullptr : "Haswell";
}

/// A release older than a CPU takes it for an unknown one and falls back to kernels from 2004
/// ("Prescott"), a fifth of the speed: no fair baseline. Its choice is made once, while it is
/// loaded, so it is loaded anew with a hint. What the user sets is left alone.
Result<Library> open_with_fitting_core(const Names& sonames, const Names& folders) {
  const auto open = [&] { return Library::open("OpenBLAS", sonames, folders); };
  Result<Library> library = open();
  constexpr const char* kVariable = "OPENBLAS_CORETYPE";
  if (!library || std::getenv(kVariable) != nullptr) return library;
  const char* better = better_core(core_name(*library));
  if (better == nullptr) return library;
  void* handle = dlopen(library->path().c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD);
  if (handle == nullptr) return library;
  dlclose(handle);  // the reference just taken,
  dlclose(handle);  // and Library's
  // Somebody else in the process may use it: then it stays as it is.
  handle = dlopen(library->path().c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD);
  if (handle != nullptr) {
    Result<Library> still = open();
    dlclose(handle);
    return still;
  }
  setenv(kVariable, better, 1);
  library = open();
  unsetenv(kVariable);
  return library;
}

}  // namespace

Result<OpenBlas> load_openblas(const Names& sonames, const Names& folders) {
  const Result<Library> library = open_with_fitting_core(sonames, folders);
  if (!library) return tl::unexpected(library.error());

  OpenBlas blas;
  char* (*get_config)() = nullptr;
  const bool complete = library->bind(blas.sgemm, "cblas_sgemm") &&
                        library->bind(blas.sgemv, "cblas_sgemv") &&
                        library->bind(blas.set_num_threads, "openblas_set_num_threads") &&
                        library->bind(blas.get_num_threads, "openblas_get_num_threads") &&
                        library->bind(get_config, "openblas_get_config");
  if (!complete) {
    return fail(ErrorCode::device,
                fmt::format("{} lacks entry points of OpenBLAS", library->path()));
  }
  const std::string config = get_config();
  if (config.find("USE64BITINT") != std::string::npos) {
    return fail(ErrorCode::device,
                fmt::format("{} is built with 64-bit integers", library->path()));
  }
  blas.version = fmt::format("{} {}", version_number(config), core_name(*library));
  blas.path = library->path();
  return blas;
}

const Result<OpenBlas>& openblas() {
  // The alternatives system may point the plain name at any build; its folders are tried after it.
  static const Result<OpenBlas> loaded = load_openblas(
      {"libopenblas.so.0", "libopenblas.so"},
      {"/usr/lib/x86_64-linux-gnu/openblas-pthread", "/usr/lib/x86_64-linux-gnu/openblas-openmp",
       "/usr/lib/aarch64-linux-gnu/openblas-pthread", "/usr/lib64", "/usr/local/lib",
       "/opt/OpenBLAS/lib"});
  return loaded;
}

}  // namespace culet

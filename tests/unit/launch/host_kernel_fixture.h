// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// Kernels for the CPU as a shared library, made with the system's compiler when a test starts: what
// an artifact of kind host_so holds.
#pragma once

#include <stdlib.h>  // NOLINT: mkdtemp

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

namespace culet::test {

/// f32, all row-major, of any part of m, n and k. `culet_sum` adds up its k range in steps that are
/// visible in its scratch; `culet_nothing` returns at once.
inline constexpr const char* kHostKernels = R"(
struct Args {
  const void* a; const void* b; void* d; const void* temporary; const void* const* extra;
  void* scratch; long long m, n, k, lda, ldb, ldd, m_begin, m_end, n_begin, n_end, k_begin, k_end;
};
static const float* f(const void* p) { return (const float*)p; }
extern "C" void culet_sum(const Args* x) {
  // The scratch belongs to this call alone: a sum kept there shows if it does not.
  volatile float* sum = (volatile float*)x->scratch;
  for (long long m = x->m_begin; m < x->m_end; ++m)
    for (long long n = x->n_begin; n < x->n_end; ++n) {
      *sum = 0;
      for (long long k = x->k_begin; k < x->k_end; ++k)
        *sum = *sum + f(x->a)[m * x->lda + k] * f(x->b)[k * x->ldb + n];
      ((float*)x->d)[m * x->ldd + n] = *sum;
    }
}
// B packed: its columns one after the other.
extern "C" void culet_pack(const Args* x, void* packed) {
  for (long long n = 0; n < x->n; ++n)
    for (long long k = 0; k < x->k; ++k)
      ((float*)packed)[n * x->k + k] = f(x->b)[k * x->ldb + n];
}
extern "C" void culet_sum_packed(const Args* x) {
  for (long long m = x->m_begin; m < x->m_end; ++m)
    for (long long n = x->n_begin; n < x->n_end; ++n) {
      float sum = 0;
      for (long long k = 0; k < x->k; ++k) sum += f(x->a)[m * x->lda + k] * f(x->b)[n * x->k + k];
      ((float*)x->d)[m * x->ldd + n] = sum;
    }
}
extern "C" void culet_nothing(const Args*) {}
extern "C" int culet_marker = MARKER;
)";

/// The bytes of a shared library made of this source, or empty where there is no compiler.
inline std::string compile_shared(const std::string& source, const std::string& flags = {}) {
  namespace fs = std::filesystem;
  std::string folder = (fs::temp_directory_path() / "culet-test-XXXXXX").string();
  if (mkdtemp(folder.data()) == nullptr) return {};
  std::ofstream(folder + "/k.cpp") << source;
  const std::string command = "c++ -O1 -shared -fPIC " + flags + " -o '" + folder + "/k.so' '" +
                              folder + "/k.cpp' >/dev/null 2>&1";
  std::string bytes;
  if (std::system(command.c_str()) == 0) {
    std::ifstream file(folder + "/k.so", std::ios::binary);
    bytes.assign(std::istreambuf_iterator<char>(file), {});
  }
  fs::remove_all(folder);
  return bytes;
}

inline std::string compile_host_kernels(int marker = 1) {
  return compile_shared(kHostKernels, "-DMARKER=" + std::to_string(marker));
}

inline const std::string& host_kernels() {
  static const std::string bytes = compile_host_kernels();
  return bytes;
}

}  // namespace culet::test

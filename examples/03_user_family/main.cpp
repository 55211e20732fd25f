// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// A program adds a kernel family of its own, as C++ source for the CPU, and tunes with it: culet
// ranks, compiles, verifies and times it next to its own kernels and the vendor libraries.
#include <memory>
#include <string>

#include "common/example.h"

namespace {

// Both operands are contiguous in k (a Linear layer, layout=tn), so an element of D is a dot
// product. kColumns columns of B share each load of A; kWidth floats are multiplied at a time.
// The source includes nothing: it repeats the struct of culet/host_kernel.h.
constexpr const char* kSource = R"(
struct CuletHostKernelArgs {
  const void* a; const void* b; void* d; const void* temporary; const void* const* extra; void* scratch;
  long long m, n, k, lda, ldb, ldd, m_begin, m_end, n_begin, n_end, k_begin, k_end;
};
typedef float Vector __attribute__((vector_size(kWidth * 4), aligned(4), may_alias));

template <int columns>
static void dot(const CuletHostKernelArgs& args, long long row, long long column) {
  const float* a = static_cast<const float*>(args.a) + row * args.lda;
  const float* b = static_cast<const float*>(args.b) + column * args.ldb;
  Vector sums[columns] = {};
  long long k = 0;
  for (; k + kWidth <= args.k; k += kWidth) {
    const Vector x = *reinterpret_cast<const Vector*>(a + k);
    for (int j = 0; j < columns; ++j) {
      sums[j] += x * *reinterpret_cast<const Vector*>(b + j * args.ldb + k);
    }
  }
  float* d = static_cast<float*>(args.d) + row * args.ldd + column;
  for (int j = 0; j < columns; ++j) {
    float sum = 0;
    for (int lane = 0; lane < kWidth; ++lane) sum += sums[j][lane];
    for (long long tail = k; tail < args.k; ++tail) sum += a[tail] * b[j * args.ldb + tail];
    d[j] = sum;
  }
}

extern "C" void example_dot(const CuletHostKernelArgs* args) {
  long long column = args->n_begin;
  for (; column + kColumns <= args->n_end; column += kColumns) {
    for (long long row = args->m_begin; row < args->m_end; ++row) dot<kColumns>(*args, row, column);
  }
  for (; column < args->n_end; ++column) {
    for (long long row = args->m_begin; row < args->m_end; ++row) dot<1>(*args, row, column);
  }
}
)";

class DotFamily : public culet::KernelFamily {
 public:
  std::string_view name() const override { return "example_dot"; }
  std::string version() const override { return "1"; }
  culet::DeviceKind device_kind() const override { return culet::DeviceKind::cpu; }

  culet::Support supports(const culet::Problem& problem, const culet::DeviceSpec&) const override {
    using culet::DType;
    using culet::Order;
    using culet::Support;
    if (problem.a != DType::f32 || problem.b != DType::f32 || problem.d != DType::f32) {
      return Support::cannot("f32 only");
    }
    if (problem.a_order != Order::row_major || problem.b_order != Order::col_major) {
      return Support::cannot("layout=tn only: dot products need both operands contiguous in k");
    }
    if (problem.batch != 1) return Support::cannot("no batches");
    if (problem.k == 0) return Support::cannot("k=0");
    // Epilogues are left to a second step, which culet adds.
    return problem.epilogue.is_identity() ? Support::can() : Support::gemm_only();
  }

  std::vector<culet::Config> configs(const culet::Problem&,
                                     const culet::DeviceSpec&) const override {
    std::vector<culet::Config> all;
    for (const int columns : {1, 2, 4, 8}) {
      for (const int width : {8, 16}) {
        all.push_back(culet::Config().set("columns", columns).set("width", width));
      }
    }
    return all;
  }

  std::optional<culet::Features> features(const culet::Problem& problem,
                                          const culet::Config& config,
                                          const culet::DeviceSpec& device) const override {
    culet::Features features;
    features.math_ops = problem.flops();
    features.math_dtype = culet::DType::f32;
    features.tensor = false;
    // One load of A and `columns` loads of B for `columns` multiply-adds, two loads a clock.
    const double columns = static_cast<double>(config.get_int("columns"));
    features.math_efficiency = columns / (columns + 1);
    features.dram_bytes = problem.compulsory_bytes();
    features.tiles = features.slots = device.threads;
    return features;
  }

  culet::Result<culet::Source> source(const culet::Problem&, const culet::Step& step,
                                      const culet::DeviceSpec&) const override {
    culet::Source source;
    source.language = culet::SourceLanguage::cpp;
    source.entry = "example_dot";
    source.text = "constexpr int kColumns = " + std::to_string(step.config.get_int("columns")) +
                  ";\nconstexpr int kWidth = " + std::to_string(step.config.get_int("width")) +
                  ";\n" + kSource;
    return source;
  }

  culet::Result<culet::LaunchSpec> launch(const culet::Problem&, const culet::Step& step,
                                          const culet::DeviceSpec& device) const override {
    culet::LaunchSpec launch;
    launch.host.split = culet::HostLaunch::Split::n;
    launch.host.granularity = step.config.get_int("columns");
    launch.host.threads = device.threads;
    return launch;
  }
};

}  // namespace

int main() {
  return example::tune_with_family(std::make_shared<DotFamily>(), "cpu", "3x1000x515:f32");
}

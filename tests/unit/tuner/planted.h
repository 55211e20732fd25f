// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// Planted backends for tests of the pipeline: small kernels compiled from source on the CPU whose
// faults, build errors and (simulated) speed are known.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "culet/culet.h"

namespace culet::testing {

struct Planted {
  std::string name;
  bool vendor = false;
  bool fallback = false;
  bool gemm_only = false;    ///< leaves the epilogue to a second step
  std::string fault;         ///< C++ statements run after the product, with `x` (the arguments) and
                             ///< `float* d` in scope
  std::string throws;        ///< build() throws this
  std::string syntax_error;  ///< appended to the source
  std::string refuses;       ///< supports() says no with this
  int configs = 1;
  bool reversed = false;     ///< the model ranks the last configuration first
  bool per_problem = false;  ///< the source names the problem
  int per_tile = 0;          ///< configurations of each tile shape; 0: no tile in them
  double estimate_seconds = 1e-3;
};

/// f32, any layout, through a naive kernel compiled by the Compiler.
class PlantedFamily : public KernelFamily {
 public:
  explicit PlantedFamily(Planted planted) : planted_(std::move(planted)) {}
  std::string_view name() const override { return planted_.name; }
  std::string version() const override { return "1"; }
  DeviceKind device_kind() const override { return DeviceKind::cpu; }
  bool is_vendor() const override { return planted_.vendor; }
  bool is_fallback() const override { return planted_.fallback; }
  Support supports(const Problem& problem, const DeviceSpec&) const override {
    if (!planted_.refuses.empty()) return Support::cannot(planted_.refuses);
    if (problem.a != DType::f32 || problem.d != DType::f32) return Support::cannot("f32 only");
    if (!problem.epilogue.is_identity()) {
      return planted_.gemm_only ? Support::gemm_only() : Support::cannot("no epilogue");
    }
    return Support::can();
  }
  std::vector<Config> configs(const Problem&, const DeviceSpec&) const override {
    std::vector<Config> all;
    for (int i = 0; i < planted_.configs; ++i) {
      Config config;
      config.set("variant", i);
      if (planted_.per_tile > 0) config.set("tile", std::to_string(i / planted_.per_tile));
      all.push_back(config);
    }
    return all;
  }
  std::optional<Features> features(const Problem&, const Config& config,
                                   const DeviceSpec&) const override {
    if (planted_.vendor) return std::nullopt;
    Features features;
    features.tensor = false;
    features.math_dtype = DType::f32;
    const auto variant = config.get_int("variant");
    const auto place = planted_.reversed ? planted_.configs - variant : variant + 1;
    features.extra_seconds = planted_.estimate_seconds * static_cast<double>(place);
    return features;
  }
  Result<Source> source(const Problem& problem, const Step& step,
                        const DeviceSpec&) const override {
    if (!planted_.throws.empty()) throw std::runtime_error(planted_.throws);
    const char* a = problem.a_order == Order::row_major ? "a[i * x->lda + l]" : "a[l * x->lda + i]";
    const char* b = problem.b_order == Order::row_major ? "b[l * x->ldb + j]" : "b[j * x->ldb + l]";
    Source source;
    source.language = SourceLanguage::cpp;
    source.entry = "planted";
    source.text =
        "struct Args { const void *a, *b; void* d; const void* temporary; const void* const* "
        "extra; void* scratch;\n"
        "  long long m, n, k, lda, ldb, ldd, m_begin, m_end, n_begin, n_end, k_begin, k_end; };\n"
        "// variant " +
        step.config.text() + " of " + planted_.name +
        (planted_.per_problem ? " for " + problem.text() : std::string()) +
        "\n"
        "extern \"C\" void planted(const Args* x) {\n"
        "  const float* a = (const float*)x->a; const float* b = (const float*)x->b; float* d = "
        "(float*)x->d;\n"
        "  for (long long i = x->m_begin; i < x->m_end; ++i) for (long long j = x->n_begin; j < "
        "x->n_end; ++j) {\n"
        "    double sum = 0;\n"
        "    for (long long l = 0; l < x->k; ++l) sum += (double)" +
        std::string(a) + " * " + b +
        ";\n"
        "    d[i * x->ldd + j] = (float)sum;\n"
        "  }\n  " +
        planted_.fault + "\n}\n" + planted_.syntax_error;
    return source;
  }
  Result<LaunchSpec> launch(const Problem&, const Step&, const DeviceSpec&) const override {
    return LaunchSpec{};
  }

 private:
  Planted planted_;
};

/// A family of the user's own, none of a vendor; `fault`: as in Planted.
inline Planted own(const std::string& name, const std::string& fault = {}) {
  Planted planted;
  planted.name = name;
  planted.fault = fault;
  return planted;
}

inline Registry planted_registry(const std::vector<Planted>& all) {
  Registry registry;
  for (const Planted& planted : all) {
    const auto ok = registry.add(std::make_shared<PlantedFamily>(planted));
    if (!ok) throw std::runtime_error(ok.error().message);
  }
  return registry;
}

}  // namespace culet::testing

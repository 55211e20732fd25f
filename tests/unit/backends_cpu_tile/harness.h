// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// Runs one cpu_tile configuration on operands that end at a guard page and a D between canaries,
// and compares with a plain product in double.
#pragma once

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "backends/backends.h"
#include "backends/cpu_tile/tile_config.h"
#include "compile/compiler.h"
#include "culet/cache.h"
#include "culet/registry.h"
#include "launch/host_builtin.h"
#include "launch/loaded_step.h"
#include "launch/shared_object.h"

namespace culet::cpu_tile {

/// Memory whose last byte is followed by a page that may not be touched.
class Guarded {
 public:
  explicit Guarded(std::int64_t bytes) {
    const std::size_t pages = (static_cast<std::size_t>(bytes) + 4095) / 4096 + 1;
    size_ = pages * 4096;
    base_ = static_cast<char*>(
        mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    mprotect(base_ + size_ - 4096, 4096, PROT_NONE);
    data_ = base_ + size_ - 4096 - bytes;
  }
  Guarded(const Guarded&) = delete;
  Guarded& operator=(const Guarded&) = delete;
  ~Guarded() { munmap(base_, size_); }
  char* data() const { return data_; }

 private:
  char* base_;
  char* data_;
  std::size_t size_;
};

inline void put(void* data, std::int64_t i, DType dtype, float x) {
  std::uint32_t u;
  std::memcpy(&u, &x, 4);
  if (dtype == DType::f32) {
    std::memcpy(static_cast<char*>(data) + 4 * i, &x, 4);
  } else {
    const auto rounded = static_cast<std::uint16_t>((u + 0x7fff + ((u >> 16) & 1)) >> 16);
    std::memcpy(static_cast<char*>(data) + 2 * i, &rounded, 2);
  }
}

inline float get(const void* data, std::int64_t i, DType dtype) {
  float x;
  if (dtype == DType::f32) {
    std::memcpy(&x, static_cast<const char*>(data) + 4 * i, 4);
    return x;
  }
  std::uint16_t h;
  std::memcpy(&h, static_cast<const char*>(data) + 2 * i, 2);
  const std::uint32_t u = std::uint32_t{h} << 16;
  std::memcpy(&x, &u, 4);
  return x;
}

inline float rounded_to(DType dtype, float x) {
  float stored = 0;
  put(&stored, 0, dtype, x);
  return get(&stored, 0, dtype);
}

inline DeviceSpec this_cpu(int threads = 1) {
  auto device = find_device("cpu:" + std::to_string(threads));
  EXPECT_TRUE(device.has_value()) << (device ? "" : device.error().message);
  return device ? *device : DeviceSpec{};
}

inline Problem problem_of_text(const std::string& text) {
  auto problem = Problem::parse(text);
  EXPECT_TRUE(problem.has_value()) << text << ": " << (problem ? "" : problem.error().message);
  return problem ? *problem : Problem{};
}

/// Each test runs in a process of its own: what one has compiled the others find by its content.
inline Compiler& shared_compiler() {
  static Compiler compiler(
      open_cache(testing::TempDir() + "culet-cpu-tile-tests").value_or(nullptr));
  return compiler;
}

using Values = std::function<float(std::int64_t row, std::int64_t column)>;

struct Case {
  Problem problem;
  Config config;
  Values a, b;        ///< a(m, k), b(k, n)
  bool bias = false;  ///< the problem's one epilogue operand is bias[n], of dtype D
};

inline float bias_at(std::int64_t n) { return static_cast<float>(n % 7) - 3; }

/// A kernel called for any k: what depends on k in its launch was sized for the largest.
class DirectKernel final : public LoadedStep {
 public:
  DirectKernel(CuletHostKernel kernel, CuletHostPack pack, std::int64_t scratch_bytes)
      : kernel_(kernel), pack_(pack), scratch_((scratch_bytes + 63) / 64 * 64) {}
  void use(const Problem& problem) { problem_ = problem; }

  Result<void> run(const StepPointers& pointers) const override {
    CuletHostKernelArgs args = arguments();
    args.a = pointers.a;
    args.b = pointers.packed_b != nullptr ? pointers.packed_b : pointers.b;
    args.d = pointers.d;
    args.extra = pointers.extra;
    kernel_(&args);
    return {};
  }
  Result<void> pack(const void* b, void* packed, Stream) const override {
    CuletHostKernelArgs args = arguments();
    args.b = b;
    pack_(&args, packed);
    return {};
  }

 private:
  CuletHostKernelArgs arguments() const {
    const Problem& p = problem_;
    CuletHostKernelArgs args{};
    args.scratch = scratch_.data();
    args.m = args.m_end = p.m;
    args.n = args.n_end = p.n;
    args.k = args.k_end = p.k;
    args.lda = p.lda;
    args.ldb = p.ldb;
    args.ldd = p.ldd;
    return args;
  }

  CuletHostKernel kernel_;
  CuletHostPack pack_;
  Guarded scratch_;
  Problem problem_;
};

/// The functions of a built step.
struct Entries {
  std::shared_ptr<SharedObject> object;
  CuletHostKernel kernel = nullptr;
  CuletHostPack pack = nullptr;
};

inline Entries entries_of(const BuiltStep& built) {
  Entries entries;
  if (built.artifact.kind == ArtifactKind::host_so) {
    entries.object = SharedObject::load(built.artifact.bytes).value();
    entries.kernel = reinterpret_cast<CuletHostKernel>(entries.object->symbol(kEntry));
    entries.pack = reinterpret_cast<CuletHostPack>(entries.object->symbol(kPackEntry));
  } else {
    entries.kernel = find_host_builtin(built.artifact.entry);
    entries.pack = find_host_builtin_pack(built.launch.pack_entry);
  }
  return entries;
}

std::string check(const Case& c, const LoadedStep& loaded, std::int64_t packed_bytes);

/// Empty, or what is wrong.
inline std::string run_case(const Case& c, const DeviceSpec& device) {
  static const auto backend = make_cpu_tile_backend();
  auto built =
      backend->build(c.problem, {"cpu_tile", c.config, Part::all}, device, shared_compiler());
  if (!built) return built.error().message + "\n" + built.error().detail;
  const std::int64_t packed_bytes = built->launch.packed_b_bytes;
  auto loaded = load_step(c.problem, *built, device);
  if (!loaded) return loaded.error().message;
  const std::string wrong = check(c, **loaded, packed_bytes);
  if (!wrong.empty() || built->launch.host.threads > 1) return wrong;
  // Once more in scratch memory that ends at a guard page.
  Entries entries = entries_of(*built);
  DirectKernel direct(entries.kernel, entries.pack, built->launch.host.scratch_bytes_per_thread);
  direct.use(c.problem);
  return check(c, direct, packed_bytes);
}

inline std::string check(const Case& c, const LoadedStep& loaded, std::int64_t packed_bytes) {
  const Problem& p = c.problem;
  // D starts one element into its memory, and so do not A and B, which end with theirs.
  Guarded a(bytes(p.a, p.span_a())), b(bytes(p.b, p.span_b()));
  for (std::int64_t m = 0; m < p.m; ++m)
    for (std::int64_t k = 0; k < p.k; ++k) put(a.data(), m * p.lda + k, p.a, c.a(m, k));
  const bool tn = p.b_order == Order::col_major;
  for (std::int64_t k = 0; k < p.k; ++k)
    for (std::int64_t n = 0; n < p.n; ++n)
      put(b.data(), tn ? n * p.ldb + k : k * p.ldb + n, p.b, c.b(k, n));
  constexpr float kCanary = 12288;
  const std::int64_t span = p.span_d();
  Guarded d(bytes(p.d, span + 1));
  for (std::int64_t i = 0; i < span + 1; ++i) put(d.data(), i, p.d, kCanary);
  std::vector<float> bias(static_cast<std::size_t>(p.n) + 1);
  for (std::int64_t n = 0; n < p.n; ++n) put(bias.data(), n, p.d, bias_at(n));

  StepPointers pointers;
  pointers.a = a.data();
  pointers.b = b.data();
  pointers.d = d.data() + bytes(p.d, 1);
  const void* extra[] = {bias.data()};
  pointers.extra = c.bias ? extra : nullptr;
  pointers.m = p.m;
  Guarded packed(packed_bytes);
  if (packed_bytes > 0) {
    if (packed_bytes % 64 != 0) return "the packed size is not a multiple of the alignment";
    if (auto ok = loaded.pack(b.data(), packed.data(), nullptr); !ok) return ok.error().message;
    pointers.packed_b = packed.data();
  }
  if (auto ok = loaded.run(pointers); !ok) return ok.error().message;

  const void* out = pointers.d;
  if (get(d.data(), 0, p.d) != kCanary) return "wrote before D";
  for (std::int64_t m = 0; m < p.m; ++m) {
    for (std::int64_t n = 0; n < p.ldd; ++n) {
      if (n >= p.n && m == p.m - 1) break;
      float want = kCanary;
      if (n < p.n) {
        double sum = 0;
        for (std::int64_t k = 0; k < p.k; ++k)
          sum += static_cast<double>(c.a(m, k)) * static_cast<double>(c.b(k, n));
        if (c.bias) sum = std::max(0.0, sum + bias_at(n));
        want = rounded_to(p.d, static_cast<float>(sum));
      }
      const float got = get(out, m * p.ldd + n, p.d);
      if (got != want) {
        return "D[" + std::to_string(m) + "," + std::to_string(n) + "] is " + std::to_string(got) +
               ", should be " + std::to_string(want);
      }
    }
  }
  return {};
}

inline float one(std::int64_t, std::int64_t) { return 1; }
/// Small integers: every sum of up to 4104 products is exact in f32.
inline float integer(std::int64_t i, std::int64_t j) {
  return static_cast<float>((i * 7 + j * 13 + i * j) % 5) - 2;
}

/// A configuration of each kind of kernel for a problem, small blocks so that all loops turn.
std::vector<Config> sample_configs(const Problem& problem, const DeviceSpec& device);

}  // namespace culet::cpu_tile

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// Generates, compiles, loads and starts the checking kernels.
#include "benchmark/cuda_kernels.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <mutex>
#include <set>
#include <tuple>

#include "codegen/codegen.h"
#include "compile/compiler.h"

namespace culet::benchmark {
namespace {

using verify::i64;
using verify::u64;

/// "random_value(Format::bf16, keys.key[0], <offset>)" for each operand.
std::string operand_values(const Epilogue& epilogue) {
  std::string text;
  for (std::size_t i = 0; i < epilogue.operands().size(); ++i) {
    const EpilogueOperand& operand = epilogue.operands()[i];
    const char* offset = operand.index == EpilogueIndex::row      ? "m"
                         : operand.index == EpilogueIndex::column ? "n"
                         : operand.index == EpilogueIndex::full
                             ? "batch * shape.d_batch + m * shape.d_m + n"
                             : "0";
    text += fmt::format("      random_value(Format::{}, keys.key[{}], static_cast<u64>({})),\n",
                        to_string(operand.dtype), i, offset);
  }
  return text.empty() ? "      0.0\n" : text;
}

/// One compilation serves every shape of the same formats and epilogue in this process.
Result<Artifact> compiled(const std::string& text, const DeviceSpec& device) {
  static std::mutex mutex;
  static std::map<std::string, Artifact> known;
  const std::string key = device.architecture + "\n" + text;
  {
    const std::lock_guard lock(mutex);
    if (const auto at = known.find(key); at != known.end()) return at->second;
  }
  Source source;
  source.language = SourceLanguage::cuda;
  source.text = text;
  source.entry = "culet_check_reference";
  auto artifact = Compiler(nullptr).compile(source, device);
  if (!artifact) return artifact;
  const std::lock_guard lock(mutex);
  if (known.size() > 64) known.clear();  // a few MB at most
  known.emplace(key, *artifact);
  return artifact;
}

}  // namespace

std::string check_source(const Problem& p) {
  return flatten("verify/check.cuh") + fmt::format(R"(
namespace culet::verify {{
struct Epilogue {{
  static __device__ Bounded apply(Bounded acc, const Shape& shape, i64 batch, i64 m, i64 n,
                                  const ExtraKeys& keys, const EpilogueAccuracy& a) {{
    (void)shape, (void)batch, (void)m, (void)n, (void)keys, (void)a;
    const double operands[] = {{
{0}    }};
    (void)operands;
{1}  }}
}};
}}
using namespace culet::verify;
extern "C" __global__ void culet_check_fill(void* base, int format, u64 key, Span span) {{
  fill(base, static_cast<Format>(format), key, span);
}}
extern "C" __global__ void __launch_bounds__(kThreads)
culet_check_reference(Shape shape, const Tile* tiles, double* sums, float* magnitudes) {{
  reference<Format::{2}, Format::{3}>(shape, tiles, sums, magnitudes);
}}
extern "C" __global__ void __launch_bounds__(kThreads)
culet_check_compare(Shape shape, const Tile* tiles, const double* sums, const float* magnitudes,
                    const void* d, Limits limits, ExtraKeys keys, CompareResult* result) {{
  compare<Format::{4}, Epilogue>(shape, tiles, sums, magnitudes, d, limits, keys, result);
}}
extern "C" __global__ void culet_check_surface(const void* d, const void* saved, Span span,
                                               i64 elements, i64 guard, u64 poison,
                                               SurfaceResult* result) {{
  surface<Format::{4}>(d, saved, span, elements, guard, poison, result);
}}
)",
                                                   operand_values(p.epilogue),
                                                   evaluate_source(p.epilogue), to_string(p.a),
                                                   to_string(p.b), to_string(p.d));
}

namespace {

class TilePlanner {
 public:
  TilePlanner(const Problem& p, std::int64_t most, std::uint64_t seed)
      : p_(p),
        most_(most),
        seed_(seed),
        rows_((p.m + verify::kTile - 1) / verify::kTile),
        columns_((p.n + verify::kTile - 1) / verify::kTile) {}

  std::vector<verify::Tile> run() {
    if (p_.is_empty()) return {};
    if (rows_ * columns_ * p_.batch <= most_) {
      for (std::int64_t b = 0; b < p_.batch; ++b)
        for (std::int64_t i = 0; i < rows_; ++i)
          for (std::int64_t j = 0; j < columns_; ++j) take(b, i, j);
      return std::move(tiles_);
    }
    for (const std::int64_t b : {std::int64_t{0}, p_.batch - 1}) {
      for (const std::int64_t i : {std::int64_t{0}, rows_ - 1})
        for (const std::int64_t j : {std::int64_t{0}, columns_ - 1}) take(b, i, j);
    }
    edges();
    for (std::uint64_t i = 0; static_cast<std::int64_t>(tiles_.size()) < most_ &&
                              i < 4 * static_cast<std::uint64_t>(most_);
         ++i)
      take(pick(3 * i, p_.batch), pick(3 * i + 1, rows_), pick(3 * i + 2, columns_));
    return std::move(tiles_);
  }

 private:
  std::int64_t pick(std::uint64_t i, std::int64_t of) const {
    return static_cast<std::int64_t>(verify::mix(seed_ + i * verify::kGolden) %
                                     static_cast<std::uint64_t>(of));
  }

  void take(std::int64_t b, std::int64_t i, std::int64_t j) {
    if (!taken_.insert({b, i, j}).second) return;
    tiles_.push_back({b, i * verify::kTile, j * verify::kTile});
  }

  /// Every tile on an edge, or evenly spread ones where that is more than two thirds of all.
  void edges() {
    const std::int64_t per_entry = 2 * (rows_ + columns_);
    const std::int64_t step =
        std::max<std::int64_t>(1, 2 * per_entry * 3 / 2 / std::max<std::int64_t>(most_, 1));
    for (const std::int64_t b : {std::int64_t{0}, p_.batch - 1}) {
      for (std::int64_t j = 0; j < columns_; j += step) {
        take(b, 0, j);
        take(b, rows_ - 1, j);
      }
      for (std::int64_t i = 0; i < rows_; i += step) {
        take(b, i, 0);
        take(b, i, columns_ - 1);
      }
    }
  }

  const Problem& p_;
  std::int64_t most_;
  std::uint64_t seed_;
  std::int64_t rows_, columns_;
  std::vector<verify::Tile> tiles_;
  std::set<std::tuple<std::int64_t, std::int64_t, std::int64_t>> taken_;
};

}  // namespace

std::vector<verify::Tile> plan_tiles(const Problem& problem, std::int64_t most,
                                     std::uint64_t seed) {
  return TilePlanner(problem, most, seed).run();
}

verify::Shape shape_of(const SetLayout& layout, const SetSeed& seed) {
  const Problem& p = layout.problem;
  const bool a_rows = p.a_order == Order::row_major, b_rows = p.b_order == Order::row_major;
  verify::Shape s{};
  s.m = p.m;
  s.n = p.n;
  s.k = p.k;
  s.a_batch = p.stride_a;
  s.a_m = a_rows ? p.lda : 1;
  s.a_k = a_rows ? 1 : p.lda;
  s.b_batch = p.stride_b;
  s.b_k = b_rows ? p.ldb : 1;
  s.b_n = b_rows ? 1 : p.ldb;
  s.d_batch = p.stride_d;
  s.d_m = p.ldd;
  s.key_a = seed.key(kA);
  s.key_b = seed.key(kB);
  return s;
}

Result<std::unique_ptr<CheckKernels>> CheckKernels::load(const Problem& problem,
                                                         const DeviceSpec& device) {
  auto driver = cuda_driver();
  if (!driver) return tl::unexpected(driver.error());
  auto artifact = compiled(check_source(problem), device);
  if (!artifact) return tl::unexpected(artifact.error());
  std::unique_ptr<CheckKernels> kernels(new CheckKernels);
  kernels->driver_ = *driver;
  const cuda::Driver& d = **driver;
  d.ctx_get_current(&kernels->context_);
  auto ok = cuda::check(d.module_load_data(&kernels->module_, artifact->bytes.data()),
                        "loading the checking kernels");
  if (!ok) return tl::unexpected(ok.error());
  const std::pair<cuda::CUfunction*, const char*> functions[] = {
      {&kernels->fill_, "culet_check_fill"},
      {&kernels->reference_, "culet_check_reference"},
      {&kernels->compare_, "culet_check_compare"},
      {&kernels->surface_, "culet_check_surface"}};
  for (const auto& [function, name] : functions) {
    ok = cuda::check(d.module_get_function(function, kernels->module_, name), name);
    if (!ok) return tl::unexpected(ok.error());
  }
  auto result = cuda::DeviceBuffer::allocate(
      std::max(sizeof(verify::CompareResult), sizeof(verify::SurfaceResult)));
  if (!result) return tl::unexpected(result.error());
  kernels->result_ = std::move(*result);
  return kernels;
}

CheckKernels::~CheckKernels() {
  if (module_ == nullptr) return;
  const cuda::Scope scope(*driver_, context_);
  driver_->module_unload(module_);
}

Result<void> CheckKernels::launch(cuda::CUfunction function, std::int64_t blocks, void** arguments,
                                  cuda::CUstream stream) const {
  if (blocks <= 0) return {};
  cuda::LaunchConfig config;
  config.grid[0] = static_cast<unsigned>(blocks);
  config.block[0] = verify::kThreads;
  config.stream = stream;
  return cuda::check(driver_->launch_kernel_ex(&config, function, arguments, nullptr),
                     "starting a checking kernel");
}

namespace {

/// Blocks for a grid-stride loop over `count` items.
std::int64_t blocks_for(std::int64_t count) {
  return std::min<std::int64_t>((count + verify::kThreads - 1) / verify::kThreads, 8192);
}

verify::Span span_of(const OperandPlace& place) {
  return {place.batches, place.lines, place.length, place.batch_stride, place.line_stride};
}

}  // namespace

Result<void> CheckKernels::fill(const SetLayout& layout, const SetSeed& seed, void* block,
                                cuda::CUstream stream) const {
  char* base = static_cast<char*>(block);
  auto ok =
      cuda::check(driver_->memset_d8_async(reinterpret_cast<cuda::CUdeviceptr>(block), kPadding,
                                           static_cast<std::size_t>(layout.block_bytes), stream),
                  "cuMemsetD8Async");
  for (const OperandPlace& place : layout.places) {
    if (!ok) return ok;
    if (place.id == kD || place.elements == 0) continue;
    void* to = base + place.begin;
    int format = static_cast<int>(place.dtype);
    u64 key = seed.key(place.id);
    verify::Span span = span_of(place);
    void* arguments[] = {&to, &format, &key, &span};
    ok = launch(fill_, blocks_for(place.batches * place.lines * place.length), arguments, stream);
  }
  return ok;
}

Result<std::unique_ptr<DeviceReference>> CheckKernels::reference(const SetLayout& layout,
                                                                 const SetSeed& seed,
                                                                 std::int64_t most_tiles,
                                                                 cuda::CUstream stream) const {
  auto reference = std::make_unique<DeviceReference>();
  const Problem& p = layout.problem;
  reference->tiles = plan_tiles(p, most_tiles, seed.key(kD));
  const auto count = static_cast<std::int64_t>(reference->tiles.size());
  const std::int64_t all = (p.m + verify::kTile - 1) / verify::kTile *
                           ((p.n + verify::kTile - 1) / verify::kTile) * p.batch;
  reference->complete = count == all;
  const std::int64_t elements = count * verify::kTile * verify::kTile;
  auto list = cuda::DeviceBuffer::allocate(count * static_cast<std::int64_t>(sizeof(verify::Tile)));
  if (!list) return tl::unexpected(list.error());
  auto sums = cuda::DeviceBuffer::allocate(elements * 8);
  if (!sums) return tl::unexpected(sums.error());
  auto magnitudes = cuda::DeviceBuffer::allocate(elements * 4);
  if (!magnitudes) return tl::unexpected(magnitudes.error());
  reference->tile_list = std::move(*list);
  reference->sums = std::move(*sums);
  reference->magnitudes = std::move(*magnitudes);
  if (count == 0) return reference;
  auto ok = reference->tile_list.upload(reference->tiles.data(), reference->tile_list.bytes());
  if (!ok) return tl::unexpected(ok.error());
  verify::Shape shape = shape_of(layout, seed);
  void *tiles = reference->tile_list.data(), *sum = reference->sums.data(),
       *magnitude = reference->magnitudes.data();
  void* arguments[] = {&shape, &tiles, &sum, &magnitude};
  ok = launch(reference_, count, arguments, stream);
  if (!ok) return tl::unexpected(ok.error());
  return reference;
}

Result<verify::CompareResult> CheckKernels::compare(const SetLayout& layout, const SetSeed& seed,
                                                    const DeviceReference& reference,
                                                    const void* block, const Tolerance& tolerance,
                                                    cuda::CUstream stream) const {
  verify::CompareResult result{0, 0, ~u64{0}};
  if (reference.tiles.empty()) return result;
  verify::Shape shape = shape_of(layout, seed);
  verify::ExtraKeys keys{};
  for (std::size_t i = 0; i < layout.problem.epilogue.operands().size(); ++i)
    keys.key[i] = seed.key(kExtra + static_cast<int>(i));
  verify::Limits limits{tolerance.accumulation, tolerance.conversion, tolerance.half_ulps,
                        tolerance.epilogue};
  const void* d = static_cast<const char*>(block) + layout.place(kD).begin;
  void *tiles = reference.tile_list.data(), *sums = reference.sums.data(),
       *magnitudes = reference.magnitudes.data(), *out = result_.data();
  void* arguments[] = {&shape, &tiles, &sums, &magnitudes, &d, &limits, &keys, &out};
  auto ok =
      cuda::check(driver_->memcpy_htod_async(result_.address(), &result, sizeof result, stream),
                  "cuMemcpyHtoDAsync");
  if (ok)
    ok = launch(compare_, static_cast<std::int64_t>(reference.tiles.size()), arguments, stream);
  if (ok) {
    ok = cuda::check(driver_->memcpy_dtoh_async(&result, result_.address(), sizeof result, stream),
                     "cuMemcpyDtoHAsync");
  }
  if (ok) ok = cuda::check(driver_->stream_synchronize(stream), "comparing");
  if (!ok) return tl::unexpected(ok.error());
  return result;
}

Result<verify::SurfaceResult> CheckKernels::surface(const SetLayout& layout, std::uint32_t poison,
                                                    const void* block, const void* saved,
                                                    cuda::CUstream stream) const {
  const OperandPlace& place = layout.place(kD);
  const int width = verify::bytes_of(format_of(place.dtype));
  verify::SurfaceResult result{0, 0, 0, 0, ~u64{0}, ~u64{0}, ~u64{0}, ~u64{0}};
  const void* d = static_cast<const char*>(block) + place.begin;
  verify::Span span = span_of(place);
  i64 elements = place.elements, guard = kGuardBytes / width;
  u64 code = ((u64{poison} << 32) | poison) & (~u64{0} >> (64 - 8 * width));
  void* out = result_.data();
  void* arguments[] = {&d, &saved, &span, &elements, &guard, &code, &out};
  auto ok =
      cuda::check(driver_->memcpy_htod_async(result_.address(), &result, sizeof result, stream),
                  "cuMemcpyHtoDAsync");
  if (ok) ok = launch(surface_, blocks_for(elements + 2 * guard), arguments, stream);
  if (ok) {
    ok = cuda::check(driver_->memcpy_dtoh_async(&result, result_.address(), sizeof result, stream),
                     "cuMemcpyDtoHAsync");
  }
  if (ok) ok = cuda::check(driver_->stream_synchronize(stream), "checking D's surroundings");
  if (!ok) return tl::unexpected(ok.error());
  return result;
}

}  // namespace culet::benchmark

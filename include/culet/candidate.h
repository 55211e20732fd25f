// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// What a backend offers for a problem (Config, Candidate), what building one gives (Artifact), and
// how to start it (LaunchSpec). Artifact and LaunchSpec are pure data: loading and launching need
// nothing else, so they can cross a process or be stored in a file.
#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "culet/dtype.h"
#include "culet/error.h"
#include "culet/problem.h"

namespace culet {

/// One point of a backend's configuration space: named values in a fixed order, e.g.
/// `tile=128x256x64 cluster=2x1 stages=4 schedule=cooperative`. Self-describing; never an index
/// into anything.
class Config {
 public:
  Config() = default;
  /// Sets or replaces a value; new keys go last. Keys and values hold no spaces or '='.
  Config& set(std::string_view key, std::string_view value);
  Config& set(std::string_view key, std::int64_t value);
  bool has(std::string_view key) const;
  /// The value, or an empty view.
  std::string_view get(std::string_view key) const;
  /// The value as an integer, or `fallback` where the key is missing.
  std::int64_t get_int(std::string_view key, std::int64_t fallback = 0) const;
  /// `128x256x64` -> {128, 256, 64}; empty where missing.
  std::vector<std::int64_t> get_dims(std::string_view key) const;

  const std::vector<std::pair<std::string, std::string>>& values() const { return values_; }
  std::string text() const;  ///< "key=value key=value"
  static Result<Config> parse(std::string_view text);

  friend bool operator==(const Config&, const Config&) = default;
  friend auto operator<=>(const Config&, const Config&) = default;

 private:
  std::vector<std::pair<std::string, std::string>> values_;
};

/// Which part of the problem a step computes.
enum class Part : std::uint8_t {
  all,       ///< the whole problem, D = epilogue(A*B)
  gemm,      ///< the accumulator only, stored to a temporary (or to D) in `Step::result` precision
  epilogue,  ///< the epilogue only, from that temporary to D
};
std::string_view to_string(Part part);
Result<Part> parse_part(std::string_view text);

struct Step {
  std::string backend;
  Config config;
  Part part = Part::all;
  friend bool operator==(const Step&, const Step&) = default;
  friend auto operator<=>(const Step&, const Step&) = default;
};

/// A way to compute a problem: an ordered list of steps, nearly always one. With a `gemm` step
/// followed by an `epilogue` step the m*n*batch temporary between them is f32 (or s32), tight
/// row-major, at the start of the plan's workspace.
struct Candidate {
  std::vector<Step> steps;

  /// "sm90_dense{tile=128x256x64 stages=4}" or "cublaslt{...}:gemm + pointwise{...}:epilogue".
  /// Parses back.
  std::string text() const;
  static Result<Candidate> parse(std::string_view text);

  friend bool operator==(const Candidate&, const Candidate&) = default;
  friend auto operator<=>(const Candidate&, const Candidate&) = default;
};

/// The problem a step has to solve: the whole one, or the same GEMM with identity epilogue and an
/// f32/s32 tight D for `Part::gemm`. (A `Part::epilogue` step gets the whole problem and reads the
/// temporary as its `acc`.)
Problem problem_of(const Problem& whole, Part part);

// ---------------------------------------------------------------------------------------------------------------------

enum class ArtifactKind : std::uint8_t {
  cubin,         ///< machine code for one exact GPU architecture
  host_so,       ///< a shared library for this CPU
  host_builtin,  ///< a kernel compiled into culet itself, found by `entry`
  library_call,  ///< a call into a vendor library; `bytes` holds its attributes as text
};
std::string_view to_string(ArtifactKind kind);

/// What Backend::build returns: code, or a description of a library call.
struct Artifact {
  ArtifactKind kind = ArtifactKind::cubin;
  std::string bytes;  ///< code, or the attributes of a library call
  std::string
      entry;  ///< kernel symbol; for a library call the library: "cublaslt", "openblas", "onednn"
  std::string
      toolchain;    ///< what made it: "nvrtc 13.0 sm_90a", "g++ 12.2 x86-64-v4", "cublasLt 13.1.0"
  std::string log;  ///< the compiler's warnings, possibly empty
};

/// A launch quantity that may depend on m, which is known only at the call:
/// `min(cap, add + mul * ceil(m / div))`; a constant has mul == 0.
struct MValue {
  std::int64_t add = 0;
  std::int64_t mul = 0;
  std::int64_t div = 1;
  std::int64_t cap = INT64_MAX;

  MValue() = default;
  MValue(std::int64_t constant) : add(constant) {}  // NOLINT: a constant is an MValue
  static MValue times_m(std::int64_t factor) { return tiles_of_m(1, factor); }
  static MValue tiles_of_m(std::int64_t tile, std::int64_t factor, std::int64_t cap = INT64_MAX);
  std::int64_t at(std::int64_t m) const {
    if (mul == 0) return add < cap ? add : cap;
    const std::int64_t value = add + mul * ((m + div - 1) / div);
    return value < cap ? value : cap;
  }
  friend bool operator==(const MValue&, const MValue&) = default;
};

/// What a pointer argument points to. `extra` counts the epilogue's operands in the order of
/// Epilogue::operands(); `temporary` is the accumulator between a gemm and an epilogue step;
/// `scratch` the step's own workspace.
enum class Operand : std::uint8_t { a, b, d, extra, temporary, scratch, packed_b };

/// A CUDA tensor map (TMA descriptor) over an operand, dimension 0 contiguous. Encoded anew for
/// each pointer.
struct TensorMapSpec {
  Operand operand = Operand::a;
  DType dtype = DType::bf16;
  int rank = 2;
  MValue dims[5];           ///< elements
  MValue strides_bytes[5];  ///< strides of dims 1..rank-1, in bytes, a multiple of 16; [0] unused
  MValue box[5] = {1, 1, 1, 1, 1};  ///< elements; the kernel counts on as many bytes
  int swizzle_bytes = 128;          ///< 0, 32, 64 or 128
  int l2_promotion_bytes = 0;       ///< 0, 64, 128 or 256
  friend bool operator==(const TensorMapSpec&, const TensorMapSpec&) = default;
};

/// One parameter of a CUDA kernel.
struct LaunchArg {
  enum class Kind : std::uint8_t { pointer, i32, i64, f32, tensor_map };
  Kind kind = Kind::pointer;
  Operand operand = Operand::a;   ///< pointer
  int extra = 0;                  ///< pointer to Operand::extra: which
  std::int64_t offset_bytes = 0;  ///< pointer: added to it
  MValue value;                   ///< i32, i64
  float f32 = 0;
  TensorMapSpec map;  ///< tensor_map: passed by value, 128 bytes, 64-byte aligned

  static LaunchArg pointer(Operand operand, int extra = 0, std::int64_t offset_bytes = 0);
  static LaunchArg i32(MValue value);
  static LaunchArg i64(MValue value);
  static LaunchArg real(float value);
  static LaunchArg tensor_map(TensorMapSpec map);
};

/// How a kernel on the CPU is called: it gets a HostKernelArgs (culet/host_kernel.h) once per
/// thread, each with its own part of one dimension, cut at multiples of `granularity`. Batch
/// entries are spread over the threads before a dimension is.
///
/// With Split::k a kernel computes the plain sum of its k range: `d` is then the thread's own tight
/// m x n partial (f32, or s32 where the problem accumulates in s32; ldd == n; `extra` is not to be
/// used), and the launcher adds the partials in a fixed order and applies the step's epilogue. The
/// launcher provides that memory.
struct HostLaunch {
  enum class Split : std::uint8_t { none, m, n, k };
  Split split = Split::none;
  std::int64_t granularity = 1;
  int threads = 1;
  std::int64_t scratch_bytes_per_thread = 0;
};

/// How to start an Artifact: grid, block, memory and arguments, as functions of m where they depend
/// on it. Pure data.
struct LaunchSpec {
  // CUDA
  MValue grid[3] = {1, 1, 1};
  std::uint32_t block[3] = {1, 1, 1};
  std::uint32_t cluster[3] = {1, 1, 1};
  std::uint32_t shared_bytes = 0;
  bool pdl =
      false;  ///< the kernel orders itself with griddepcontrol; used only if RunOptions::pdl allows
  std::vector<LaunchArg> args;
  // CPU
  HostLaunch host;
  // both
  MValue workspace_bytes;  ///< the step's own scratch
  std::int64_t workspace_align = 256;
  std::int64_t zeroed_prefix = 0;  ///< bytes of the scratch that must be zero before the first run
                                   ///< (the kernel leaves them so)
  std::int64_t packed_b_bytes =
      0;  ///< > 0: the step reads B from a buffer prepared once by `pack_entry`; the whole of it,
          ///< in equal shares for batch entries that have a B of their own
  std::string pack_entry;

  /// JSON text; `from_json(json())` gives the same launch.
  std::string json() const;
  static Result<LaunchSpec> from_json(std::string_view text);
};

/// A step ready to be loaded.
struct BuiltStep {
  Step step;
  Artifact artifact;
  LaunchSpec launch;
};

/// A candidate ready to be loaded; steps in order.
struct BuiltCandidate {
  Candidate candidate;
  std::vector<BuiltStep> steps;
};

}  // namespace culet

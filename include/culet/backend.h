// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// The two bases everything that can compute a GEMM derives from. A new backend is a folder and a
// line in src/backends/registry.cpp, or, in a user's program, a class and a call of Registry::add.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "culet/candidate.h"
#include "culet/device.h"
#include "culet/error.h"
#include "culet/problem.h"

namespace culet {

/// A backend's answer to "can you compute this here?".
struct Support {
  bool yes = false;
  std::string reason;  ///< of a no, the rule it refuses by: "k=100: TMA needs rows of a multiple of
                       ///< 16 bytes"
  bool fuses_epilogue =
      true;  ///< of a yes: false means it computes the gemm part, and a second step does the rest

  static Support can() { return {true, {}, true}; }
  static Support gemm_only() { return {true, {}, false}; }
  static Support cannot(std::string reason) { return {false, std::move(reason), false}; }
};

/// What the ranking model needs to know of a candidate: totals over the whole problem, from which
/// time is estimated on any device. See docs/ranking.md for the formula.
struct Features {
  double math_ops = 0;  ///< operations issued, padding included
  bool tensor = true;   ///< on tensor cores / matrix or bf16-dot units; false: ordinary pipes
  DType math_dtype = DType::bf16;
  double math_efficiency = 1;  ///< of the peak, in the steady state of this tile shape
  double dram_bytes =
      0;  ///< read and written, repeated reads that miss the last-level cache counted
  double l2_bytes = 0;
  double shared_bytes = 0;
  double tiles = 1;  ///< independent work items (thread blocks, or threads' parts)
  double slots = 1;  ///< how many of them the device holds at once
  double launches = 1;
  double extra_seconds = 0;    ///< serial work outside the roofline: reductions, packing, barriers
  double bytes_in_flight = 0;  ///< per unit; 0 = enough to saturate memory
};

/// What build() may use.
class BuildContext;

/// Something that can compute GEMMs. Implementations are stateless and thread-safe.
class Backend {
 public:
  virtual ~Backend() = default;
  virtual std::string_view name() const = 0;
  /// Version of its code or of the library behind it: part of every cache key.
  virtual std::string version() const = 0;
  virtual DeviceKind device_kind() const = 0;
  /// A vendor library: its plans are the baseline, never cut by `top`, and never ranked.
  virtual bool is_vendor() const { return false; }
  /// Chosen only if nothing else answers (the reference).
  virtual bool is_fallback() const { return false; }
  /// Computes Part::epilogue steps, and nothing else: completes a backend that answers
  /// Support::gemm_only().
  virtual bool is_epilogue_step() const { return false; }

  virtual Support supports(const Problem& problem, const DeviceSpec& device) const = 0;
  /// The whole configuration space for a supported problem; a vendor's come in its own order of
  /// preference, the first being its default. Deterministic.
  virtual std::vector<Config> configs(const Problem& problem, const DeviceSpec& device) const = 0;
  /// Input of the ranking model; nothing for vendors.
  virtual std::optional<Features> features(const Problem& problem, const Config& config,
                                           const DeviceSpec& device) const = 0;
  /// Makes the code and says how to launch it. Errors: build_failed with the log in `detail`.
  virtual Result<BuiltStep> build(const Problem& problem, const Step& step,
                                  const DeviceSpec& device, BuildContext& context) const = 0;
};

enum class SourceLanguage : std::uint8_t { cuda, cpp };

/// Source of a kernel, one self-contained translation unit.
struct Source {
  SourceLanguage language = SourceLanguage::cuda;
  /// May `#include` culet's own device headers by name ("layout.cuh", the layout algebra); there
  /// are no others.
  std::string text;
  std::string entry;                 ///< the kernel's (extern "C") symbol
  std::vector<std::string> options;  ///< further compiler options
};

/// A hand-written kernel template with a configuration space: describes its source and its launch,
/// the base does the rest.
class KernelFamily : public Backend {
 public:
  virtual Result<Source> source(const Problem& problem, const Step& step,
                                const DeviceSpec& device) const = 0;
  virtual Result<LaunchSpec> launch(const Problem& problem, const Step& step,
                                    const DeviceSpec& device) const = 0;
  /// source() -> compiled through the context's cache -> Artifact, plus launch().
  Result<BuiltStep> build(const Problem& problem, const Step& step, const DeviceSpec& device,
                          BuildContext& context) const override;
};

/// Compiles, with a content-addressed cache behind it. Thread-safe.
class BuildContext {
 public:
  virtual ~BuildContext() = default;
  /// Machine code for exactly `device` (cubin or host_so). The same source, options, compiler and
  /// architecture compile once.
  virtual Result<Artifact> compile(const Source& source, const DeviceSpec& device) = 0;
};

}  // namespace culet

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// A oneDNN matmul for a problem at one m: what the backend asks about (which implementation, how
// large packed weights are) and what the loaded step runs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "culet/candidate.h"
#include "culet/problem.h"
#include "device/onednn.h"

namespace culet {

/// How the library is used; the backend's configuration.
struct OneDnnVariant {
  bool packed = false;  ///< weights in the library's own layout, made once
  bool loop = false;    ///< a batch as a loop of 2-dimensional calls, not one 3-dimensional call

  Config config(const Problem& problem) const;
  static Result<OneDnnVariant> parse(const Config& config);
};

class OneDnnMatmul {
 public:
  /// Describes the problem to the library. `weights` is the packed layout to keep to; null lets the
  /// library choose one where the variant packs. Errors say what the library does not do.
  /// To be called, as create(), with OmpThreads in force.
  static Result<std::unique_ptr<OneDnnMatmul>> describe(const OneDnn& library,
                                                        const Problem& problem,
                                                        const OneDnnVariant& variant,
                                                        std::int64_t m,
                                                        const dnn::MemoryDesc* weights = nullptr);
  ~OneDnnMatmul();
  OneDnnMatmul(const OneDnnMatmul&) = delete;
  OneDnnMatmul& operator=(const OneDnnMatmul&) = delete;

  /// The library's name for its implementation, "brg:avx512_core".
  std::string implementation() const;
  const dnn::MemoryDesc* src() const { return &src_; }
  const dnn::MemoryDesc* dst() const { return &dst_; }
  const dnn::MemoryDesc* bias() const { return has_bias_ ? &bias_ : nullptr; }
  /// B as the problem lays it out.
  const dnn::MemoryDesc* plain_weights() const { return &plain_weights_; }
  /// B as the primitive reads it.
  const dnn::MemoryDesc* weights() const;
  const dnn::MemoryDesc* scratchpad() const;
  std::size_t weights_bytes() const;
  std::size_t scratchpad_bytes() const;

  /// Generates the code: 0.1 to 2 ms.
  Result<void> create();
  dnn::Primitive primitive() const { return primitive_; }

 private:
  explicit OneDnnMatmul(const OneDnn& library) : library_(library) {}
  bool describe_operands(const Problem& problem, const OneDnnVariant& variant, std::int64_t m);
  bool describe_primitive(const Problem& problem, const dnn::MemoryDesc* weights);

  const OneDnn& library_;
  dnn::MemoryDesc src_{}, plain_weights_{}, any_weights_{}, bias_{}, dst_{};
  bool has_bias_ = false;
  dnn::PrimitiveDesc descriptor_ = nullptr;
  dnn::Primitive primitive_ = nullptr;
};

/// Whether the library can fuse the problem's epilogue: `act(acc + bias[n])`.
bool onednn_fuses(const Problem& problem);

/// Whether the library's number of threads can be made `threads`; else why not.
Result<void> onednn_threads_settable(const OneDnn& library, int threads);

}  // namespace culet

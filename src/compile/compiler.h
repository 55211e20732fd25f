// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// Compiles kernel sources: NVRTC for CUDA, the system's C++ compiler for the CPU. Code is found in
// the cache by content: the key is a hash of source, options, compiler version and exact
// architecture.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/parallel.h"
#include "culet/backend.h"
#include "culet/cache.h"

namespace culet {

struct Compilation;

class Compiler : public BuildContext {
 public:
  /// `cache` may be null. `dump_dir`: every source and its code are also written there, named by
  /// entry and key.
  explicit Compiler(std::shared_ptr<Cache> cache, std::string dump_dir = {});
  ~Compiler() override;

  Result<Artifact> compile(const Source& source, const DeviceSpec& device) override;

  /// The same, telling in `*how` where the code came from. While another process compiles it,
  /// `cancelled` is asked; the error is then `interrupted`. With `how` null it is compiled ahead:
  /// the first who asks for it then is given the result, and told of it as compiled.
  Result<Artifact> compile(const Source& source, const DeviceSpec& device,
                           const std::function<bool()>& cancelled, Compilation* how);

  /// Kernels really compiled (not found in the cache) since construction.
  std::int64_t compiled() const;

  /// Whether sources of a language can be compiled here for the device, and if not why (one line).
  static Result<std::string> toolchain(SourceLanguage language, const DeviceSpec& device);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace culet

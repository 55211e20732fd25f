// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// One class a compiler: what it is, which options it gets, and how a source becomes code.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "culet/backend.h"
#include "culet/device.h"

namespace culet {

class Toolchain {
 public:
  struct Output {
    std::string code;
    std::string log;
  };

  virtual ~Toolchain() = default;
  /// What made the code, architecture included: "nvrtc 13.0 sm_90a", "g++ 12.2.0 x86-64-v4".
  virtual std::string text() const = 0;
  /// All of the compiler that code depends on: version text and every fixed option.
  virtual std::string fingerprint() const = 0;
  virtual ArtifactKind kind() const = 0;
  virtual Result<Output> compile(const Source& source) const = 0;
  /// Endings of dumped files: ".cu" and ".cubin".
  virtual const char* source_suffix() const = 0;
  virtual const char* code_suffix() const = 0;
};

/// Errors: the compiler is missing, or does not know the device's architecture; one line.
Result<std::unique_ptr<Toolchain>> nvrtc_toolchain(const DeviceSpec& device);
Result<std::unique_ptr<Toolchain>> host_toolchain(const DeviceSpec& device);

/// The one for a language, if that language is the device's.
Result<std::unique_ptr<Toolchain>> find_toolchain(SourceLanguage language,
                                                  const DeviceSpec& device);

/// The options that all sources of a language get from this culet, as fingerprints have them.
std::string fixed_options_of(SourceLanguage language);
std::string nvrtc_options();
std::string host_options();

/// The -march value for a CPU level of DeviceSpec::architecture.
std::string host_march(const std::string& architecture);

}  // namespace culet

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// Keys of code, and finding it by the compilers the store knows.
#include "compile/stored_code.h"

#include <fmt/format.h>

#include "base/hash.h"
#include "compile/toolchain.h"

namespace culet {
namespace {

/// Raised whenever what is stored under a key changes its meaning.
constexpr std::string_view kKeyFormat = "culet-code-1";

/// The key names all of this; a stored entry that says otherwise is not to be trusted.
bool fits(const Artifact& artifact, const Source& source, const DeviceSpec& device) {
  const bool cuda = source.language == SourceLanguage::cuda;
  return artifact.kind == (cuda ? ArtifactKind::cubin : ArtifactKind::host_so) &&
         artifact.entry == source.entry && !artifact.bytes.empty() &&
         artifact.toolchain.ends_with(" " + device.architecture);
}

}  // namespace

std::string code_key(const Source& source, std::string_view fingerprint) {
  std::string text;
  // Every part with its length in front, so that no two lists of parts give the same text.
  const auto add = [&](std::string_view part) { text += fmt::format("{}:{};", part.size(), part); };
  add(kKeyFormat);
  add(fingerprint);
  add(source.entry);
  add(fmt::format("{}", source.options.size()));
  for (const std::string& option : source.options) add(option);
  add(source.text);
  return hash128_hex(text);
}

Result<Artifact> StoredCode::compile(const Source& source, const DeviceSpec& device) {
  if ((source.language == SourceLanguage::cuda) == device.is_cuda()) {
    // Another version of culet, or a build for another purpose, may compile otherwise.
    const std::string options = fixed_options_of(source.language);
    for (const std::string& fingerprint : cache_.toolchains(device.architecture)) {
      if (fingerprint.find(options) == std::string::npos) continue;
      auto found = cache_.find_code(code_key(source, fingerprint));
      if (found && fits(*found, source, device)) return std::move(*found);
    }
  }
  return otherwise_.compile(source, device);
}

}  // namespace culet

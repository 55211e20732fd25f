// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// Code for what was chosen before. It was compiled then, and by which compilers the store knows; to
// load or to ask one again takes longer than all the rest of a process' way to its first launch,
// and there may be none any more.
#pragma once

#include <string>
#include <string_view>

#include "culet/backend.h"
#include "culet/cache.h"

namespace culet {

/// The key that code has in a cache: a hash of the source with its options and of the compiler.
std::string code_key(const Source& source, std::string_view fingerprint);

/// Gives stored code of a source, whichever compiler made it (the last used first), and has it
/// compiled only where there is none. Not for measuring, which is of today's compiler's code.
class StoredCode final : public BuildContext {
 public:
  StoredCode(Cache& cache, BuildContext& otherwise) : cache_(cache), otherwise_(otherwise) {}
  Result<Artifact> compile(const Source& source, const DeviceSpec& device) override;

 private:
  Cache& cache_;
  BuildContext& otherwise_;
};

}  // namespace culet

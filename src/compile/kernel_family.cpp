// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// What every hand-written kernel template does to become code: describe, compile, say how to
// launch.
#include "codegen/codegen.h"
#include "culet/backend.h"

namespace culet {

Result<BuiltStep> KernelFamily::build(const Problem& problem, const Step& step,
                                      const DeviceSpec& device, BuildContext& context) const {
  auto text = source(problem, step, device);
  if (!text) return tl::unexpected<Error>(text.error());
  auto spec = launch(problem, step, device);
  if (!spec) return tl::unexpected<Error>(spec.error());
  text->text = flatten_text(text->text);
  auto artifact = context.compile(*text, device);
  if (!artifact) return tl::unexpected<Error>(artifact.error());
  return BuiltStep{step, std::move(*artifact), std::move(*spec)};
}

}  // namespace culet

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
#pragma once

#include <string>

#include "session.h"

namespace culet::cli {

/// What `tune` would compile and time for the session's problems, and about how long that takes.
std::string dry_run_text(const Session& session);

}  // namespace culet::cli

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// A process to be killed while its worker runs a candidate that never ends.
#pragma once

namespace culet {

inline constexpr const char* kHangingOwner = "--own-a-hanging-worker";
int own_a_hanging_worker();

}  // namespace culet

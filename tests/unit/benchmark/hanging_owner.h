// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// What this program does where it is started by a test: a process to be killed while its worker
// runs a candidate that never ends, a worker that says it is of another build, and one that dies or
// sends nonsense when it is given a problem.
#pragma once

namespace culet {

inline constexpr const char* kHangingOwner = "--own-a-hanging-worker";
int own_a_hanging_worker();
inline constexpr const char* kAnotherBuild = "--another-build";
/// Variable: how the worker misbehaves, "dies" or "nonsense".
inline constexpr const char* kWorkerFault = "CULET_TEST_WORKER_FAULT";

}  // namespace culet

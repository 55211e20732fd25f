// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// Everything public.
#pragma once

#include "culet/backend.h"      // IWYU pragma: export
#include "culet/cache.h"        // IWYU pragma: export
#include "culet/candidate.h"    // IWYU pragma: export
#include "culet/compare.h"      // IWYU pragma: export
#include "culet/device.h"       // IWYU pragma: export
#include "culet/doctor.h"       // IWYU pragma: export
#include "culet/dtype.h"        // IWYU pragma: export
#include "culet/epilogue.h"     // IWYU pragma: export
#include "culet/error.h"        // IWYU pragma: export
#include "culet/exchange.h"     // IWYU pragma: export
#include "culet/host_kernel.h"  // IWYU pragma: export
#include "culet/matmul.h"       // IWYU pragma: export
#include "culet/overrides.h"    // IWYU pragma: export
#include "culet/plan.h"         // IWYU pragma: export
#include "culet/problem.h"      // IWYU pragma: export
#include "culet/ranking.h"      // IWYU pragma: export
#include "culet/registry.h"     // IWYU pragma: export
#include "culet/report.h"       // IWYU pragma: export
#include "culet/run_log.h"      // IWYU pragma: export
#include "culet/settings.h"     // IWYU pragma: export
#include "culet/tuner.h"        // IWYU pragma: export
#include "culet/version.h"      // IWYU pragma: export
#include "culet/worker.h"       // IWYU pragma: export

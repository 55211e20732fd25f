// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// What leaves a store as a file, and what comes in: each returns the exit status.
#pragma once

#include "arguments.h"
#include "culet/cache.h"

namespace culet::cli {

int cache_export(const Arguments& arguments, Cache& cache);
int cache_import(const Arguments& arguments, Cache& cache);
int cache_merge(const Arguments& arguments, Cache& cache);

}  // namespace culet::cli

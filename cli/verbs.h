// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// One function a verb; each returns the exit status.
#pragma once

#include "arguments.h"

namespace culet::cli {

int run_tune(const Arguments& arguments);  ///< tune, and its --dry-run
int run_rank(const Arguments& arguments);
int run_bench(const Arguments& arguments);
int run_explain(const Arguments& arguments);
int run_list(const Arguments& arguments);
int run_cache(const Arguments& arguments);
int run_pin(const Arguments& arguments);
int run_deny(const Arguments& arguments);
int run_forget(const Arguments& arguments);
int run_compare(const Arguments& arguments);
int run_doctor(const Arguments& arguments);
int run_env(const Arguments& arguments);

}  // namespace culet::cli

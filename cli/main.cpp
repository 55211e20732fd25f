// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// The command-line program: parses, and hands over to a verb.
#include <fmt/format.h>

#include <cstdio>

#include "arguments.h"
#include "console.h"
#include "culet/worker.h"
#include "verbs.h"

namespace {

int run(const culet::cli::Arguments& arguments) {
  using culet::cli::Verb;
  switch (arguments.verb) {
    case Verb::tune:
      return culet::cli::run_tune(arguments);
    case Verb::rank:
      return culet::cli::run_rank(arguments);
    case Verb::list:
      return culet::cli::run_list(arguments);
    case Verb::bench:
      return culet::cli::run_bench(arguments);
    case Verb::explain:
      return culet::cli::run_explain(arguments);
    case Verb::cache:
      return culet::cli::run_cache(arguments);
    case Verb::pin:
      return culet::cli::run_pin(arguments);
    case Verb::deny:
      return culet::cli::run_deny(arguments);
    case Verb::forget:
      return culet::cli::run_forget(arguments);
    case Verb::compare:
      return culet::cli::run_compare(arguments);
    case Verb::doctor:
      return culet::cli::run_doctor(arguments);
    case Verb::env:
      return culet::cli::run_env(arguments);
  }
  return 1;
}

}  // namespace

int main(int argc, char** argv) {
  if (const auto status = culet::run_as_worker(argc, argv)) return *status;
  const culet::cli::Parsed parsed = culet::cli::parse_arguments(argc, argv);
  if (!parsed.error.empty()) {
    culet::cli::report_error({culet::ErrorCode::invalid_argument, parsed.error, {}});
    return parsed.status;
  }
  if (parsed.arguments) return run(*parsed.arguments);
  if (parsed.status != 0) {
    fmt::print(stderr, "{}", parsed.text);
    return parsed.status;
  }
  const auto delivered = culet::cli::deliver(parsed.text, {});
  return delivered ? 0 : culet::cli::report_error(delivered.error());
}

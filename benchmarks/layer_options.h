// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// The command line of the benchmarks of layers:
//
//     PROGRAM [--candidates N] [--rounds N] [--m LIST] [--shapes FILE] [PROBLEM...]
#pragma once

#include <algorithm>
#include <cstdlib>
#include <string>
#include <vector>

#include "common.h"
#include "culet/culet.h"

namespace bench {

struct LayerOptions {
  int candidates;
  int rounds = 11;
  std::vector<std::int64_t> m;
  std::vector<culet::Problem> given;

  /// What was given, each at every m of the list.
  std::vector<culet::Problem> problems() const {
    if (m.empty()) return given;
    std::vector<culet::Problem> all;
    for (const culet::Problem& problem : given) {
      for (const std::int64_t rows : m) all.push_back(must(problem.with_m(rows), 2));
    }
    return all;
  }
};

inline std::vector<std::int64_t> numbers(const std::string& text) {
  std::vector<std::int64_t> all;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find(',', at), text.size());
    all.push_back(std::atoll(text.substr(at, end - at).c_str()));
    at = end + 1;
  }
  return all;
}

inline LayerOptions parse_options(int argc, char** argv, const char* name, int candidates) {
  program = name;
  constexpr const char* kUsage =
      "[--candidates N] [--rounds N] [--m LIST] [--shapes FILE] [PROBLEM...]";
  answer_help(argc, argv, kUsage);
  LayerOptions options{candidates, 11, {}, {}};
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    const bool has_value = word.rfind("--", 0) == 0;
    if (has_value && i + 1 == argc) stop(word + " wants a value", 2);
    const std::string value = has_value ? argv[++i] : "";
    if (word == "--candidates") {
      options.candidates = std::max(1, std::atoi(value.c_str()));
    } else if (word == "--rounds") {
      options.rounds = std::max(1, std::atoi(value.c_str()));
    } else if (word == "--m") {
      options.m = numbers(value);
    } else if (word == "--shapes") {
      for (const culet::Problem& p : must(culet::read_shapes(value), 2)) options.given.push_back(p);
    } else if (has_value) {
      stop("unknown option " + word + "; there are " + kUsage, 2);
    } else {
      options.given.push_back(must(culet::Problem::parse(word), 2));
    }
  }
  if (options.given.empty()) options.given = {must(culet::Problem::parse("16x4096x4096:bf16"))};
  return options;
}

}  // namespace bench

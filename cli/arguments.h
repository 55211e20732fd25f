// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// The command line as data. Values are kept as they were written: what they mean, and what is wrong
// with them, is said by whoever uses them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace culet::cli {

enum class Verb : std::uint8_t {
  tune,
  rank,
  list,
  bench,
  explain,
  cache,
  pin,
  deny,
  forget,
  compare,
  doctor,
  env
};

struct Arguments {
  std::vector<std::string> words;  ///< all of them, as they were given
  Verb verb = Verb::tune;
  std::vector<std::string> problems;
  std::string shapes;  ///< file of problems, one a line
  std::string m;       ///< list of m to try for each problem
  std::string device = "auto";
  std::optional<std::string> top;
  std::optional<std::string> backends;
  std::string format = "table";
  std::string trials = "all";  ///< of JSON and CSV: all or tried
  std::string output;          ///< file; empty: standard output
  std::string budget;          ///< seconds
  std::string seed;
  std::string cache;                ///< see open_cache
  std::string max_memory;           ///< GB
  std::optional<std::string> dump;  ///< folder
  std::optional<std::string> isolation;
  std::optional<std::string> log;  ///< file
  bool no_measure = false;
  bool compile = false;  ///< rank: compile the shortlist, too
  bool dry_run = false;
  bool fresh = false;  ///< measure again what is stored
  std::vector<std::string> candidates;
  bool why = false;
  bool all = false;                ///< explain: candidates that were only ranked, too
  std::string cache_verb;          ///< path, ls, show, verify, clear, export, import, merge
  std::vector<std::string> files;  ///< cache import, cache merge
  bool measurements = false;       ///< cache clear: trials and selections only
  std::string relax;               ///< list of fields, see parse_relax
  bool any = false;                ///< cache import: entries of other machines, too
  bool code = false;               ///< cache export: with compiled code
  bool allow_code = false;         ///< compiled code of another store is taken
  std::string before, after;       ///< compare: files
  std::string slack;               ///< compare: per cent
  std::string problem, candidate;  ///< pin
  std::string denied;              ///< deny: a backend or a candidate
  bool remove = false;             ///< pin, deny: take it back
  bool markdown = false;
};

/// What to do: run the arguments, or print a text (help, version) and end with a status.
struct Parsed {
  std::optional<Arguments> arguments;
  std::string text;   ///< for standard output
  std::string error;  ///< one line for standard error
  int status = 0;
};

Parsed parse_arguments(int argc, const char* const* argv);

}  // namespace culet::cli

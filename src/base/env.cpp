// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// The table and its accessors. Values are read anew each time: a program may set them before use.
#include "base/env.h"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <cstdlib>

#include "base/text.h"

namespace culet {

const std::vector<EnvVariable>& env_table() {
  static const std::vector<EnvVariable> table = {
      {"CULET_BACKENDS", "all",
       "Backends to ask, as `--backends`: names to allow, `-name` to deny, `vendor` for all vendor "
       "backends."},
      {"CULET_MAX_PROFILING_CONFIGS", "5",
       "Candidates of each ranked backend that are compiled and measured, as `--top`; `all` for "
       "every one. Vendor candidates do not count."},
      {"CULET_DISABLE", "0", "1: only vendor plans are used; nothing is compiled or ranked."},
      {"CULET_CACHE", "$XDG_CACHE_HOME/culet or ~/.cache/culet",
       "Folder of the store of compiled code and timings; `none` keeps it in memory."},
      {"CULET_CACHE_MB", "1000",
       "Megabytes of compiled code the store keeps; what was used longest ago goes first."},
      {"CULET_CACHE_FOREIGN", "0",
       "1: compiled code is also used from a store that another user owns or everybody may write "
       "to. Code in a store is loaded and run."},
      {"CULET_DUMP", "unset",
       "Folder that the source and the code of every compiled kernel are written to, as `--dump`."},
      {"CULET_LOG", "unset",
       "File that `tune`, `bench` and `explain` append what they do to, as JSON lines, as "
       "`--log`."},
      {"CULET_ISOLATION", "process",
       "Where candidates are verified and timed, as `--isolation`: `process` (a worker process, so "
       "that a crash costs the candidate only) or `none` (the tuning process)."},
      {"CULET_WORKER", "this program, or `culet` where that is installed",
       "Program that is started as worker process: a `culet` of the same build."},
      {"CULET_THREADS", "all usable cores", "Threads that kernels on the CPU use."},
      {"CULET_CXX", "g++, c++ or clang++, whichever is found first",
       "C++ compiler for CPU kernels made from source; without one the precompiled ones serve."},
      {"CULET_CUDA_PATH", "the usual places",
       "Folder searched first for NVRTC and cuBLASLt: a CUDA toolkit or its library folder."},
  };
  return table;
}

std::optional<std::string> env(std::string_view name) {
  assert(std::any_of(env_table().begin(), env_table().end(),
                     [&](const EnvVariable& v) { return v.name == name; }));
  const char* value = std::getenv(std::string(name).c_str());
  if (value == nullptr || value[0] == '\0') return std::nullopt;
  return std::string(value);
}

namespace {

Result<int> positive(std::string_view name, const std::string& text, std::string_view also) {
  std::int64_t value = 0;
  if (parse_int(text, &value) == IntParse::ok && value > 0 && value <= 1'000'000) {
    return static_cast<int>(value);
  }
  return fail(ErrorCode::invalid_argument,
              fmt::format("{}: '{}' is not a positive number{}", name, shown(text), also));
}

}  // namespace

Result<int> env_max_profiling_configs() {
  constexpr std::string_view kName = "CULET_MAX_PROFILING_CONFIGS";
  const std::optional<std::string> text = env(kName);
  if (!text) return 5;
  if (*text == "all") return -1;
  return positive(kName, *text, " or 'all'");
}

Result<int> env_threads() {
  constexpr std::string_view kName = "CULET_THREADS";
  const std::optional<std::string> text = env(kName);
  if (!text) return 0;
  return positive(kName, *text, "");
}

Result<int> env_cache_mb() {
  constexpr std::string_view kName = "CULET_CACHE_MB";
  const std::optional<std::string> text = env(kName);
  if (!text) return 1000;
  return positive(kName, *text, "");
}

bool env_cache_foreign() { return env("CULET_CACHE_FOREIGN") == "1"; }

Result<bool> env_disabled() {
  const std::string text = env("CULET_DISABLE").value_or("0");
  // "false" or "no" would otherwise disable what somebody meant to keep.
  if (text == "0" || text == "1") return text == "1";
  return fail(ErrorCode::invalid_argument,
              fmt::format("CULET_DISABLE: '{}' is not 0 or 1", shown(text)));
}

std::string env_markdown() {
  std::string out = "| variable | default | meaning |\n|---|---|---|\n";
  for (const EnvVariable& v : env_table()) {
    out += fmt::format("| `{}` | {} | {} |\n", v.name, v.standard, v.meaning);
  }
  return out;
}

}  // namespace culet

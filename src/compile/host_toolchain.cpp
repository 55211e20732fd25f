// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// C++ sources through the system's compiler, to a shared library held in memory. The compiler is
// optional: without one, kernels compiled into culet still run.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstdlib>
#include <fstream>
#include <map>
#include <mutex>
#include <vector>

#include "base/files.h"
#include "base/subprocess.h"
#include "compile/toolchain.h"

namespace culet {

namespace {

/// Far more than any kernel needs (cpu_tile's largest files take a few seconds): it bounds a
/// compiler that hangs.
constexpr double kTimeoutSeconds = 120;

const std::vector<std::string>& fixed_options() {
  static const std::vector<std::string> options = {
    "-std=c++20",
    "-O3",
    "-fPIC",
    "-shared",
    "-fno-math-errno",
    "-Wl,--as-needed",
#if defined(__SANITIZE_ADDRESS__)
    // Kernels are checked as the program is that runs them.
    "-fsanitize=address,undefined",
    "-fno-sanitize-recover=all",
#endif
  };
  return options;
}

/// Whether a compiler that ended by itself was not able to, rather than not willing: killed (its
/// driver says so), or without memory or disk. What it was given may well be right.
bool ran_out(const std::string& output) {
  for (const char* text : {"signal terminated program", "out of memory", "memory exhausted",
                           "annot allocate memory", "No space left on device"}) {
    if (output.find(text) != std::string::npos) return true;
  }
  return false;
}

struct HostCompiler {
  std::string path;
  std::string name;     ///< "g++ 12.2.0"
  std::string version;  ///< all of --version
};

/// Asks a compiler who it is.
Result<HostCompiler> describe_compiler(const std::string& path) {
  const ProcessOptions options{20, 1 << 16};
  auto version = run_process({path, "--version"}, options);
  if (!version) return tl::unexpected<Error>(version.error());
  auto number = run_process({path, "-dumpfullversion", "-dumpversion"}, options);
  if (!number) return tl::unexpected<Error>(number.error());
  if (!version->ok() || !number->ok()) {
    return fail(ErrorCode::device,
                fmt::format("{} is no C++ compiler culet can use: {}", path,
                            version->how_it_ended(options)),
                version->output);
  }
  HostCompiler compiler{path, {}, version->output};
  const bool clang = version->output.find("clang") != std::string::npos;
  compiler.name = fmt::format("{} {}", clang ? "clang++" : "g++",
                              number->output.substr(0, number->output.find('\n')));
  return compiler;
}

Result<HostCompiler> search_compiler(const std::string& chosen) {
  if (!chosen.empty()) {
    const std::string path = find_program(chosen);
    if (path.empty()) {
      return fail(ErrorCode::device, fmt::format("CULET_CXX={}: no such program", chosen));
    }
    return describe_compiler(path);
  }
  for (const char* name : {"g++", "c++", "clang++"}) {
    const std::string path = find_program(name);
    if (!path.empty()) return describe_compiler(path);
  }
  return fail(ErrorCode::device, "no C++ compiler (g++, c++, clang++ not found in PATH)");
}

/// Found once for each value of CULET_CXX and PATH.
Result<HostCompiler> find_compiler() {
  static std::mutex mutex;
  static std::map<std::string, HostCompiler> found;
  const char* chosen = std::getenv("CULET_CXX");
  const char* path = std::getenv("PATH");
  const std::string wanted = chosen == nullptr ? "" : chosen;
  const std::string key = fmt::format("{}\n{}", wanted, path == nullptr ? "" : path);
  const std::lock_guard lock(mutex);
  // Not finding one is not remembered: it may be installed, or have been too slow to answer.
  const auto known = found.find(key);
  if (known != found.end()) return known->second;
  auto compiler = search_compiler(wanted);
  if (compiler) found.emplace(key, *compiler);
  return compiler;
}

class HostToolchain final : public Toolchain {
 public:
  HostToolchain(HostCompiler compiler, std::string architecture)
      : compiler_(std::move(compiler)),
        architecture_(std::move(architecture)),
        march_("-march=" + host_march(architecture_)) {}

  std::string text() const override { return fmt::format("{} {}", compiler_.name, architecture_); }
  std::string fingerprint() const override {
    return fmt::format("{}\n{} {}\n{}", text(), march_, host_options(), compiler_.version);
  }
  ArtifactKind kind() const override { return ArtifactKind::host_so; }
  const char* source_suffix() const override { return ".cpp"; }
  const char* code_suffix() const override { return ".so"; }
  Result<Output> compile(const Source& source) const override;

 private:
  HostCompiler compiler_;
  std::string architecture_;
  std::string march_;
};

Result<Toolchain::Output> HostToolchain::compile(const Source& source) const {
  auto folder = TemporaryFolder::make();
  if (!folder) return tl::unexpected<Error>(folder.error());
  const std::string in = folder->path() + "/kernel.cpp";
  const std::string out = folder->path() + "/kernel.so";
  // No need to outlive a crash, so no fsync, which takes long on a busy disk.
  if (!(std::ofstream(in, std::ios::binary) << source.text << std::flush)) {
    return fail(ErrorCode::io, fmt::format("cannot write '{}'", in));
  }
  std::vector<std::string> command = {compiler_.path, march_};
  command.insert(command.end(), fixed_options().begin(), fixed_options().end());
  command.insert(command.end(), source.options.begin(), source.options.end());
  command.insert(command.end(), {in, "-o", out});
  const ProcessOptions options{kTimeoutSeconds, 1 << 20};
  auto result = run_process(command, options);
  if (!result) return tl::unexpected<Error>(result.error());
  if (!result->ok() && (result->timed_out || result->signal != 0 || ran_out(result->output))) {
    // Not build_failed: on a less busy machine the same source may compile.
    return fail(
        ErrorCode::device,
        fmt::format("{}: {} {}", source.entry, compiler_.name, result->how_it_ended(options)),
        result->output);
  }
  if (!result->ok()) {
    return fail(ErrorCode::build_failed,
                fmt::format("{} does not compile with {} ({})", source.entry, compiler_.name,
                            result->how_it_ended(options)),
                result->output);
  }
  auto code = read_file(out);
  if (!code) return tl::unexpected<Error>(code.error());
  return Output{std::move(*code), std::move(result->output)};
}

}  // namespace

std::string host_options() { return fmt::format("{}", fmt::join(fixed_options(), " ")); }

std::string host_march(const std::string& architecture) {
  // The levels above v4 are not psABI levels: the oldest part with the instructions stands for
  // them.
  if (architecture == "x86-64-v4-bf16") return "cooperlake";
  if (architecture == "x86-64-v4-amx") return "sapphirerapids";
  return architecture;
}

Result<std::unique_ptr<Toolchain>> host_toolchain(const DeviceSpec& device) {
  auto compiler = find_compiler();
  if (!compiler) return tl::unexpected<Error>(compiler.error());
  return std::make_unique<HostToolchain>(std::move(*compiler), device.architecture);
}

}  // namespace culet

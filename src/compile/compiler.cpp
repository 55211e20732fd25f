// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// The content-addressed compile cache around the toolchains.
#include "compile/compiler.h"

#include <fmt/format.h>

#include <chrono>
#include <future>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <utility>

#include "base/files.h"
#include "compile/stored_code.h"
#include "compile/toolchain.h"
#include "culet/tuner.h"

namespace culet {

namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

/// What is wanted, by whom.
struct Request {
  const Source& source;
  const Toolchain& toolchain;
  const std::function<bool()>& cancelled;
  Compilation* how;
  bool ahead;  ///< nobody is told
};

struct Known {
  std::shared_future<Result<Artifact>> result;
  std::optional<double> ahead;  ///< seconds of a compilation that nobody was told of yet
};

}  // namespace

struct Compiler::Impl {
  std::shared_ptr<Cache> cache;
  std::string dump_dir;
  std::atomic<std::int64_t> compiled{0};

  std::mutex mutex;
  /// Compilations under way, and results that no cache keeps or nobody was told of yet.
  std::map<std::string, Known> known;
  std::set<std::string> noted;  ///< fingerprints the cache was told

  /// One thread at a time for each key: the others get its result.
  Result<Artifact> once(const Request& request);
  Result<Artifact> find_or_compile(const Request& request);
  /// Makes a compilation ahead that of the first who is told of its result.
  void claim(const Result<Artifact>& result, Compilation* how);
  std::optional<Artifact> find(const Request& request);
  Result<Artifact> compile_now(const Request& request);
  Result<void> dump(const Request& request, const Result<Artifact>& result) const;
  /// Tells the cache which compiler its code is of.
  void note(const std::string& architecture, const std::string& fingerprint);
};

Compiler::Compiler(std::shared_ptr<Cache> cache, std::string dump_dir)
    : impl_(std::make_unique<Impl>()) {
  impl_->cache = std::move(cache);
  impl_->dump_dir = std::move(dump_dir);
}

Compiler::~Compiler() = default;

std::int64_t Compiler::compiled() const { return impl_->compiled.load(); }

Result<Artifact> Compiler::Impl::compile_now(const Request& request) {
  ++compiled;
  request.how->from = CodeFrom::compiled;
  const auto begin = Clock::now();
  auto output = request.toolchain.compile(request.source);
  request.how->seconds = seconds_since(begin);
  if (!output) return tl::unexpected<Error>(output.error());
  Artifact artifact;
  artifact.kind = request.toolchain.kind();
  artifact.bytes = std::move(output->code);
  artifact.entry = request.source.entry;
  artifact.toolchain = request.toolchain.text();
  artifact.log = std::move(output->log);
  return artifact;
}

std::optional<Artifact> Compiler::Impl::find(const Request& request) {
  auto found = cache->find_code(request.how->key);
  // The key names all of this; a stored entry that says otherwise is not to be trusted.
  if (found && (found->kind != request.toolchain.kind() || found->entry != request.source.entry ||
                found->bytes.empty())) {
    found.reset();
  }
  return found;
}

Result<Artifact> Compiler::Impl::find_or_compile(const Request& request) {
  if (cache == nullptr) return compile_now(request);
  if (auto found = find(request)) {
    request.how->from = CodeFrom::stored;
    return std::move(*found);
  }
  const auto lock = cache->lock_code(request.how->key, request.cancelled);
  if (request.cancelled()) {
    request.how->from = CodeFrom::awaited;
    return fail(ErrorCode::interrupted, request.source.entry + ": stopped before it was compiled");
  }
  // Whoever had the lock has published what it compiled.
  if (auto found = lock != nullptr ? find(request) : std::nullopt) {
    request.how->from = CodeFrom::awaited;
    return std::move(*found);
  }
  auto artifact = compile_now(request);
  if (artifact) cache->store_code(request.how->key, *artifact);
  return artifact;
}

void Compiler::Impl::note(const std::string& architecture, const std::string& fingerprint) {
  if (cache == nullptr) return;
  {
    const std::lock_guard lock(mutex);
    if (!noted.insert(fingerprint).second) return;
  }
  cache->note_toolchain(architecture, fingerprint);
}

Result<void> Compiler::Impl::dump(const Request& request, const Result<Artifact>& result) const {
  if (auto ok = make_folders(dump_dir); !ok) return ok;
  const std::string stem =
      fmt::format("{}/{}-{}", dump_dir, request.source.entry, request.how->key.substr(0, 12));
  if (auto ok =
          write_file_atomically(stem + request.toolchain.source_suffix(), request.source.text);
      !ok)
    return ok;
  const std::string& log = result ? result->log : result.error().detail;
  if (!log.empty()) {
    if (auto ok = write_file_atomically(stem + ".log", log); !ok) return ok;
  }
  if (!result) return {};
  return write_file_atomically(stem + request.toolchain.code_suffix(), result->bytes);
}

Result<Artifact> Compiler::Impl::once(const Request& request) {
  const std::string& key = request.how->key;
  std::promise<Result<Artifact>> promise;
  for (;;) {
    std::shared_future<Result<Artifact>> other;
    {
      const std::lock_guard lock(mutex);
      const auto [entry, fresh] = known.try_emplace(key);
      if (fresh) {
        entry->second.result = promise.get_future().share();
        break;
      }
      other = entry->second.result;
    }
    const bool there = other.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
    request.how->from = there ? CodeFrom::stored : CodeFrom::awaited;
    const auto& result = other.get();
    // Whoever was to compile it was told to stop; this caller was not.
    if (result || result.error().code != ErrorCode::interrupted || request.cancelled())
      return result;
  }

  Result<Artifact> result = fail(ErrorCode::build_failed, "not compiled");
  try {
    result = find_or_compile(request);
  } catch (const std::exception& exception) {
    result = fail(ErrorCode::build_failed,
                  fmt::format("{}: {}", request.source.entry, exception.what()));
  }
  if (!dump_dir.empty()) {
    // What was asked for beside the code must not be lost in silence.
    if (auto dumped = dump(request, result); !dumped && result) {
      result = tl::unexpected<Error>(dumped.error());
    }
  }
  // A cache keeps what succeeded; a source that does not compile never will. Anything else
  // (compiler missing, time-out) may be different next time.
  const bool lasts = result || result.error().code == ErrorCode::build_failed;
  const bool untold = lasts && request.ahead && request.how->from == CodeFrom::compiled;
  {
    const std::lock_guard lock(mutex);
    if (untold) known[key].ahead = request.how->seconds;
    if (!untold && (result ? cache != nullptr : !lasts)) known.erase(key);
  }
  promise.set_value(result);
  return result;
}

void Compiler::Impl::claim(const Result<Artifact>& result, Compilation* how) {
  const std::lock_guard lock(mutex);
  const auto at = known.find(how->key);
  if (at == known.end() || !at->second.ahead) return;
  how->from = CodeFrom::compiled;
  how->seconds = *at->second.ahead;
  at->second.ahead.reset();
  if (result && cache != nullptr) known.erase(at);
}

Result<Artifact> Compiler::compile(const Source& source, const DeviceSpec& device) {
  Compilation how;
  return compile(
      source, device, [] { return false; }, &how);
}

Result<Artifact> Compiler::compile(const Source& source, const DeviceSpec& device,
                                   const std::function<bool()>& cancelled, Compilation* told) {
  const auto begin = Clock::now();
  Compilation untold;
  Compilation* const how = told == nullptr ? &untold : told;
  how->entry = source.entry;
  auto toolchain = find_toolchain(source.language, device);
  Result<Artifact> result = fail(ErrorCode::device, "");
  if (toolchain) {
    how->key = code_key(source, (*toolchain)->fingerprint());
    result = impl_->once({source, **toolchain, cancelled, how, told == nullptr});
    if (result) impl_->note(device.architecture, (*toolchain)->fingerprint());
  } else {
    result = tl::unexpected<Error>(toolchain.error());
  }
  how->seconds = seconds_since(begin);
  if (told != nullptr) impl_->claim(result, how);
  if (!result) how->error = result.error().message;
  return result;
}

Result<std::string> Compiler::toolchain(SourceLanguage language, const DeviceSpec& device) {
  auto found = find_toolchain(language, device);
  if (!found) return tl::unexpected<Error>(found.error());
  return (*found)->text();
}

std::string fixed_options_of(SourceLanguage language) {
  return language == SourceLanguage::cuda ? nvrtc_options() : host_options();
}

Result<std::unique_ptr<Toolchain>> find_toolchain(SourceLanguage language,
                                                  const DeviceSpec& device) {
  if ((language == SourceLanguage::cuda) != device.is_cuda()) {
    return fail(ErrorCode::invalid_argument,
                fmt::format("{} sources cannot be compiled for {}",
                            language == SourceLanguage::cuda ? "CUDA" : "C++", device.name));
  }
  return language == SourceLanguage::cuda ? nvrtc_toolchain(device) : host_toolchain(device);
}

}  // namespace culet

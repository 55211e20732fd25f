// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// The content-addressed compile cache around the toolchains.
#include "compile/compiler.h"

#include <fmt/format.h>

#include <future>
#include <map>
#include <mutex>
#include <utility>

#include "base/files.h"
#include "base/hash.h"
#include "compile/toolchain.h"

namespace culet {

namespace {

/// Raised whenever what is stored under a key changes its meaning.
constexpr std::string_view kKeyFormat = "culet-code-1";

/// Every part with its length in front, so that no two lists of parts give the same text.
std::string key_of(const Source& source, const Toolchain& toolchain) {
  std::string text;
  const auto add = [&](std::string_view part) { text += fmt::format("{}:{};", part.size(), part); };
  add(kKeyFormat);
  add(toolchain.fingerprint());
  add(source.entry);
  add(fmt::format("{}", source.options.size()));
  for (const std::string& option : source.options) add(option);
  add(source.text);
  return hash128_hex(text);
}

}  // namespace

struct Compiler::Impl {
  std::shared_ptr<Cache> cache;
  std::string dump_dir;
  std::atomic<std::int64_t> compiled{0};

  std::mutex mutex;
  /// Compilations under way, and results that no cache keeps.
  std::map<std::string, std::shared_future<Result<Artifact>>> known;

  Result<Artifact> find_or_compile(const std::string& key, const Source& source,
                                   const Toolchain& toolchain);
  Result<Artifact> compile_now(const Source& source, const Toolchain& toolchain);
  Result<void> dump(const std::string& key, const Source& source, const Toolchain& toolchain,
                    const Result<Artifact>& result) const;
};

Compiler::Compiler(std::shared_ptr<Cache> cache, std::string dump_dir)
    : impl_(std::make_unique<Impl>()) {
  impl_->cache = std::move(cache);
  impl_->dump_dir = std::move(dump_dir);
}

Compiler::~Compiler() = default;

std::int64_t Compiler::compiled() const { return impl_->compiled.load(); }

Result<Artifact> Compiler::Impl::compile_now(const Source& source, const Toolchain& toolchain) {
  ++compiled;
  auto output = toolchain.compile(source);
  if (!output) return tl::unexpected<Error>(output.error());
  Artifact artifact;
  artifact.kind = toolchain.kind();
  artifact.bytes = std::move(output->code);
  artifact.entry = source.entry;
  artifact.toolchain = toolchain.text();
  artifact.log = std::move(output->log);
  return artifact;
}

Result<Artifact> Compiler::Impl::find_or_compile(const std::string& key, const Source& source,
                                                 const Toolchain& toolchain) {
  if (cache != nullptr) {
    auto found = cache->find_code(key);
    // The key names all of this; a stored entry that says otherwise is not to be trusted.
    if (found && found->kind == toolchain.kind() && found->entry == source.entry &&
        !found->bytes.empty()) {
      return std::move(*found);
    }
  }
  auto artifact = compile_now(source, toolchain);
  if (artifact && cache != nullptr) cache->store_code(key, *artifact);
  return artifact;
}

Result<void> Compiler::Impl::dump(const std::string& key, const Source& source,
                                  const Toolchain& toolchain,
                                  const Result<Artifact>& result) const {
  if (auto ok = make_folders(dump_dir); !ok) return ok;
  const std::string stem = fmt::format("{}/{}-{}", dump_dir, source.entry, key.substr(0, 12));
  if (auto ok = write_file_atomically(stem + toolchain.source_suffix(), source.text); !ok)
    return ok;
  const std::string& log = result ? result->log : result.error().detail;
  if (!log.empty()) {
    if (auto ok = write_file_atomically(stem + ".log", log); !ok) return ok;
  }
  if (!result) return {};
  return write_file_atomically(stem + toolchain.code_suffix(), result->bytes);
}

Result<Artifact> Compiler::compile(const Source& source, const DeviceSpec& device) {
  auto toolchain = find_toolchain(source.language, device);
  if (!toolchain) return tl::unexpected<Error>(toolchain.error());
  const std::string key = key_of(source, **toolchain);

  std::promise<Result<Artifact>> promise;
  std::shared_future<Result<Artifact>> other;
  {
    const std::lock_guard lock(impl_->mutex);
    const auto [entry, fresh] = impl_->known.try_emplace(key);
    if (fresh) {
      entry->second = promise.get_future().share();
    } else {
      other = entry->second;
    }
  }
  if (other.valid()) return other.get();

  Result<Artifact> result = fail(ErrorCode::build_failed, "not compiled");
  try {
    result = impl_->find_or_compile(key, source, **toolchain);
  } catch (const std::exception& exception) {
    result = fail(ErrorCode::build_failed, fmt::format("{}: {}", source.entry, exception.what()));
  }
  if (!impl_->dump_dir.empty()) {
    // What was asked for beside the code must not be lost in silence.
    if (auto dumped = impl_->dump(key, source, **toolchain, result); !dumped && result) {
      result = tl::unexpected<Error>(dumped.error());
    }
  }
  promise.set_value(result);
  // A cache keeps what succeeded; a source that does not compile never will. Anything else
  // (compiler missing, time-out) may be different next time.
  const bool keep =
      result ? impl_->cache == nullptr : result.error().code == ErrorCode::build_failed;
  if (!keep) {
    const std::lock_guard lock(impl_->mutex);
    impl_->known.erase(key);
  }
  return result;
}

Result<std::string> Compiler::toolchain(SourceLanguage language, const DeviceSpec& device) {
  auto found = find_toolchain(language, device);
  if (!found) return tl::unexpected<Error>(found.error());
  return (*found)->text();
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

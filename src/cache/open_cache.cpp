// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// Where the store is, what happens if it cannot be there, and the key texts.
#include <fmt/format.h>

#include <cstdlib>
#include <filesystem>

#include "base/env.h"
#include "base/files.h"
#include "cache/memory_cache.h"
#include "cache/sqlite_cache.h"
#include "cache/store_path.h"
#include "culet/cache.h"

namespace culet {
namespace {

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? std::string() : std::string(value);
}

Result<StoreOptions> options_from_environment() {
  const auto megabytes = env_cache_mb();
  if (!megabytes) return tl::unexpected(megabytes.error());
  StoreOptions options;
  options.code_limit = std::int64_t{*megabytes} * 1'000'000;
  options.allow_foreign = env_cache_foreign();
  return options;
}

}  // namespace

std::string Environment::text() const {
  return fmt::format("device {} | library {} | policy {}", device, library, policy);
}

std::string SelectionScope::text() const {
  return fmt::format("backends {} | top {} | space {:016x}", backends, top, space);
}

std::string store_path_in(const std::string& folder) {
  return (std::filesystem::path(folder) / "culet.sqlite").string();
}

std::string store_path(const std::string& named) {
  const std::string asked = named.empty() ? variable("CULET_CACHE") : named;
  if (asked == "none") return {};
  const std::string folder = asked.empty() ? user_cache_dir() : asked;
  return folder.empty() ? std::string() : store_path_in(folder);
}

Result<std::shared_ptr<Cache>> open_cache(const std::string& path) {
  const std::string asked = path.empty() ? variable("CULET_CACHE") : path;
  if (asked == "none") return std::make_shared<MemoryCache>();
  const auto options = options_from_environment();
  if (!options) return tl::unexpected(options.error());
  if (!asked.empty()) return SqliteCache::open(asked, *options);

  const std::string folder = user_cache_dir();
  if (folder.empty()) {
    return std::make_shared<MemoryCache>(
        "cache: no HOME, XDG_CACHE_HOME or CULET_CACHE: nothing is kept after this run");
  }
  auto store = SqliteCache::open(folder, *options);
  if (store) return store;
  return std::make_shared<MemoryCache>(store.error().message + "; nothing is kept after this run");
}

}  // namespace culet

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// The stored form of artifacts and trials: compression, checksums, JSON. What is written here is
// read by later versions, so the spellings are this module's own and do not follow a renaming
// elsewhere.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "culet/cache.h"
#include "culet/candidate.h"
#include "culet/report.h"

namespace culet {

/// XXH3-128 in hexadecimal over fields, each preceded by its length, so that no two lists of fields
/// collide by where they are cut.
std::string checksum(const std::vector<std::string_view>& fields);

/// The most bytes that code may have. A kernel's are tens of kilobytes; who stores may claim any
/// size, and so much memory is taken before that shows.
inline constexpr std::int64_t kMaxCodeBytes = std::int64_t{1} << 26;
std::string compress(std::string_view bytes);
/// Nothing where the data is not a whole frame of exactly `size` bytes, or that is more than
/// kMaxCodeBytes.
std::optional<std::string> decompress(std::string_view data, std::int64_t size);

std::string_view stored_name(ArtifactKind kind);
std::optional<ArtifactKind> artifact_kind(std::string_view name);
std::string_view stored_name(Limiter limiter);
std::optional<Limiter> stored_limiter(std::string_view name);

/// One JSON object; the trial's `order` and `from_cache` belong to a run and are not stored.
/// `made` is when it was stored, in milliseconds since 1970.
std::string trial_json(const Trial& trial, std::int64_t made = 0);
/// `made` becomes 0 where the text does not say.
std::optional<Trial> trial_from_json(std::string_view text, std::int64_t* made = nullptr);

/// The inverse of Environment::text() and SelectionScope::text(); nothing for other texts.
std::optional<Environment> parse_environment(std::string_view text);
std::optional<SelectionScope> parse_scope(std::string_view text);

}  // namespace culet

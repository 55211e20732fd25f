// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// What a store knows as a text that people read, edit and compare, and back (docs/cache.md,
// docs/exchange.schema.json); and which entries of such a text hold on this machine.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "culet/cache.h"
#include "culet/error.h"

namespace culet {

/// JSON, sorted by key, numbers with up to twelve significant digits: the same entries always give
/// the same bytes, also after they went through exchange_entries() and a store.
std::string exchange_text(const StoreContents& contents);

/// The inverse. `file` is what error messages call the text. Errors (invalid_argument): no JSON,
/// another schema, a value that makes no sense; the message names the place and what is right.
Result<StoreContents> exchange_entries(std::string_view text, const std::string& file);

/// Where compiled code that belongs to an exchange file lies: beside it.
std::string code_file_of(const std::string& exchange_file);

/// A part of an entry's key that may differ from what is here.
enum class Relax : std::uint8_t {
  driver,   ///< version of the device's driver (of a CPU: the operating system's)
  library,  ///< versions of the backends
  policy,   ///< how trials were measured
  name,     ///< name of the device; its architecture still has to be the same
  units,    ///< multiprocessors or cores
  threads,  ///< CPU: threads that kernels use
};
/// "driver,library"; errors name the item and what is known.
Result<std::set<Relax>> parse_relax(std::string_view list);

/// What is here, which the key of an entry is held against.
struct ImportRules {
  std::vector<std::string> devices;             ///< DeviceSpec::identity() of the devices here
  std::map<std::string, std::string> versions;  ///< of backends, by name
  std::string policy;                           ///< MeasurePolicy::text()
  /// An entry that differs in these only is taken over as if it had been measured here, unless
  /// there is an entry that was.
  std::set<Relax> relax;
};

struct Skipped {
  std::string reason;
  std::int64_t trials = 0, selections = 0;
};

struct Matched {
  StoreContents contents;        ///< what holds here, with the keys it has here
  std::vector<Skipped> skipped;  ///< what does not, by reason
};

Matched match(const StoreContents& contents, const ImportRules& rules);

}  // namespace culet

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// Files that people edit: exported stores and overrides. What is accepted is written, and reads
// back to the same bytes.
#include "culet/exchange.h"

#include "culet/overrides.h"
#include "fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace culet;
  const std::string_view text = fuzz::text_of(data, size);
  if (const auto contents = exchange_entries(text, "input")) {
    const std::string printed = exchange_text(*contents);
    const auto again = exchange_entries(printed, "printed");
    fuzz::must(again.has_value(), again ? "" : again.error().message);
    fuzz::must(exchange_text(*again) == printed, "export, import, export is byte-identical");
    ImportRules rules;
    rules.relax = {Relax::driver, Relax::library, Relax::policy};
    if (!contents->trials.empty()) rules.devices = {contents->trials.front().env.device};
    rules.versions = {{"reference", "1"}, {"cpu_tile", "2, with comma"}};
    (void)match(*contents, rules);
  }
  if (const auto overrides = Overrides::from_json(text, "input")) {
    const auto again = Overrides::from_json(overrides->json(), "printed");
    fuzz::must(again.has_value() && again->json() == overrides->json(), "overrides round trip");
  }
  return 0;
}

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// Problem text and candidate text: what parses prints, and prints the same after it parsed again.
#include "culet/problem.h"

#include "culet/candidate.h"
#include "fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace culet;
  const std::string_view text = fuzz::text_of(data, size);
  if (const auto problem = Problem::parse(text)) {
    const std::string printed = problem->text();
    const auto again = Problem::parse(printed);
    fuzz::must(again.has_value(), printed);
    fuzz::must(again->text() == printed, printed);
    (void)problem->validated();
  }
  if (const auto candidate = Candidate::parse(text)) {
    const auto again = Candidate::parse(candidate->text());
    fuzz::must(again.has_value() && *again == *candidate, candidate->text());
  }
  return 0;
}

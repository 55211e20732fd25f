// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// What is looked at before JSON that somebody else wrote is parsed. The library's parser takes
// anything, but printing, copying and comparing its values recurses once a level, and an ordered
// object is searched from its front for every name: some megabytes could end the program or take it
// minutes.
#pragma once

#include <string>
#include <string_view>

namespace culet {

/// Why the text should not be parsed: "line 1, column 101: nested more than 100 deep". Empty where
/// nothing speaks against it, and where a syntax error comes first: that is the parser's to say.
std::string beyond_json_limits(std::string_view text);

}  // namespace culet

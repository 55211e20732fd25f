// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// Where the store is, for those who want to know without making it.
#pragma once

#include <string>

namespace culet {

/// The store's file in a folder.
std::string store_path_in(const std::string& folder);

/// The file of open_cache(named); empty where that keeps everything in memory.
std::string store_path(const std::string& named);

}  // namespace culet

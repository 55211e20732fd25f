// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// What kind of place a store's folder is.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace culet {

/// The name of a network file system by the number statfs() gives for its type; empty for local
/// ones. On these, memory mapped by processes of several hosts is not shared, which SQLite's
/// write-ahead log relies on. FUSE counts, too: nothing tells a local one from sshfs.
std::string_view network_file_system(std::uint32_t type);

/// The same for a folder that exists.
std::string_view network_file_system_of(const std::string& folder);

/// Why code in a file should not be run by this user: another user owns it, or may write to it.
/// Empty where nothing is wrong. root may do anything anyway.
std::string foreign_owner(const std::string& file);

}  // namespace culet

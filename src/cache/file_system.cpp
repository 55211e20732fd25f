// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// See file_system.h.
#include "cache/file_system.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <array>
#include <utility>

namespace culet {
namespace {

/// From linux/magic.h and the file systems' own sources, since no header has all of them.
constexpr std::array<std::pair<std::uint32_t, std::string_view>, 15> kNetwork{{
    {0x00006969, "NFS"},
    {0x0000517b, "SMB"},
    {0xff534d42, "CIFS"},
    {0xfe534d42, "SMB2"},
    {0x65735546, "FUSE"},
    {0x01021997, "9P"},
    {0x5346414f, "AFS"},
    {0x6b414653, "kAFS"},
    {0x73757245, "Coda"},
    {0x0bd00bd0, "Lustre"},
    {0x47504653, "GPFS"},
    {0x00c36400, "Ceph"},
    {0x19830326, "BeeGFS"},
    {0x01161970, "GFS2"},
    {0x786f4256, "VirtualBox shared folder"},
}};

}  // namespace

std::string_view network_file_system(std::uint32_t type) {
  for (const auto& [magic, name] : kNetwork) {
    if (magic == type) return name;
  }
  return {};
}

std::string_view network_file_system_of(const std::string& folder) {
  struct statfs info {};
  if (::statfs(folder.c_str(), &info) != 0) return {};
  return network_file_system(static_cast<std::uint32_t>(info.f_type));
}

std::string foreign_owner(const std::string& file) {
  struct stat info {};
  if (::stat(file.c_str(), &info) != 0) return {};
  if (info.st_uid != ::geteuid() && info.st_uid != 0) {
    return fmt::format("it belongs to another user ({})", info.st_uid);
  }
  if ((info.st_mode & S_IWOTH) != 0) return "everybody may write to it";
  return {};
}

}  // namespace culet

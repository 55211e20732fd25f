// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// Kernels compiled into culet, by name.
#include "launch/host_builtin.h"

#include <map>
#include <mutex>
#include <utility>

namespace culet {

namespace {

struct Table {
  std::mutex mutex;
  std::map<std::string, HostBuiltin, std::less<>> builtins;
};

Table& table() {
  static Table instance;
  return instance;
}

HostBuiltin find(std::string_view name) {
  const std::lock_guard lock(table().mutex);
  const auto found = table().builtins.find(name);
  return found == table().builtins.end() ? HostBuiltin{} : found->second;
}

}  // namespace

void register_host_builtins(std::vector<HostBuiltin> builtins) {
  const std::lock_guard lock(table().mutex);
  for (HostBuiltin& builtin : builtins) {
    std::string name = builtin.name;
    table().builtins.try_emplace(std::move(name), std::move(builtin));
  }
}

CuletHostKernel find_host_builtin(std::string_view entry) { return find(entry).kernel; }
CuletHostPack find_host_builtin_pack(std::string_view entry) { return find(entry).pack; }

}  // namespace culet

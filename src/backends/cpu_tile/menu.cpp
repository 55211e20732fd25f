// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// Which precompiled kernels this CPU can run, and as configurations.
#include "backends/cpu_tile/menu.h"

#include <mutex>

#include "backends/cpu_tile/tile_config.h"
#include "device/cpu_info.h"
#include "launch/host_builtin.h"

namespace culet::cpu_tile {

namespace {

/// A problem and a configuration that have the entry as their kernel: one spelling of names.
std::string name_of(const MenuEntry& e) {
  Problem problem;
  problem.a = problem.b = e.bf16 ? DType::bf16 : DType::f32;
  problem.d = e.bf16_out ? DType::bf16 : DType::f32;
  problem.b_order = e.tn ? Order::col_major : Order::row_major;
  TileConfig c;
  c.dot_products = e.dot;
  c.math = static_cast<Math>(e.math);
  c.columns = static_cast<Columnwise>(e.columns);
  c.swap = e.swap;
  c.copy_rows = e.copy;
  c.mr = e.mr;
  const Level level = e.level == std::string_view("v3") ? Level::v3 : Level::v4;
  c.nr = e.dot ? e.nv : e.nv * lanes_of(level);
  return menu_name(problem, c, level);
}

std::vector<HostBuiltin> menu_up_to(Level level) {
  std::vector<HostBuiltin> all;
  [[maybe_unused]] const auto add = [&](Menu menu) {
    for (int i = 0; i < menu.count; ++i) {
      const MenuEntry& e = menu.entries[i];
      all.push_back({name_of(e), e.kernel, e.pack});
    }
  };
#if defined(__x86_64__)
  if (level >= Level::v3) add(menu_v3());
  if (level >= Level::v4) add(menu_v4());
  if (level >= Level::v4_bf16) add(menu_v4bf16());
  if (level >= Level::v4_amx) add(menu_amx());
#endif
  return all;
}

Level level_here() {
  DeviceSpec here;
  here.architecture = cpu_info().level;
  return level_of(here);
}

}  // namespace

void register_menu() {
  static std::once_flag once;
  std::call_once(once, [] { register_host_builtins(menu_up_to(level_here())); });
}

std::vector<std::string> menu_names() {
  std::vector<std::string> names;
  for (const HostBuiltin& builtin : menu_up_to(level_here())) names.push_back(builtin.name);
  return names;
}

/// The shapes of menu_level.h for a problem, fewest rows first.
std::vector<TileConfig> menu_configs(const Problem& problem, Level level) {
  std::vector<TileConfig> out;
  const bool tn = is_tn(problem), bf16 = problem.b == DType::bf16;
  const auto add = [&](Math math, int mr, int nv, Columnwise columns, bool swap, bool dot = false) {
    TileConfig c;
    c.jit = false;
    c.math = math;
    c.mr = mr;
    c.dot_products = dot;
    c.nr = dot ? nv : nv * lanes_of(level);
    c.columns = columns;
    c.swap = swap;
    c.copy_rows = bf16 && math == Math::f32 && !dot;
    if (!dot) c.blocking = kernel::menu_blocking(math, c.mr, c.nr, columns);
    out.push_back(c);
  };
  const auto registers = [&](Math math) {
    const bool wide = lanes_of(level) == 16;
    const int mr = wide ? 6 : 4, nv = wide ? 4 : 2;
    if (tn) {
      add(math, 1, 4, Columnwise::direct, false, true);
      add(math, 4, 4, Columnwise::direct, false, true);
      add(math, mr, nv, Columnwise::pack, false);
      add(math, mr, nv, Columnwise::pack, true);
    } else {
      add(math, 1, wide ? 16 : 8, Columnwise::direct, false);
      add(math, mr, nv, Columnwise::direct, false);
      add(math, mr, nv, Columnwise::through, false);
    }
    if (problem.pack_b) add(math, mr, nv, Columnwise::prepack, false);
  };
  if (bf16 && level >= Level::v4_amx) {
    add(Math::amx, 32, 2, Columnwise::pack, false);
    if (tn) add(Math::amx, 32, 2, Columnwise::pack, true);
    if (tn) add(Math::amx, 64, 1, Columnwise::pack, true);
    if (!tn) add(Math::amx, 16, 4, Columnwise::pack, false);
    for (const int mr : {16, 32})
      if (problem.pack_b) add(Math::amx, mr, 64 / mr, Columnwise::prepack, false);
  }
  registers(bf16 && level >= Level::v4_bf16 ? Math::dot : Math::f32);
  return out;
}

}  // namespace culet::cpu_tile

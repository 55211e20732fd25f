// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// One point of the cpu_tile space as a typed value: what a Config says, and everything that follows
// from it for a problem (scratch, split, packed size, the name of a precompiled kernel).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "culet/backend.h"
#include "culet/candidate.h"
#include "culet/device.h"
#include "culet/problem.h"
#include "kernels/cpu/blocking.h"

namespace culet::cpu_tile {

namespace kernel = culet_cpu::CULET_CPU_LEVEL;
using kernel::Blocking;
using kernel::Columnwise;
using kernel::Math;

/// Instruction-set levels, each including those before it.
enum class Level : std::uint8_t { none, v3, v4, v4_bf16, v4_amx };
Level level_of(const DeviceSpec& device);

struct TileConfig {
  bool jit = true;  ///< compiled for the problem, or taken from the menu
  bool dot_products =
      false;  ///< the kernel vectorised over k (dot.h), or the register tile (tile.h)
  Math math = Math::f32;
  int mr = 1;   ///< rows of R (dot products: rows of A)
  int nr = 16;  ///< columns of Q, in elements (dot products: columns of B)
  Columnwise columns = Columnwise::direct;
  bool swap = false;
  bool copy_rows = false;
  Blocking blocking;
  int unroll = 4;
  int prefetch = 0;
  int threads = 1;
  HostLaunch::Split split = HostLaunch::Split::none;

  Config config() const;
  static Result<TileConfig> parse(const Config& config, const DeviceSpec& device);
};

/// Vector lanes of 32 bits at the level a config's code is compiled for.
int lanes_of(Level level);
/// The level of the menu that has a config's kernel: the lowest with the instructions it needs.
Level menu_level(const TileConfig& config, Level device);

/// Why a configuration cannot run the problem on the device, whether its space has it or not; empty
/// if it can.
std::string config_error(const TileConfig& config, const Problem& problem,
                         const DeviceSpec& device);

/// The problem as R and Q see it, at the largest m it must serve.
kernel::Extent extent_of(const Problem& problem, const TileConfig& config);
kernel::ScratchRules scratch_rules(const Problem& problem, const TileConfig& config);
/// Of a configuration without a config_error().
LaunchSpec launch_of(const Problem& problem, const TileConfig& config);

/// "v4/bf16/f32/tn/dot/6x64/pack/swap": names a precompiled kernel.
std::string menu_name(const Problem& problem, const TileConfig& config, Level device);

/// Rows of B of the problem are contiguous in k.
inline bool is_tn(const Problem& problem) { return problem.b_order == Order::col_major; }

std::vector<TileConfig> all_configs(const Problem& problem, const DeviceSpec& device, bool jit);
Features features_of(const Problem& problem, const TileConfig& config, const DeviceSpec& device);
/// Source of the kernel for the problem; the entries are kEntry and kPackEntry.
Result<Source> source_of(const Problem& problem, const TileConfig& config);
inline constexpr const char* kEntry = "culet_cpu_tile";
inline constexpr const char* kPackEntry = "culet_cpu_tile_pack";

/// Registers the precompiled kernels that this CPU can run; the first call does it.
void register_menu();
std::vector<std::string> menu_names();
/// The precompiled kernels for a problem, one thread, as configurations.
std::vector<TileConfig> menu_configs(const Problem& problem, Level level);

}  // namespace culet::cpu_tile

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// Loading and asking NVML.
#include "device/nvml.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <fstream>
#include <memory>
#include <vector>

#include "device/cuda.h"
#include "device/library.h"

namespace culet {

namespace {

using Device = struct NvmlDevice*;
constexpr int kSmClock = 1, kMemoryClock = 2, kGpuTemperature = 0;

struct Nvml {
  int (*init)() = nullptr;
  int (*driver_version)(char*, unsigned) = nullptr;
  int (*by_pci)(const char*, Device*) = nullptr;
  int (*clock)(Device, int, unsigned*) = nullptr;
  int (*max_clock)(Device, int, unsigned*) = nullptr;
  int (*temperature)(Device, int, unsigned*) = nullptr;
  int (*power)(Device, unsigned*) = nullptr;
  int (*power_limit)(Device, unsigned*) = nullptr;
  int (*throttle)(Device, unsigned long long*) = nullptr;
};

Result<std::unique_ptr<Nvml>> load() {
  auto library = Library::open(
      "NVML", {"libnvidia-ml.so.1"},
      {"/usr/lib/wsl/lib", "/usr/local/nvidia/lib64", "/usr/lib/x86_64-linux-gnu", "/usr/lib64"});
  if (!library) return tl::unexpected<Error>(library.error());
  auto nvml = std::make_unique<Nvml>();
  const Library& l = *library;
  if (!l.bind(nvml->init, "nvmlInit_v2") ||
      !l.bind(nvml->by_pci, "nvmlDeviceGetHandleByPciBusId_v2")) {
    return fail(ErrorCode::device, fmt::format("{} is not a usable NVML", l.path()));
  }
  l.bind(nvml->driver_version, "nvmlSystemGetDriverVersion");
  l.bind(nvml->clock, "nvmlDeviceGetClockInfo");
  l.bind(nvml->max_clock, "nvmlDeviceGetMaxClockInfo");
  l.bind(nvml->temperature, "nvmlDeviceGetTemperature");
  l.bind(nvml->power, "nvmlDeviceGetPowerUsage");
  l.bind(nvml->power_limit, "nvmlDeviceGetEnforcedPowerLimit");
  if (!l.bind(nvml->throttle, "nvmlDeviceGetCurrentClocksEventReasons")) {
    l.bind(nvml->throttle, "nvmlDeviceGetCurrentClocksThrottleReasons");  // its name until 12.2
  }
  if (const int code = nvml->init(); code != 0) {
    return fail(ErrorCode::device, fmt::format("NVML present, but nvmlInit says {}", code));
  }
  return nvml;
}

Result<const Nvml*> loaded_nvml() {
  static const Result<std::unique_ptr<Nvml>> loaded = load();
  if (!loaded) return tl::unexpected<Error>(loaded.error());
  return loaded->get();
}

Result<Device> find(const Nvml& nvml, int ordinal) {
  auto driver = cuda_driver();
  if (!driver) return tl::unexpected<Error>(driver.error());
  int domain = 0, bus = 0, device = 0;
  const auto ask = [&](int* value, int attribute) {
    return (*driver)->device_get_attribute(value, attribute, ordinal) == cuda::kSuccess;
  };
  if (!ask(&domain, cuda::DeviceAttribute::kPciDomain) ||
      !ask(&bus, cuda::DeviceAttribute::kPciBus) ||
      !ask(&device, cuda::DeviceAttribute::kPciDevice)) {
    return fail(ErrorCode::device, fmt::format("CUDA device {} tells no PCI address", ordinal));
  }
  const std::string address = fmt::format("{:08x}:{:02x}:{:02x}.0", domain, bus, device);
  Device found = nullptr;
  if (const int code = nvml.by_pci(address.c_str(), &found); code != 0) {
    return fail(ErrorCode::device, fmt::format("NVML does not know {} (error {})", address, code));
  }
  return found;
}

}  // namespace

std::string GpuState::throttling() const {
  // Bits 0 (idle), 1 (a clock the user set) and 8 (display) do not mean that work is held back.
  struct Bit {
    std::uint64_t mask;
    const char* text;
  };
  constexpr Bit kBits[] = {{0x04, "power cap"},          {0x08, "hardware slowdown"},
                           {0x10, "sync boost"},         {0x20, "thermal (software)"},
                           {0x40, "thermal (hardware)"}, {0x80, "power brake"}};
  std::vector<std::string> reasons;
  for (const Bit& bit : kBits) {
    if ((throttle_reasons & bit.mask) != 0) reasons.emplace_back(bit.text);
  }
  return fmt::format("{}", fmt::join(reasons, ", "));
}

std::string GpuState::text() const {
  std::vector<std::string> parts;
  if (sm_clock_mhz >= 0) parts.push_back(fmt::format("{} MHz", sm_clock_mhz));
  if (temperature_c >= 0) parts.push_back(fmt::format("{} C", temperature_c));
  if (power_watts >= 0 && power_limit_watts > 0) {
    parts.push_back(fmt::format("{:.0f} W of {:.0f} W", power_watts, power_limit_watts));
  }
  if (const std::string slow = throttling(); !slow.empty()) {
    parts.push_back(fmt::format("throttled: {}", slow));
  }
  return fmt::format("{}", fmt::join(parts, ", "));
}

Result<GpuState> gpu_state(int ordinal) {
  auto nvml = loaded_nvml();
  if (!nvml) return tl::unexpected<Error>(nvml.error());
  const Nvml& n = **nvml;
  auto device = find(n, ordinal);
  if (!device) return tl::unexpected<Error>(device.error());
  GpuState state;
  unsigned value = 0;
  const auto read = [&](auto* function, auto... which) {
    return function != nullptr && function(*device, which..., &value) == 0;
  };
  if (read(n.clock, kSmClock)) state.sm_clock_mhz = static_cast<int>(value);
  if (read(n.max_clock, kSmClock)) state.max_sm_clock_mhz = static_cast<int>(value);
  if (read(n.clock, kMemoryClock)) state.memory_clock_mhz = static_cast<int>(value);
  if (read(n.temperature, kGpuTemperature)) state.temperature_c = static_cast<int>(value);
  if (read(n.power)) state.power_watts = value * 1e-3;
  if (read(n.power_limit)) state.power_limit_watts = value * 1e-3;
  unsigned long long reasons = 0;
  if (n.throttle != nullptr && n.throttle(*device, &reasons) == 0) {
    state.throttle_reasons = reasons;
  }
  return state;
}

Result<std::string> gpu_driver_version(const std::string& file) {
  std::string line;
  std::getline(std::ifstream(file), line);
  if (!line.empty() && line.find_first_not_of("0123456789.") == std::string::npos) return line;
  auto nvml = loaded_nvml();
  if (!nvml) return tl::unexpected<Error>(nvml.error());
  char text[96] = {};
  if ((*nvml)->driver_version == nullptr || (*nvml)->driver_version(text, sizeof text - 1) != 0) {
    return fail(ErrorCode::device, "NVML tells no driver version");
  }
  return std::string(text);
}

}  // namespace culet

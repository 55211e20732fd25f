// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// Probing a CUDA device. What the driver tells is taken from it; what it does not (rates of the
// tensor cores, achievable bandwidths) comes from a table by compute capability, and, for the parts
// that have a preset, from that preset's measured values.
#include "device/probe_cuda.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "device/cuda.h"
#include "device/nvml.h"

namespace culet {

namespace {

/// Operations (2 per multiply-add) a clock and multiprocessor, dense. From the vendor's published
/// peak rates divided by multiprocessors and boost clock; tensor-core rates with 32-bit
/// accumulation.
struct RatesPerClock {
  int major, minor;
  double f16, tf32, f8, s8, f64_tensor;  // tensor cores; 0: none
  double f32, f16_vector, f64;           // ordinary pipes
};

constexpr RatesPerClock kRates[] = {
    {7, 0, 1024, 0, 0, 0, 0, 128, 256, 64},              // V100: f16 only
    {7, 5, 1024, 0, 0, 2048, 0, 128, 256, 4},            // Turing
    {8, 0, 2048, 1024, 0, 4096, 128, 128, 512, 64},      // A100
    {8, 6, 512, 256, 0, 2048, 0, 256, 256, 4},           // GA10x: half rate with f32 accumulation
    {8, 9, 512, 256, 1024, 2048, 0, 256, 256, 4},        // AD10x consumer rates
    {9, 0, 4096, 2048, 8192, 8192, 256, 256, 512, 128},  // H100, H200
    {10, 0, 8192, 4096, 16384, 16384, 128, 256, 512, 128},  // B200
    {12, 0, 512, 256, 1024, 2048, 0, 256, 256, 4},          // consumer Blackwell
};

const RatesPerClock& rates_for(int major, int minor) {
  const RatesPerClock* best = &kRates[0];
  for (const RatesPerClock& entry : kRates) {
    if (std::pair(entry.major, entry.minor) <= std::pair(major, minor)) best = &entry;
  }
  return *best;
}

/// The preset measured on this very part, by the name its driver tells.
const char* preset_for(const std::string& name) {
  if (name.find("H200") != std::string::npos) return "h200";
  if (name.find("H100") != std::string::npos && name.find("PCIe") == std::string::npos) {
    return "h100";
  }
  if (name.find("A100-SXM4-80GB") != std::string::npos) return "a100";
  return nullptr;
}

/// Attributes of one device; remembers the first failure.
class Attributes {
 public:
  Attributes(const CudaDriver& driver, cuda::CUdevice device) : driver_(driver), device_(device) {}
  int operator()(int attribute) {
    int value = 0;
    const int code = driver_.device_get_attribute(&value, attribute, device_);
    if (code != cuda::kSuccess && failure_ == cuda::kSuccess) failure_ = code;
    return value;
  }
  cuda::CUresult failure() const { return failure_; }

 private:
  const CudaDriver& driver_;
  cuda::CUdevice device_;
  cuda::CUresult failure_ = cuda::kSuccess;
};

void fill_from_driver(Attributes& get, DeviceSpec* spec) {
  using A = cuda::DeviceAttribute;
  spec->architecture = cuda_architecture(get(A::kMajor), get(A::kMinor));
  spec->units = get(A::kUnits);
  spec->l2_bytes = get(A::kL2Bytes);
  spec->shared_per_block = get(A::kSharedPerBlockOptin);
  spec->shared_per_unit = get(A::kSharedPerUnit);
  spec->registers_per_unit = get(A::kRegistersPerUnit);
  spec->max_threads_per_unit = get(A::kMaxThreadsPerUnit);
  // Under sustained matrix work a part runs below its highest clock (power): 80 % of it is what
  // large GEMMs ran at on an H200 (1.6 of 1.98 GHz).
  spec->clock_ghz = std::max(0.1, get(A::kClockKhz) * 1e-6 * 0.8);
  // Double data rate; 90 % of the pins' rate is what plain reads reach.
  const double pins = 2.0 * get(A::kMemoryClockKhz) * 1e3 * get(A::kMemoryBusBits) / 8;
  spec->dram_bytes_per_s = std::max(1e10, 0.9 * pins);
}

/// Values that only a measurement on the part gives.
void take_measured(const DeviceSpec& from, DeviceSpec* spec) {
  // Part of a device (a MIG slice, a part with fewer units) has its share of the rates.
  const double share = static_cast<double>(spec->units) / from.units;
  spec->clock_ghz = from.clock_ghz;
  spec->dram_bytes_per_s = share < 0.9 ? from.dram_bytes_per_s * share : from.dram_bytes_per_s;
  spec->l2_bytes_per_s = from.l2_bytes_per_s * share;
  spec->launch_seconds = from.launch_seconds;
  spec->latency_seconds = from.latency_seconds;
}

}  // namespace

std::string cuda_architecture(int major, int minor) {
  return fmt::format("sm_{}{}{}", major, minor, major >= 9 ? "a" : "");
}

void fill_cuda_rates(int major, int minor, DeviceSpec* spec) {
  const RatesPerClock& rates = rates_for(major, minor);
  const double clocks = spec->units * spec->clock_ghz * 1e9;  // all units together, a second
  spec->tensor_ops.clear();
  const auto tensor = [&](double per_clock, std::initializer_list<DType> dtypes) {
    if (per_clock == 0) return;
    for (const DType dtype : dtypes) spec->tensor_ops[dtype] = per_clock * clocks;
  };
  tensor(rates.f16, {DType::f16});
  if (major >= 8) tensor(rates.f16, {DType::bf16});
  tensor(rates.tf32, {DType::tf32});
  tensor(rates.f8, {DType::e4m3, DType::e5m2});
  tensor(rates.s8, {DType::s8, DType::u8});
  tensor(rates.f64_tensor, {DType::f64});
  spec->vector_ops = {
      {DType::f32, rates.f32 * clocks},
      {DType::tf32, rates.f32 * clocks},
      {DType::f16, rates.f16_vector * clocks},
      {DType::bf16, rates.f16_vector * clocks},
      {DType::f64, rates.f64 * clocks},
      {DType::s32, 128 * clocks},  // 64 integer multiply-adds a clock
      {DType::s8, 512 * clocks},   // four products in each of them (dp4a)
  };
  // A multiprocessor reads 128 bytes a clock from its shared memory.
  spec->shared_bytes_per_s = 128 * clocks;
}

/// As nvidia-smi writes it; empty where the driver does not tell.
std::string uuid_of(const CudaDriver& driver, cuda::CUdevice device) {
  unsigned char bytes[16] = {};
  if (driver.device_get_uuid == nullptr || driver.device_get_uuid(&bytes, device) != 0) return {};
  std::string text = "GPU";
  for (int i = 0; i < 16; ++i) {
    if (i == 0 || (i >= 4 && i <= 10 && i % 2 == 0)) text += '-';
    text += fmt::format("{:02x}", bytes[i]);
  }
  return text;
}

Result<DeviceSpec> probe_cuda(int ordinal) {
  auto driver = cuda_driver();
  if (!driver) return tl::unexpected<Error>(driver.error());
  const int count = cuda::device_count();
  if (ordinal < 0 || ordinal >= count) {
    return fail(ErrorCode::device, fmt::format("no CUDA device {}: there {} {}", ordinal,
                                               count == 1 ? "is" : "are", count));
  }
  const CudaDriver& d = **driver;
  cuda::CUdevice device = 0;
  char name[256] = {};
  std::size_t memory = 0;
  if (auto ok = cuda::check(d.device_get(&device, ordinal), "cuDeviceGet"); !ok) {
    return tl::unexpected<Error>(ok.error());
  }
  d.device_get_name(name, sizeof name - 1, device);
  d.device_total_mem(&memory, device);

  DeviceSpec spec;
  spec.kind = DeviceKind::cuda;
  spec.ordinal = ordinal;
  spec.present = true;
  spec.name = name;
  spec.uuid = uuid_of(d, device);
  spec.memory_bytes = static_cast<std::int64_t>(memory);
  Attributes get(d, device);
  fill_from_driver(get, &spec);
  const int major = get(cuda::DeviceAttribute::kMajor);
  const int minor = get(cuda::DeviceAttribute::kMinor);
  if (auto ok = cuda::check(get.failure(), "cuDeviceGetAttribute"); !ok) {
    return tl::unexpected<Error>(ok.error());
  }
  // An L2 delivers about 32 bytes a clock and multiprocessor; a launch and a kernel's fill and
  // drain take about what they do on an H200.
  spec.l2_bytes_per_s = 32.0 * spec.units * spec.clock_ghz * 1e9;
  spec.launch_seconds = 1.2e-6;
  spec.latency_seconds = 1.0e-6;
  if (const char* preset = preset_for(spec.name)) {
    if (const auto measured = DeviceSpec::preset(preset)) take_measured(*measured, &spec);
  }
  fill_cuda_rates(major, minor, &spec);
  const auto version = gpu_driver_version();
  spec.driver = fmt::format("CUDA {}.{}{}", d.version / 1000, d.version / 10 % 100,
                            version ? " driver " + *version : std::string());
  return spec;
}

}  // namespace culet

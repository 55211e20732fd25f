// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// A CUDA kernel, loaded into a context and started from its LaunchSpec. Everything that does not
// depend on pointers or m is worked out while loading; a run fills arguments on the stack and makes
// one driver call.
#include <fmt/format.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <utility>

#include "device/cuda.h"
#include "launch/loaded_step.h"

namespace culet {

namespace {

constexpr int kMaxArguments = 64;
constexpr int kMaxMaps = 8;

/// CUtensorMapDataType; 8-bit floats travel as bytes, and tf32 as the f32 it is stored as (the
/// tensor cores ignore the low bits).
int map_data_type(DType dtype) {
  switch (dtype) {
    case DType::s8:
    case DType::u8:
    case DType::e4m3:
    case DType::e5m2:
    case DType::e8m0:
      return 0;
    case DType::s32:
      return 3;
    case DType::f16:
      return 6;
    case DType::f32:
    case DType::tf32:
      return 7;
    case DType::f64:
      return 8;
    case DType::bf16:
      return 9;
    case DType::e2m1:
      return 13;
  }
  return 0;
}

int swizzle_code(int bytes) { return bytes == 128 ? 3 : bytes == 64 ? 2 : bytes == 32 ? 1 : 0; }
int promotion_code(int bytes) { return bytes == 256 ? 3 : bytes == 128 ? 2 : bytes == 64 ? 1 : 0; }

const char* operand_name(Operand operand) {
  switch (operand) {
    case Operand::a:
      return "A";
    case Operand::b:
      return "B";
    case Operand::d:
      return "D";
    case Operand::extra:
      return "an epilogue operand";
    case Operand::temporary:
      return "the temporary";
    case Operand::scratch:
      return "the workspace";
    case Operand::packed_b:
      return "the packed B";
  }
  return "?";
}

/// The address an argument stands for; null where the caller gave none.
const void* address_of(Operand operand, int extra, const StepPointers& p) {
  switch (operand) {
    case Operand::a:
      return p.a;
    case Operand::b:
      return p.b;
    case Operand::d:
      return p.d;
    case Operand::extra:
      return p.extra == nullptr ? nullptr : p.extra[extra];
    case Operand::temporary:
      return p.temporary;
    case Operand::scratch:
      return p.scratch;
    case Operand::packed_b:
      return p.packed_b;
  }
  return nullptr;
}

/// Encodes one map; the error says which rule of the hardware's it most likely breaks.
Result<void> encode(const CudaDriver& driver, const TensorMapSpec& spec, const void* address,
                    std::int64_t m, cuda::TensorMap* out) {
  std::uint64_t dims[5], strides[5];
  std::uint32_t box[5];
  constexpr std::uint32_t kUnitSteps[5] = {1, 1, 1, 1, 1};
  for (int i = 0; i < spec.rank; ++i) {
    dims[i] = static_cast<std::uint64_t>(spec.dims[i].at(m));
    const std::int64_t wide = spec.box[i].at(m);
    if (wide < 1 || wide > 256) {
      return fail(ErrorCode::unsupported,
                  fmt::format("tensor map of {}: a box of {} in dimension {}, 1..256 can be",
                              operand_name(spec.operand), wide, i));
    }
    box[i] = static_cast<std::uint32_t>(wide);
    if (i > 0) strides[i - 1] = static_cast<std::uint64_t>(spec.strides_bytes[i].at(m));
  }
  const int code = driver.tensor_map_encode_tiled(
      out, map_data_type(spec.dtype), static_cast<std::uint32_t>(spec.rank),
      const_cast<void*>(address), dims, strides, box, kUnitSteps, /*interleave=*/0,
      swizzle_code(spec.swizzle_bytes), promotion_code(spec.l2_promotion_bytes), /*oob_fill=*/0);
  if (code == cuda::kSuccess) return {};
  if (reinterpret_cast<std::uintptr_t>(address) % 16 != 0) {
    return fail(ErrorCode::device, fmt::format("{} at {}: a tensor map needs 16-byte alignment",
                                               operand_name(spec.operand), fmt::ptr(address)));
  }
  return fail(ErrorCode::device,
              cuda::describe(code, fmt::format("tensor map of {}", operand_name(spec.operand))));
}

/// The maps of the last run, kept because weights and activations often stay where they are. A
/// thread that finds it in use encodes its own instead of waiting.
struct MapCache {
  std::atomic_flag busy = ATOMIC_FLAG_INIT;
  bool filled = false;
  std::int64_t m = -1;
  const void* addresses[kMaxMaps] = {};
  cuda::TensorMap maps[kMaxMaps];
};

class CudaStep final : public LoadedStep {
 public:
  static Result<std::unique_ptr<LoadedStep>> load(const BuiltStep& step, const DeviceSpec& device);
  ~CudaStep() override;
  Result<void> run(const StepPointers& pointers) const override;

 private:
  /// One 8-byte slot a scalar or pointer argument.
  union Slot {
    const void* address;
    std::int64_t i64;
    std::int32_t i32;
    float f32;
  };

  CudaStep(const CudaDriver& driver, cuda::CUcontext context, const BuiltStep& step)
      : driver_(driver), context_(context), spec_(step.launch), entry_(step.artifact.entry) {}

  Result<void> check_spec();
  Result<void> load_code(const std::string& cubin, const std::string& toolchain);
  Result<void> set_attributes();
  Result<void> fill_config(const StepPointers& pointers, cuda::LaunchConfig* config) const;
  Result<void> fill_maps(const StepPointers& pointers, cuda::TensorMap* maps) const;
  void fill_slots(const StepPointers& pointers, Slot* slots) const;

  const CudaDriver& driver_;
  cuda::CUcontext context_;
  LaunchSpec spec_;
  std::string entry_;
  int map_count_ = 0;
  cuda::CUmodule module_ = nullptr;
  cuda::CUfunction function_ = nullptr;
  mutable MapCache cache_;
};

CudaStep::~CudaStep() {
  // In a child process forked from the one that loaded it the module is not ours to unload.
  if (module_ == nullptr || !cuda_driver()) return;
  const cuda::Scope scope(driver_, context_);
  driver_.module_unload(module_);
}

Result<void> CudaStep::check_spec() {
  if (spec_.args.size() > kMaxArguments) {
    return fail(ErrorCode::build_failed, fmt::format("{}: {} arguments, at most {} are supported",
                                                     entry_, spec_.args.size(), kMaxArguments));
  }
  for (const LaunchArg& arg : spec_.args) {
    if (arg.kind != LaunchArg::Kind::tensor_map) continue;
    ++map_count_;
    if (arg.map.rank < 1 || arg.map.rank > 5) {
      return fail(ErrorCode::build_failed,
                  fmt::format("{}: a tensor map of rank {}", entry_, arg.map.rank));
    }
  }
  if (map_count_ > kMaxMaps) {
    return fail(ErrorCode::build_failed, fmt::format("{}: {} tensor maps, at most {} are supported",
                                                     entry_, map_count_, kMaxMaps));
  }
  if (map_count_ > 0 && driver_.tensor_map_encode_tiled == nullptr) {
    return fail(ErrorCode::device, "the CUDA driver has no tensor maps: CUDA 12.0 is needed");
  }
  return {};
}

Result<void> CudaStep::load_code(const std::string& cubin, const std::string& toolchain) {
  if (auto ok = cuda::check(driver_.module_load_data(&module_, cubin.data()),
                            fmt::format("loading {}", entry_));
      !ok) {
    module_ = nullptr;
    // The usual cause, and one the user can do something about.
    const std::string_view compiler = "nvrtc ";
    const std::size_t at = toolchain.find(compiler);
    const int major = at == std::string::npos ? 0 : std::atoi(&toolchain[at + compiler.size()]);
    if (major > driver_.version / 1000) {
      ok.error().message +=
          fmt::format("; {} is newer than the driver's CUDA {}.{} (see CULET_CUDA_PATH)", toolchain,
                      driver_.version / 1000, driver_.version / 10 % 100);
    }
    return ok;
  }
  return cuda::check(driver_.module_get_function(&function_, module_, entry_.c_str()),
                     fmt::format("finding kernel {}", entry_));
}

Result<void> CudaStep::set_attributes() {
  using F = cuda::FunctionAttribute;
  if (spec_.shared_bytes > 0) {
    if (auto ok =
            cuda::check(driver_.func_set_attribute(function_, F::kMaxDynamicShared,
                                                   static_cast<int>(spec_.shared_bytes)),
                        fmt::format("{}: {} bytes of shared memory", entry_, spec_.shared_bytes));
        !ok) {
      return ok;
    }
  }
  const std::uint32_t cluster = spec_.cluster[0] * spec_.cluster[1] * spec_.cluster[2];
  if (cluster > 8) {  // more blocks than every part with clusters is bound to have
    return cuda::check(driver_.func_set_attribute(function_, F::kNonPortableCluster, 1),
                       fmt::format("{}: a cluster of {}", entry_, cluster));
  }
  return {};
}

/// The architecture an artifact was compiled for, if its toolchain names one.
std::string_view artifact_architecture(const Artifact& artifact) {
  const std::string_view text = artifact.toolchain;
  const std::size_t at = text.rfind("sm_");
  if (at == std::string_view::npos) return {};
  return text.substr(at, text.find(' ', at) - at);
}

Result<std::unique_ptr<LoadedStep>> CudaStep::load(const BuiltStep& step,
                                                   const DeviceSpec& device) {
  const std::string_view made_for = artifact_architecture(step.artifact);
  if (!made_for.empty() && made_for != device.architecture) {
    return fail(ErrorCode::device,
                fmt::format("{} was compiled for {}, the device {} is {}", step.artifact.entry,
                            made_for, device.name, device.architecture));
  }
  auto driver = cuda_driver();
  if (!driver) return tl::unexpected<Error>(driver.error());
  auto context = cuda::Context::enter(device.ordinal);
  if (!context) return tl::unexpected<Error>(context.error());
  std::unique_ptr<CudaStep> loaded(new CudaStep(**driver, context->get(), step));
  if (auto ok = loaded->check_spec(); !ok) return tl::unexpected<Error>(ok.error());
  if (auto ok = loaded->load_code(step.artifact.bytes, step.artifact.toolchain); !ok) {
    return tl::unexpected<Error>(ok.error());
  }
  if (auto ok = loaded->set_attributes(); !ok) return tl::unexpected<Error>(ok.error());
  return loaded;
}

Result<void> CudaStep::fill_maps(const StepPointers& pointers, cuda::TensorMap* maps) const {
  const void* addresses[kMaxMaps];
  int count = 0;
  for (const LaunchArg& arg : spec_.args) {
    if (arg.kind != LaunchArg::Kind::tensor_map) continue;
    addresses[count++] = address_of(arg.map.operand, arg.extra, pointers);
  }
  const auto map_bytes = static_cast<std::size_t>(count) * sizeof(cuda::TensorMap);
  const auto address_bytes = static_cast<std::size_t>(count) * sizeof(void*);
  const bool mine = !cache_.busy.test_and_set(std::memory_order_acquire);
  if (mine && cache_.filled && cache_.m == pointers.m &&
      std::memcmp(cache_.addresses, addresses, address_bytes) == 0) {
    std::memcpy(maps, cache_.maps, map_bytes);
    cache_.busy.clear(std::memory_order_release);
    return {};
  }
  Result<void> status;
  int index = 0;
  for (const LaunchArg& arg : spec_.args) {
    if (arg.kind != LaunchArg::Kind::tensor_map || !status) continue;
    status = encode(driver_, arg.map, addresses[index], pointers.m, &maps[index]);
    ++index;
  }
  if (mine) {
    cache_.filled = status.has_value();
    if (status) {
      cache_.m = pointers.m;
      std::memcpy(cache_.addresses, addresses, address_bytes);
      std::memcpy(cache_.maps, maps, map_bytes);
    }
    cache_.busy.clear(std::memory_order_release);
  }
  return status;
}

Result<void> CudaStep::fill_config(const StepPointers& pointers, cuda::LaunchConfig* config) const {
  for (int i = 0; i < 3; ++i) {
    const std::int64_t blocks = spec_.grid[i].at(pointers.m);
    if (blocks < 0 || blocks > (i == 0 ? 0x7fffffff : 65535)) {
      return fail(ErrorCode::unsupported,
                  fmt::format("{}: a grid of {} blocks in dimension {}", entry_, blocks, i));
    }
    config->grid[i] = static_cast<unsigned>(blocks);
    config->block[i] = spec_.block[i];
  }
  config->shared_bytes = spec_.shared_bytes;
  config->stream = static_cast<cuda::CUstream>(pointers.stream);
  const std::uint32_t* cluster = spec_.cluster;
  if (cluster[0] * cluster[1] * cluster[2] > 1) {
    cuda::LaunchAttribute& attribute = config->attributes[config->attribute_count++];
    attribute.id = cuda::LaunchAttribute::kClusterDimension;
    attribute.value.cluster = {cluster[0], cluster[1], cluster[2]};
  }
  if (spec_.pdl && pointers.pdl) {
    cuda::LaunchAttribute& attribute = config->attributes[config->attribute_count++];
    attribute.id = cuda::LaunchAttribute::kProgrammaticStream;
    attribute.value.flag = 1;
  }
  return {};
}

void CudaStep::fill_slots(const StepPointers& pointers, Slot* slots) const {
  for (std::size_t i = 0; i < spec_.args.size(); ++i) {
    const LaunchArg& arg = spec_.args[i];
    switch (arg.kind) {
      case LaunchArg::Kind::pointer: {
        const void* base = address_of(arg.operand, arg.extra, pointers);
        slots[i].address =
            base == nullptr ? nullptr : static_cast<const char*>(base) + arg.offset_bytes;
        break;
      }
      case LaunchArg::Kind::i32:
        slots[i].i32 = static_cast<std::int32_t>(arg.value.at(pointers.m));
        break;
      case LaunchArg::Kind::i64:
        slots[i].i64 = arg.value.at(pointers.m);
        break;
      case LaunchArg::Kind::f32:
        slots[i].f32 = arg.f32;
        break;
      case LaunchArg::Kind::tensor_map:
        break;
    }
  }
}

Result<void> CudaStep::run(const StepPointers& pointers) const {
  cuda::LaunchAttribute attributes[2];
  cuda::LaunchConfig config;
  config.attributes = attributes;
  if (auto ok = fill_config(pointers, &config); !ok) return ok;
  if (config.grid[0] == 0 || config.grid[1] == 0 || config.grid[2] == 0) return {};  // no work

  cuda::TensorMap maps[kMaxMaps];
  if (map_count_ > 0) {
    if (auto ok = fill_maps(pointers, maps); !ok) return ok;
  }
  Slot slots[kMaxArguments];
  void* parameters[kMaxArguments];
  fill_slots(pointers, slots);
  int next_map = 0;
  for (std::size_t i = 0; i < spec_.args.size(); ++i) {
    const bool is_map = spec_.args[i].kind == LaunchArg::Kind::tensor_map;
    parameters[i] = is_map ? static_cast<void*>(&maps[next_map++]) : &slots[i];
  }
  const cuda::Scope scope(driver_, context_);
  const int code = driver_.launch_kernel_ex(&config, function_, parameters, nullptr);
  if (code == cuda::kSuccess) return {};
  return fail(ErrorCode::device, cuda::describe(code, fmt::format("launching {}", entry_)));
}

}  // namespace

Result<std::unique_ptr<LoadedStep>> load_cuda_step(const Problem&, const BuiltStep& step,
                                                   const DeviceSpec& device) {
  if (step.artifact.kind != ArtifactKind::cubin) {
    return fail(ErrorCode::invalid_argument,
                fmt::format("a {} is not a CUDA kernel", to_string(step.artifact.kind)));
  }
  return CudaStep::load(step, device);
}

}  // namespace culet

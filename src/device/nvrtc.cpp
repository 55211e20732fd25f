// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// Loading and calling NVRTC; its few entry points are declared here.
#include "device/nvrtc.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "device/library.h"

namespace culet {

namespace {

using Program = struct NvrtcProgram*;
constexpr int kSuccess = 0;
constexpr int kCompilationFailed = 6;

class LoadedNvrtc final : public Nvrtc {
 public:
  static Result<std::unique_ptr<LoadedNvrtc>> load();

  int major() const override { return major_; }
  int minor() const override { return minor_; }
  std::string version() const override { return fmt::format("nvrtc {}.{}", major_, minor_); }
  const std::string& path() const override { return library_.path(); }
  Result<void> knows(std::string_view architecture) const override;
  Result<Output> compile(const std::string& source, const std::string& name,
                         std::string_view architecture,
                         const std::vector<std::string>& options) const override;

 private:
  bool bind();
  std::string log_of(Program program) const;
  std::string problem(int code, std::string_view doing) const {
    return fmt::format("{} ({}): {} failed: {}", version(), path(), doing, error_string_(code));
  }

  Library library_;
  int major_ = 0, minor_ = 0;
  std::vector<int> architectures_;  // 90 for sm_90

  int (*version_)(int*, int*) = nullptr;
  const char* (*error_string_)(int) = nullptr;
  int (*count_architectures_)(int*) = nullptr;
  int (*get_architectures_)(int*) = nullptr;
  int (*create_)(Program*, const char*, const char*, int, const char* const*,
                 const char* const*) = nullptr;
  int (*destroy_)(Program*) = nullptr;
  int (*compile_)(Program, int, const char* const*) = nullptr;
  int (*log_size_)(Program, std::size_t*) = nullptr;
  int (*get_log_)(Program, char*) = nullptr;
  int (*cubin_size_)(Program, std::size_t*) = nullptr;
  int (*get_cubin_)(Program, char*) = nullptr;
};

bool LoadedNvrtc::bind() {
  const Library& l = library_;
  return l.bind(version_, "nvrtcVersion") && l.bind(error_string_, "nvrtcGetErrorString") &&
         l.bind(count_architectures_, "nvrtcGetNumSupportedArchs") &&
         l.bind(get_architectures_, "nvrtcGetSupportedArchs") &&
         l.bind(create_, "nvrtcCreateProgram") && l.bind(destroy_, "nvrtcDestroyProgram") &&
         l.bind(compile_, "nvrtcCompileProgram") && l.bind(log_size_, "nvrtcGetProgramLogSize") &&
         l.bind(get_log_, "nvrtcGetProgramLog") && l.bind(cubin_size_, "nvrtcGetCUBINSize") &&
         l.bind(get_cubin_, "nvrtcGetCUBIN");
}

Result<std::unique_ptr<LoadedNvrtc>> LoadedNvrtc::load() {
  auto library = Library::open("NVRTC", {"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so"},
                               cuda_library_folders());
  if (!library) return tl::unexpected<Error>(library.error());
  auto loaded = std::make_unique<LoadedNvrtc>();
  loaded->library_ = std::move(*library);
  if (!loaded->bind() || loaded->version_(&loaded->major_, &loaded->minor_) != kSuccess) {
    return fail(ErrorCode::device, fmt::format("{} is not a usable NVRTC", loaded->path()));
  }
  if (loaded->major_ < 12) {
    return fail(ErrorCode::device, fmt::format("{} is NVRTC {}.{}: 12.0 or newer is needed",
                                               loaded->path(), loaded->major_, loaded->minor_));
  }
  int count = 0;
  if (loaded->count_architectures_(&count) == kSuccess && count > 0) {
    loaded->architectures_.resize(static_cast<std::size_t>(count));
    loaded->get_architectures_(loaded->architectures_.data());
  }
  return loaded;
}

Result<void> LoadedNvrtc::knows(std::string_view architecture) const {
  int number = 0;
  for (const char c : architecture) {
    if (c >= '0' && c <= '9') number = number * 10 + (c - '0');
  }
  if (std::find(architectures_.begin(), architectures_.end(), number) != architectures_.end()) {
    return {};
  }
  return fail(ErrorCode::device, fmt::format("{} ({}) cannot compile for {}; it knows sm_{} to "
                                             "sm_{}",
                                             version(), path(), architecture,
                                             architectures_.empty() ? 0 : architectures_.front(),
                                             architectures_.empty() ? 0 : architectures_.back()));
}

std::string LoadedNvrtc::log_of(Program program) const {
  std::size_t size = 0;
  if (log_size_(program, &size) != kSuccess || size <= 1) return {};
  std::string log(size, '\0');
  if (get_log_(program, log.data()) != kSuccess) return {};
  log.resize(std::min(log.find('\0'), log.size()));
  return log;
}

Result<Nvrtc::Output> LoadedNvrtc::compile(const std::string& source, const std::string& name,
                                           std::string_view architecture,
                                           const std::vector<std::string>& options) const {
  if (auto known = knows(architecture); !known) return tl::unexpected<Error>(known.error());
  Program raw = nullptr;
  int code = create_(&raw, source.c_str(), name.c_str(), 0, nullptr, nullptr);
  if (code != kSuccess) return fail(ErrorCode::build_failed, problem(code, "nvrtcCreateProgram"));
  const auto destroy = [this](Program program) { destroy_(&program); };
  const std::unique_ptr<NvrtcProgram, decltype(destroy)> program(raw, destroy);

  const std::string architecture_option = fmt::format("--gpu-architecture={}", architecture);
  std::vector<const char*> arguments = {architecture_option.c_str()};
  for (const std::string& option : options) arguments.push_back(option.c_str());
  code = compile_(raw, static_cast<int>(arguments.size()), arguments.data());
  Output output;
  output.log = log_of(raw);
  if (code == kCompilationFailed) {
    return fail(ErrorCode::build_failed,
                fmt::format("{} does not compile with {}", name, version()), output.log);
  }
  if (code != kSuccess) {
    return fail(ErrorCode::build_failed, problem(code, "nvrtcCompileProgram"), output.log);
  }
  std::size_t size = 0;
  code = cubin_size_(raw, &size);
  if (code == kSuccess && size > 0) {
    output.cubin.resize(size);
    code = get_cubin_(raw, output.cubin.data());
  }
  if (code != kSuccess || size == 0) {
    return fail(ErrorCode::build_failed, problem(code, "nvrtcGetCUBIN"), output.log);
  }
  return output;
}

}  // namespace

Result<const Nvrtc*> nvrtc() {
  static const Result<std::unique_ptr<LoadedNvrtc>> loaded = LoadedNvrtc::load();
  if (!loaded) return tl::unexpected<Error>(loaded.error());
  return loaded->get();
}

}  // namespace culet

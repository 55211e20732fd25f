// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// What the examples share and a real program has anyway: ending on an error, memory on either kind
// of device, and operands whose product is known exactly.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "common/cuda_memory.h"
#include "culet/culet.h"

namespace example {

/// Ends the program with the error's line and status; otherwise gives the value.
template <typename T>
T must(culet::Result<T> result) {
  if (!result) {
    std::fprintf(stderr, "%s\n%s", result.error().message.c_str(), result.error().detail.c_str());
    std::exit(culet::exit_status(result.error().code));
  }
  if constexpr (!std::is_void_v<T>) return std::move(*result);
}

/// The device a program was asked for; without it, ends with status 77, which test runners take
/// for "skipped".
inline culet::DeviceSpec device_or_skip(const std::string& name) {
  culet::Result<culet::DeviceSpec> device = culet::find_device(name);
  if (!device || !device->present) {
    std::printf("SKIPPED: %s\n",
                device ? "the device is only described, not here" : device.error().message.c_str());
    std::exit(77);
  }
  if (device->is_cuda()) {
    std::string error = cuda_use(device->ordinal);
    if (!error.empty()) {
      std::printf("SKIPPED: %s\n", error.c_str());
      std::exit(77);
    }
  }
  return *device;
}

/// Bytes on a device, 64-byte aligned, zero at first.
class Buffer {
 public:
  Buffer(const culet::DeviceSpec& device, std::int64_t bytes) : bytes_(bytes > 0 ? bytes : 64) {
    if (device.is_cuda()) {
      data_ = {cuda_allocate(bytes_), cuda_free};
    } else {
      const std::int64_t rounded = (bytes_ + 63) / 64 * 64;
      data_ = {std::aligned_alloc(64, static_cast<std::size_t>(rounded)), std::free};
    }
    if (data_ == nullptr) must<void>(culet::fail(culet::ErrorCode::device, "out of memory"));
    cuda_ = device.is_cuda();
    write(std::vector<char>(static_cast<std::size_t>(bytes_), 0));
  }
  void* data() const { return data_.get(); }

  template <typename T>
  void write(const std::vector<T>& values) {
    const std::size_t size = values.size() * sizeof(T);
    cuda_ ? cuda_upload(data_.get(), values.data(), size)
          : static_cast<void>(std::memcpy(data_.get(), values.data(), size));
  }
  template <typename T>
  std::vector<T> read() const {
    std::vector<T> values(static_cast<std::size_t>(bytes_) / sizeof(T));
    const std::size_t size = values.size() * sizeof(T);
    cuda_ ? cuda_download(values.data(), data_.get(), size)
          : static_cast<void>(std::memcpy(values.data(), data_.get(), size));
    return values;
  }

 private:
  std::int64_t bytes_ = 0;
  std::unique_ptr<void, void (*)(void*)> data_{nullptr, std::free};
  bool cuda_ = false;
};

/// Small integers: every product and sum of them below is exact in f32, whatever the order.
inline std::vector<float> small_integers(std::int64_t count, unsigned seed) {
  std::mt19937 generator(seed);
  std::uniform_int_distribution<int> pick(-3, 3);
  std::vector<float> values(static_cast<std::size_t>(count));
  for (float& value : values) value = static_cast<float>(pick(generator));
  return values;
}

/// Compares an f32 D with A*B for an f32 problem, element by element; the number that differ.
inline std::int64_t count_wrong(const culet::Problem& p, const std::vector<float>& a,
                                const std::vector<float>& b, const std::vector<float>& d) {
  const auto at = [](const std::vector<float>& values, culet::Order order, std::int64_t ld,
                     std::int64_t row, std::int64_t column) {
    const std::int64_t index =
        order == culet::Order::row_major ? row * ld + column : column * ld + row;
    return static_cast<double>(values[static_cast<std::size_t>(index)]);
  };
  std::int64_t wrong = 0;
  for (std::int64_t m = 0; m < p.m; ++m) {
    for (std::int64_t n = 0; n < p.n; ++n) {
      double sum = 0;
      for (std::int64_t k = 0; k < p.k; ++k) {
        sum += at(a, p.a_order, p.lda, m, k) * at(b, p.b_order, p.ldb, k, n);
      }
      wrong += sum != static_cast<double>(d[static_cast<std::size_t>(m * p.ldd + n)]);
    }
  }
  return wrong;
}

/// Runs a plan of an f32 problem once on fresh operands; true if every element of D is right.
inline bool run_and_check(const culet::Plan& plan, const culet::DeviceSpec& device) {
  const culet::Problem& problem = plan.problem();
  const std::vector<float> a = small_integers(problem.span_a(), 1);
  const std::vector<float> b = small_integers(problem.span_b(), 2);
  Buffer device_a(device, problem.span_a() * 4), device_b(device, problem.span_b() * 4);
  Buffer device_d(device, problem.span_d() * 4);
  device_a.write(a);
  device_b.write(b);

  const Buffer workspace(device, plan.workspace().bytes);
  culet::Arguments arguments;
  arguments.a = device_a.data();
  arguments.b = device_b.data();
  arguments.d = device_d.data();
  arguments.workspace = workspace.data();
  must(plan.run(arguments));

  const std::int64_t wrong = count_wrong(problem, a, b, device_d.read<float>());
  std::printf("%s: %s, %lld of %lld elements wrong\n", problem.text().c_str(),
              plan.candidate().text().c_str(), static_cast<long long>(wrong),
              static_cast<long long>(problem.m * problem.n));
  return wrong == 0;
}

/// Tunes a problem with a family of the program's own beside culet's backends, then runs the
/// family's best kernel, whoever won. The program's exit status.
inline int tune_with_family(std::shared_ptr<const culet::Backend> family,
                            const std::string& device_name, const std::string& problem_text) {
  const culet::DeviceSpec device = device_or_skip(device_name);
  const std::string name(family->name());
  culet::Registry registry = culet::Registry::standard();
  must(registry.add(std::move(family)));

  culet::TuneOptions options;
  options.top = 2;
  culet::Tuner tuner(registry, device, options, must(culet::open_cache("none")));
  const culet::Problem problem = must(culet::Problem::parse(problem_text));
  const culet::TuneReport report = must(tuner.tune(problem));
  std::fputs(culet::render({report}, tuner.counts(), culet::ReportFormat::table).c_str(), stdout);

  for (const culet::Trial& trial : report.trials) {  // the fastest first
    if (trial.candidate.steps.front().backend != name) continue;
    if (trial.outcome != culet::Outcome::measured) {
      std::printf("%s: %s\n%s\n", trial.candidate.text().c_str(), trial.reason.c_str(),
                  trial.log.c_str());
      break;
    }
    return run_and_check(must(tuner.plan(problem, trial.candidate)), device) ? 0 : 1;
  }
  std::printf("no candidate of %s was measured\n", name.c_str());
  return 1;
}

}  // namespace example

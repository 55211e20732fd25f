// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// What several benchmarks need on any device: how they end where they cannot go on, numbers as
// operands hold them, and JSON's strings.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "culet/culet.h"

namespace bench {

/// The name that messages begin with; main() gives it.
inline std::string program;

[[noreturn]] inline void stop(const std::string& message, int status) {
  std::fprintf(stderr, "%s: %s\n", program.c_str(), message.c_str());
  std::exit(status);
}

/// Prints the options and ends where they are asked for.
inline void answer_help(int argc, char** argv, const char* options) {
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    if (word != "--help" && word != "-h") continue;
    std::printf("%s %s\n", program.c_str(), options);
    std::exit(0);
  }
}

template <typename T>
T must(culet::Result<T> result, int status = 5) {
  if (!result) stop(result.error().message + " " + result.error().detail, status);
  if constexpr (!std::is_void_v<T>) return std::move(*result);
}

inline float from_bf16(std::uint16_t bits) {
  const std::uint32_t word = static_cast<std::uint32_t>(bits) << 16;
  float value;
  std::memcpy(&value, &word, sizeof value);
  return value;
}

inline std::uint16_t to_bf16(float value) {
  std::uint32_t word;
  std::memcpy(&word, &value, sizeof word);
  return static_cast<std::uint16_t>((word + 0x7FFF + ((word >> 16) & 1)) >> 16);
}

/// Numbers of variance `variance`, evenly distributed.
class Random {
 public:
  Random(double variance, std::uint64_t seed)
      : scale_(static_cast<float>(std::sqrt(3 * variance) / 2147483648.0)), state_(seed) {}
  float next() {
    state_ = state_ * 6364136223846793005ull + 1442695040888963407ull;
    return scale_ * static_cast<float>(static_cast<std::int32_t>(state_ >> 32));
  }

 private:
  float scale_;
  std::uint64_t state_;
};

/// `count` such numbers as bf16.
inline std::vector<std::uint16_t> random_bf16(std::size_t count, double variance,
                                              std::uint64_t seed) {
  Random random(variance, seed);
  std::vector<std::uint16_t> values(count);
  for (std::uint16_t& value : values) value = to_bf16(random.next());
  return values;
}

inline std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) out += c == '"' || c == '\\' ? std::string{'\\', c} : std::string{c};
  return out + "\"";
}

}  // namespace bench

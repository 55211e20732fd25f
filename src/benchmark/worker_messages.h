// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// What a tuning process and its worker say to each other. A message is a kind and fields, sent with
// its length in front. Both ends are the same version of the same program on one machine, so
// numbers travel as they lie in memory; a reader nevertheless checks every length, since a
// candidate may have damaged the worker that wrote.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <type_traits>

#include "benchmark/trial_runner.h"

namespace culet::benchmark {

/// Raised whenever the first message, `ready`, changes. All others may differ between builds: a
/// program of another protocol, version or build is no worker.
inline constexpr std::uint32_t kWorkerProtocol = 2;
/// The worker's end of the socket.
inline constexpr int kWorkerSocket = 3;
/// A candidate with its code is some hundred kB; more than this is no message.
inline constexpr std::uint32_t kLongestMessage = 1u << 30;

enum class MessageKind : std::uint8_t {
  // To the worker.
  setup,   ///< problem, device and options: answered by `done`
  load,    ///< a number and the candidate it stands for from now on; not answered
  verify,  ///< number, full: answered by `done` with a verdict
  sample,  ///< number, seconds to settle: answered by `done` with seconds
  leave,   ///< number, which then stands for nothing; not answered
  finish,  ///< the problem is done with: operands and candidates may go; not answered
  // From the worker.
  ready,          ///< protocol and version, once
  step,           ///< code of the candidate runs from now on, with this limit; 0: no longer
  out_of_memory,  ///< the limit of its memory is reached: the worker ends
  done,
};

class MessageWriter {
 public:
  explicit MessageWriter(MessageKind kind) { put(kind); }
  template <typename T>
  MessageWriter& put(T value) {
    static_assert(std::is_trivially_copyable_v<T>);
    bytes_.append(reinterpret_cast<const char*>(&value), sizeof value);
    return *this;
  }
  MessageWriter& text(std::string_view value) {
    put(static_cast<std::uint64_t>(value.size()));
    bytes_ += value;
    return *this;
  }
  std::string bytes() const { return bytes_; }

 private:
  std::string bytes_;
};

/// The first message, by which a worker tells who it is.
MessageWriter ready_message(std::string_view build);

class MessageReader {
 public:
  explicit MessageReader(std::string_view bytes) : rest_(bytes) { kind_ = get<MessageKind>(); }
  MessageKind kind() const { return kind_; }
  /// False once something was read that was not there.
  bool good() const { return good_; }
  template <typename T>
  T get() {
    static_assert(std::is_trivially_copyable_v<T>);
    T value{};
    const std::string_view bytes = take(sizeof value);
    if (good_) std::memcpy(&value, bytes.data(), sizeof value);
    return value;
  }
  bool flag() { return get<std::uint8_t>() != 0; }
  std::string text() { return std::string(take(get<std::uint64_t>())); }

 private:
  std::string_view take(std::uint64_t count) {
    if (count > rest_.size()) good_ = false;
    if (!good_) return {};
    const std::string_view taken = rest_.substr(0, count);
    rest_.remove_prefix(count);
    return taken;
  }

  std::string_view rest_;
  bool good_ = true;
  MessageKind kind_ = MessageKind::done;
};

/// The message of one write, so that no other can come between. False: the other end is gone, or
/// does not read.
bool send_message(int socket, const std::string& bytes);

struct Setup {
  Problem problem;
  DeviceSpec device;
  RunnerOptions options;  ///< without what cannot travel: stop and the functions
};
std::string encode(const Setup& setup);
Result<Setup> decode_setup(MessageReader& reader);

std::string encode(std::int64_t number, const BuiltCandidate& candidate);
/// After the number was read.
Result<BuiltCandidate> decode_candidate(MessageReader& reader);

/// Answer to whatever was asked.
struct Reply {
  Result<void> ok;       ///< of setup and sample
  Verification verdict;  ///< of verify
  double seconds = 0;    ///< of sample
  bool usable = true;    ///< TrialRunner::usable(): false asks for a new worker
};
std::string encode(const Reply& reply);
/// Error: a part is missing, or the numbers are none that can have been measured.
Result<Reply> decode_reply(MessageReader& reader);

/// Thirty years. A clock's reading and as much again fit into 64 bits of nanoseconds.
inline constexpr double kMostStepSeconds = 1e9;
/// Longer limits are cut to it.
std::string encode_step(double seconds);
/// The limit, 0 where the candidate's code no longer runs. Error: what encode_step() never writes.
Result<double> decode_step(MessageReader& reader);

}  // namespace culet::benchmark

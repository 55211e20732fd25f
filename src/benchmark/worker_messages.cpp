// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// Messages to bytes and back.
#include "benchmark/worker_messages.h"

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cmath>

#include "culet/version.h"

namespace culet::benchmark {
namespace {

tl::unexpected<Error> damaged() {
  return fail(ErrorCode::io, "a damaged message between a tuning process and its worker");
}

}  // namespace

bool send_message(int socket, const std::string& bytes) {
  const auto length = static_cast<std::uint32_t>(bytes.size());
  std::string framed(reinterpret_cast<const char*>(&length), sizeof length);
  framed += bytes;
  std::size_t sent = 0;
  while (sent < framed.size()) {
    const ssize_t count = send(socket, framed.data() + sent, framed.size() - sent, MSG_NOSIGNAL);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return false;
    sent += static_cast<std::size_t>(count);
  }
  return true;
}

MessageWriter ready_message(std::string_view build) {
  MessageWriter message(MessageKind::ready);
  message.put(kWorkerProtocol).text(CULET_VERSION).text(build);
  return message;
}

std::string encode(const Setup& setup) {
  const MeasurePolicy& policy = setup.options.policy;
  MessageWriter writer(MessageKind::setup);
  writer.text(setup.problem.text()).text(setup.device.json()).put(setup.device.present);
  writer.put(setup.options.seed).put(setup.options.max_memory_bytes);
  writer.put(policy.target_seconds).put(policy.min_rounds).put(policy.max_rounds);
  writer.put(policy.drop_ratio).put(policy.rotate_bytes).put(policy.noise_floor);
  writer.put(policy.trial_seconds).put(policy.settle_seconds).put(policy.final_ratio);
  return writer.bytes();
}

Result<Setup> decode_setup(MessageReader& reader) {
  Setup setup;
  auto problem = Problem::parse(reader.text());
  if (!problem) return tl::unexpected(problem.error());
  auto device = DeviceSpec::from_json(reader.text());
  if (!device) return tl::unexpected(device.error());
  setup.problem = std::move(*problem);
  setup.device = std::move(*device);
  setup.device.present = reader.flag();
  setup.options.seed = reader.get<std::uint64_t>();
  setup.options.max_memory_bytes = reader.get<double>();
  MeasurePolicy& policy = setup.options.policy;
  policy.target_seconds = reader.get<double>();
  policy.min_rounds = reader.get<int>();
  policy.max_rounds = reader.get<int>();
  policy.drop_ratio = reader.get<double>();
  policy.rotate_bytes = reader.get<std::int64_t>();
  policy.noise_floor = reader.get<double>();
  policy.trial_seconds = reader.get<double>();
  policy.settle_seconds = reader.get<double>();
  policy.final_ratio = reader.get<double>();
  if (!reader.good()) return damaged();
  return setup;
}

std::string encode(std::int64_t number, const BuiltCandidate& candidate) {
  MessageWriter writer(MessageKind::load);
  writer.put(number).text(candidate.candidate.text());
  writer.put(static_cast<std::uint64_t>(candidate.steps.size()));
  for (const BuiltStep& step : candidate.steps) {
    const Artifact& artifact = step.artifact;
    writer.text(Candidate{{step.step}}.text()).put(artifact.kind).text(artifact.bytes);
    writer.text(artifact.entry).text(artifact.toolchain).text(step.launch.json());
  }
  return writer.bytes();
}

Result<BuiltCandidate> decode_candidate(MessageReader& reader) {
  BuiltCandidate built;
  auto candidate = Candidate::parse(reader.text());
  if (!candidate) return tl::unexpected(candidate.error());
  built.candidate = std::move(*candidate);
  const auto steps = reader.get<std::uint64_t>();
  for (std::uint64_t i = 0; i < steps && reader.good(); ++i) {
    BuiltStep step;
    auto one = Candidate::parse(reader.text());
    if (!one || one->steps.size() != 1) return damaged();
    step.step = std::move(one->steps.front());
    step.artifact.kind = reader.get<ArtifactKind>();
    step.artifact.bytes = reader.text();
    step.artifact.entry = reader.text();
    step.artifact.toolchain = reader.text();
    auto launch = LaunchSpec::from_json(reader.text());
    if (!launch) return tl::unexpected(launch.error());
    step.launch = std::move(*launch);
    built.steps.push_back(std::move(step));
  }
  if (!reader.good()) return damaged();
  return built;
}

std::string encode(const Reply& reply) {
  MessageWriter writer(MessageKind::done);
  writer.put(reply.ok.has_value());
  writer.put(reply.ok ? ErrorCode{} : reply.ok.error().code);
  writer.text(reply.ok ? "" : reply.ok.error().message);
  writer.put(reply.verdict.outcome).text(reply.verdict.reason).put(reply.verdict.error);
  writer.put(reply.seconds).put(reply.usable);
  return writer.bytes();
}

Result<Reply> decode_reply(MessageReader& reader) {
  Reply reply;
  const bool ok = reader.flag();
  const auto code = reader.get<ErrorCode>();
  const std::string message = reader.text();
  if (!ok) reply.ok = fail(code, message);
  reply.verdict.outcome = reader.get<Outcome>();
  reply.verdict.reason = reader.text();
  reply.verdict.error = reader.get<double>();
  reply.seconds = reader.get<double>();
  reply.usable = reader.flag();
  if (!reader.good() || reply.verdict.outcome > Outcome::measured) return damaged();
  if (std::isnan(reply.verdict.error) || !std::isfinite(reply.seconds) || reply.seconds < 0) {
    return damaged();
  }
  return reply;
}

std::string encode_step(double seconds) {
  return MessageWriter(MessageKind::step).put(std::clamp(seconds, 0.0, kMostStepSeconds)).bytes();
}

Result<double> decode_step(MessageReader& reader) {
  const auto seconds = reader.get<double>();
  if (reader.good() && seconds >= 0 && seconds <= kMostStepSeconds) return seconds;
  return damaged();
}

}  // namespace culet::benchmark

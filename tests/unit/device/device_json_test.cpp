// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// Presets, the JSON form and its errors.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <fstream>

#include "device/find_device.h"

namespace culet {
namespace {

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const std::size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return at == std::string::npos ? text : text.replace(at, from.size(), to);
}

/// A small valid device that errors are planted in.
const char* const kSmall = R"({"kind": "cuda", "name": "X", "architecture": "sm_80", "units": 4,
  "clock_ghz": 1.5, "dram_bytes_per_s": 1e12, "l2_bytes_per_s": 3e12, "shared_bytes_per_s": 1e13,
  "l2_bytes": 1048576, "vector_ops": {"f32": 1e12}})";

void expect_error(const std::string& json, const std::string& part) {
  const auto spec = DeviceSpec::from_json(json);
  ASSERT_FALSE(spec) << json;
  EXPECT_NE(spec.error().message.find(part), std::string::npos) << spec.error().message;
  EXPECT_EQ(spec.error().code, ErrorCode::invalid_argument);
  EXPECT_EQ(spec.error().message.find('\n'), std::string::npos);
}

TEST(Preset, EveryOneLoadsAndRoundTrips) {
  const auto names = DeviceSpec::preset_names();
  for (const char* expected : {"a100", "cpu", "h100", "h200"}) {
    EXPECT_NE(std::find(names.begin(), names.end(), expected), names.end()) << expected;
  }
  for (const std::string& name : names) {
    const auto spec = DeviceSpec::preset(name);
    ASSERT_TRUE(spec) << name << ": " << spec.error().message;
    EXPECT_FALSE(spec->present);
    const auto again = DeviceSpec::from_json(spec->json());
    ASSERT_TRUE(again) << again.error().message;
    EXPECT_EQ(again->json(), spec->json());
    EXPECT_EQ(again->tensor_ops, spec->tensor_ops);
    EXPECT_EQ(again->identity(), spec->identity());
  }
}

TEST(Preset, H200IsAHopperPart) {
  const auto spec = DeviceSpec::preset("h200");
  ASSERT_TRUE(spec);
  EXPECT_TRUE(spec->is_cuda());
  EXPECT_EQ(spec->architecture, "sm_90a");
  EXPECT_EQ(spec->units, 132);
  EXPECT_EQ(spec->shared_per_block, 227 * 1024);
  EXPECT_DOUBLE_EQ(spec->tensor_ops.at(DType::e4m3), 2 * spec->tensor_ops.at(DType::bf16));
  // Between what large bf16 GEMMs reach and the published peak.
  EXPECT_GT(spec->tensor_ops.at(DType::bf16), 790e12);
  EXPECT_LT(spec->tensor_ops.at(DType::bf16), 990e12);
}

TEST(DeviceJson, AllFieldsSurvive) {
  DeviceSpec spec = *DeviceSpec::from_json(kSmall);
  spec.ordinal = 3;
  spec.threads = 5;
  EXPECT_EQ(spec.json().find("uuid"), std::string::npos) << "not where there is none";
  spec.driver = "CUDA 13.0 \"quoted\"";
  spec.uuid = "GPU-00112233-4455-6677-8899-aabbccddeeff";
  spec.l1_bytes = 1;
  spec.l3_bytes = 2;
  spec.memory_bytes = std::int64_t{1} << 41;
  spec.registers_per_unit = 7;
  spec.launch_seconds = 1.25e-6;
  spec.tensor_ops[DType::s8] = 0.1;
  const auto again = DeviceSpec::from_json(spec.json());
  ASSERT_TRUE(again) << again.error().message;
  EXPECT_EQ(again->ordinal, 3);
  EXPECT_EQ(again->threads, 5);
  EXPECT_EQ(again->driver, spec.driver);
  EXPECT_EQ(again->uuid, spec.uuid);
  DeviceSpec twin = spec;
  twin.uuid = "GPU-another";
  EXPECT_EQ(twin.identity(), spec.identity()) << "equal devices share what was measured";
  EXPECT_EQ(again->memory_bytes, spec.memory_bytes);
  EXPECT_EQ(again->launch_seconds, spec.launch_seconds);
  EXPECT_EQ(again->tensor_ops, spec.tensor_ops);
  EXPECT_EQ(again->json(), spec.json());
}

TEST(DeviceJson, ErrorsNameTheField) {
  ASSERT_TRUE(DeviceSpec::from_json(kSmall));
  expect_error("{", "not valid JSON");
  expect_error("[1]", "not an object");
  expect_error(replaced(kSmall, "\"kind\"", "\"sort\""), "sort: unknown field");
  expect_error(replaced(kSmall, "\"kind\": \"cuda\", ", ""), "kind: missing");
  expect_error(replaced(kSmall, "\"cuda\"", "\"gpu\""), "kind: must be");
  expect_error(replaced(kSmall, "\"units\": 4", "\"units\": \"four\""), "units: must be a whole");
  expect_error(replaced(kSmall, "\"units\": 4", "\"units\": 4.5"), "units: must be a whole");
  expect_error(replaced(kSmall, "\"units\": 4", "\"units\": 1e300"), "units: must be a whole");
  expect_error(replaced(kSmall, "\"units\": 4", "\"units\": 0"), "units: must be 1 to 1000000");
  expect_error(replaced(kSmall, "\"units\": 4", "\"units\": 1000001"), "units: must be 1 to");
  EXPECT_TRUE(DeviceSpec::from_json(replaced(kSmall, "\"units\": 4", "\"units\": 1000000")));
  for (const char* field : {"\"threads\": 0, ", "\"threads\": 1000001, "}) {
    expect_error(replaced(kSmall, "\"units\"", field + std::string("\"units\"")),
                 "threads: must be 1 to 1000000");
  }
  expect_error(replaced(kSmall, "\"units\": 4,", ""), "units: missing");
  expect_error(replaced(kSmall, "\"units\"", "\"uuid\": 7, \"units\""), "uuid: must be a string");
  expect_error(replaced(kSmall, "1.5", "-1"), "clock_ghz");
  expect_error(replaced(kSmall, "1.5", "0"), "clock_ghz: must be greater than 0");
  expect_error(replaced(kSmall, "\"f32\"", "\"f33\""), "vector_ops.f33");
  expect_error(replaced(kSmall, "{\"f32\": 1e12}", "{}"), "at least one rate");
  expect_error(replaced(kSmall, "{\"f32\": 1e12}", "[]"), "vector_ops: must be an object");
  expect_error(replaced(kSmall, "{\"f32\": 1e12}", "{\"f32\": true}"), "vector_ops.f32");
}

TEST(DeviceJson, ErrorsAreShortAndOfOneLine) {
  // Deep enough for the stack where values are printed one level at a time.
  const std::string deep(200'000, '[');
  expect_error(replaced(kSmall, "\"X\"", deep + std::string(deep.size(), ']')),
               "device JSON: line 1, column 125: nested more than 100 deep");
  std::string wide = "{";
  for (int i = 0; i < 300; ++i) wide += "\"a" + std::to_string(i) + "\": 1,";
  expect_error(wide + "\"b\": 1}", "an object of more than 256 names");
  std::string yaml;
  for (int i = 0; i < 300; ++i) yaml += "a" + std::to_string(i) + ": {b: 1}\n";
  expect_error(yaml, "not valid JSON");
  expect_error("{" + yaml + "}", "not valid JSON");
  expect_error(replaced(kSmall, "\"kind\"", "\"a\\nb\""), "a?b: unknown field");
  expect_error(replaced(kSmall, "\"f32\"", "\"a\\nb\""), "vector_ops.a?b");
  const auto list = DeviceSpec::from_json(replaced(
      kSmall, "\"X\"", "[" + std::string(2000, ' ') + "\"" + std::string(5000, 'x') + "\"]"));
  ASSERT_FALSE(list);
  EXPECT_LT(list.error().message.size(), 100u) << list.error().message;
}

TEST(FindDevice, PresetsFilesAndNonsense) {
  const auto preset = find_device("h200");
  ASSERT_TRUE(preset);
  EXPECT_EQ(preset->architecture, "sm_90a");

  const std::string path = testing::TempDir() + "culet_device_test.json";
  std::ofstream(path) << kSmall;
  const auto file = find_device(path);
  ASSERT_TRUE(file) << file.error().message;
  EXPECT_EQ(file->name, "X");
  std::ofstream(path) << "{}";
  const auto broken = find_device(path);
  ASSERT_FALSE(broken);
  EXPECT_NE(broken.error().message.find(path), std::string::npos);
  std::ofstream(path) << kSmall << std::string(1 << 20, ' ');
  const auto large = find_device(path);
  ASSERT_FALSE(large);
  EXPECT_NE(large.error().message.find("more than 1048576 bytes"), std::string::npos)
      << large.error().message;
  std::remove(path.c_str());

  const auto missing = find_device("/nonexistent/device.json");
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().code, ErrorCode::io);
  const auto unknown = find_device("h300");
  ASSERT_FALSE(unknown);
  EXPECT_EQ(unknown.error().code, ErrorCode::invalid_argument);
  EXPECT_NE(unknown.error().message.find("h200"), std::string::npos);
  for (const char* bad : {"cuda:x", "cuda:-1", "cuda:", "cpu:0", "cpu:1x", "cpu:1000000"}) {
    const auto device = find_device(bad);
    ASSERT_FALSE(device) << bad;
    EXPECT_EQ(device.error().code, ErrorCode::invalid_argument) << bad;
    EXPECT_NE(device.error().message.find(bad), std::string::npos) << device.error().message;
  }
}

TEST(FindDevice, TheCpuIsAlwaysThere) {
  const auto cpu = find_device("cpu:1");
  ASSERT_TRUE(cpu) << cpu.error().message;
  EXPECT_TRUE(cpu->present);
  EXPECT_EQ(cpu->threads, 1);
  EXPECT_TRUE(find_device("auto"));
  // Who it is takes no measuring.
  auto unrated = identify_device("cpu:1");
  ASSERT_TRUE(unrated);
  EXPECT_EQ(unrated->identity(), cpu->identity());
  EXPECT_TRUE(unrated->vector_ops.empty());
  rate_device(&*unrated);
  EXPECT_EQ(unrated->json(), cpu->json());
  EXPECT_EQ(DeviceSpec::from_json(cpu->json())->json(), cpu->json());
}

}  // namespace
}  // namespace culet

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// Configs and candidates as text, launch quantities, and launches as JSON.
#include "culet/candidate.h"

#include <gtest/gtest.h>

#include <random>

namespace culet {
namespace {

TEST(Config, SetGetAndOrder) {
  Config c;
  c.set("tile", "128x256x64").set("stages", 4).set("schedule", "cooperative");
  EXPECT_EQ(c.text(), "tile=128x256x64 stages=4 schedule=cooperative");
  c.set("stages", 5);
  EXPECT_EQ(c.text(), "tile=128x256x64 stages=5 schedule=cooperative") << "keeps its place";
  EXPECT_EQ(c.get_int("stages"), 5);
  EXPECT_EQ(c.get_int("missing", 7), 7);
  EXPECT_EQ(c.get_int("schedule", 7), 7) << "not a number";
  EXPECT_EQ(c.get_dims("tile"), (std::vector<std::int64_t>{128, 256, 64}));
  EXPECT_EQ(c.get_dims("stages"), (std::vector<std::int64_t>{5}));
  EXPECT_TRUE(c.get_dims("missing").empty());
  EXPECT_TRUE(c.get_dims("schedule").empty());
  EXPECT_EQ(c.get("missing"), "");
  EXPECT_TRUE(c.has("tile"));
  EXPECT_FALSE(c.has("missing"));
}

TEST(Config, ParseRoundTrips) {
  for (const char* text : {"", "a=1", "tile=128x256x64 cluster=2x1 split=auto", "empty= b=2"}) {
    const auto c = Config::parse(text);
    ASSERT_TRUE(c) << text;
    EXPECT_EQ(c->text(), text);
  }
  EXPECT_EQ(Config::parse("  a=1   b=2 ")->text(), "a=1 b=2");
  for (const char* bad : {"a", "=1", "a=1 a=2", "a=b=c", "a={", "a=1\nb=2"}) {
    EXPECT_FALSE(Config::parse(bad)) << bad;
  }
}

TEST(Candidate, Text) {
  const std::pair<const char*, const char*> cases[] = {
      {"sm90_dense{tile=128x256x64 stages=4}", "sm90_dense{tile=128x256x64 stages=4}"},
      {"reference{}", "reference"},
      {"simt:all", "simt"},
      {" cublaslt{algo=3}:gemm  +  pointwise{vec=8}:epilogue ",
       "cublaslt{algo=3}:gemm + pointwise{vec=8}:epilogue"},
      {"a:gemm+b:epilogue", nullptr},
      {"a{x=1}+b", "a{x=1} + b"},
  };
  for (const auto& [text, canonical] : cases) {
    const auto c = Candidate::parse(text);
    ASSERT_EQ(c.has_value(), canonical != nullptr) << text;
    if (canonical == nullptr) continue;
    EXPECT_EQ(c->text(), canonical);
  }
  const auto two = Candidate::parse("cublaslt{algo=3}:gemm + pointwise:epilogue");
  ASSERT_TRUE(two);
  ASSERT_EQ(two->steps.size(), 2u);
  EXPECT_EQ(two->steps[0].part, Part::gemm);
  EXPECT_EQ(two->steps[0].config.get_int("algo"), 3);
  EXPECT_EQ(two->steps[1].part, Part::epilogue);
}

TEST(Candidate, BadTextIsAnError) {
  for (const char* bad : {"", " ", "{a=1}", "a{", "a{b}", "a{b=1", "a:half", "a +", "+ a", "a b",
                          "a{x=1}y", "a{x=1}:gemm:all", "a}"}) {
    const auto c = Candidate::parse(bad);
    EXPECT_FALSE(c) << bad;
    if (c) continue;
    EXPECT_EQ(c.error().code, ErrorCode::invalid_argument);
  }
  EXPECT_FALSE(Candidate::parse(std::string(20000, 'a')));
}

TEST(Candidate, WhatIsTooLongWhenPrintedIsAnError) {
  const auto steps = [](int count) {
    std::string text = "a";
    for (int i = 1; i < count; ++i) text += " +a";
    return text;
  };
  // Printed, each step but the first takes four characters.
  const auto most = Candidate::parse(steps(4096));
  ASSERT_TRUE(most) << most.error().message;
  EXPECT_EQ(most->text().size(), 16381u);
  EXPECT_TRUE(Candidate::parse(most->text()));
  ASSERT_LT(steps(4097).size(), 16384u);
  const auto longer = Candidate::parse(steps(4097));
  ASSERT_FALSE(longer);
  EXPECT_EQ(longer.error().message, "candidate: longer than 16384 characters when printed");
}

TEST(Candidate, RandomTextsRoundTrip) {
  std::mt19937_64 random(5);
  const auto pick = [&](int count) { return static_cast<int>(random() % count); };
  for (int i = 0; i < 3000; ++i) {
    Candidate c;
    for (int s = 1 + pick(3); s > 0; --s) {
      Step step;
      step.backend = "backend_" + std::to_string(pick(10));
      for (int k = pick(6); k > 0; --k) {
        step.config.set("k" + std::to_string(pick(8)), std::to_string(random()));
      }
      step.part = static_cast<Part>(pick(3));
      c.steps.push_back(step);
    }
    const auto parsed = Candidate::parse(c.text());
    ASSERT_TRUE(parsed) << c.text();
    ASSERT_EQ(*parsed, c);
    // Damaged text: an error or another candidate, never a crash.
    std::string text = c.text();
    text[random() % text.size()] = static_cast<char>(random());
    if (const auto other = Candidate::parse(text)) {
      ASSERT_EQ(Candidate::parse(other->text()).value(), *other);
    }
  }
}

TEST(ProblemOf, GemmPartStoresTheAccumulator) {
  const Problem whole =
      Problem::parse("16x32x64x2:bf16:ldd=40:alignd=2:const=b:epi=\"relu(acc + b[n])\"").value();
  EXPECT_EQ(problem_of(whole, Part::gemm).text(), "16x32x64x2:bf16>f32:const=b");
  EXPECT_EQ(problem_of(whole, Part::all), whole);
  EXPECT_EQ(problem_of(whole, Part::epilogue), whole);
  const Problem integers = Problem::parse("4x4x4:s8>bf16:epi=\"acc * s\"").value();
  EXPECT_EQ(problem_of(integers, Part::gemm).text(), "4x4x4:s8");
  const Problem doubles = Problem::parse("4x4x4:f64:epi=\"acc * s\"").value();
  EXPECT_EQ(problem_of(doubles, Part::gemm).text(), "4x4x4:f64");
}

TEST(MValue, At) {
  EXPECT_EQ(MValue(7).at(100), 7);
  EXPECT_EQ(MValue::times_m(3).at(5), 15);
  const MValue tiles = MValue::tiles_of_m(128, 4, 132);
  EXPECT_EQ(tiles.at(0), 0);
  EXPECT_EQ(tiles.at(1), 4);
  EXPECT_EQ(tiles.at(128), 4);
  EXPECT_EQ(tiles.at(129), 8);
  EXPECT_EQ(tiles.at(100000), 132);
  EXPECT_EQ(MValue::times_m(1 << 20).at(1 << 20), std::int64_t{1} << 40);
}

LaunchSpec full_spec() {
  LaunchSpec spec;
  spec.grid[0] = MValue::tiles_of_m(128, 7, 132);
  spec.grid[1] = 3;
  spec.block[0] = 384;
  spec.cluster[0] = 2;
  spec.shared_bytes = 200000;
  spec.pdl = true;
  TensorMapSpec map;
  map.operand = Operand::b;
  map.dtype = DType::e4m3;
  map.rank = 3;
  map.dims[0] = 4096;
  map.dims[1] = MValue::times_m(1);
  map.dims[2] = 8;
  map.strides_bytes[1] = std::int64_t{1} << 40;
  map.box[0] = 64;
  map.box[1] = MValue::tiles_of_m(1, 1, 128);
  map.swizzle_bytes = 64;
  map.l2_promotion_bytes = 256;
  MValue offset = MValue::times_m(-5);
  offset.add = 11;
  spec.args = {LaunchArg::pointer(Operand::extra, 2, 64),
               LaunchArg::pointer(Operand::scratch),
               LaunchArg::i32(MValue::times_m(1)),
               LaunchArg::i64(offset),
               LaunchArg::real(-0.1f),
               LaunchArg::tensor_map(map)};
  spec.host.split = HostLaunch::Split::n;
  spec.host.granularity = 64;
  spec.host.threads = 2;
  spec.host.scratch_bytes_per_thread = 1 << 20;
  spec.workspace_bytes = MValue::times_m(4096);
  spec.workspace_align = 1024;
  spec.zeroed_prefix = 512;
  spec.packed_b_bytes = 77;
  spec.pack_entry = "pack \"it\"";
  return spec;
}

TEST(LaunchSpec, JsonRoundTrips) {
  for (const LaunchSpec& spec : {LaunchSpec(), full_spec()}) {
    const std::string json = spec.json();
    const auto back = LaunchSpec::from_json(json);
    ASSERT_TRUE(back) << back.error().detail;
    EXPECT_EQ(back->json(), json);
    ASSERT_EQ(back->args.size(), spec.args.size());
    EXPECT_EQ(back->grid[0], spec.grid[0]);
    EXPECT_EQ(back->workspace_bytes, spec.workspace_bytes);
    EXPECT_EQ(back->pack_entry, spec.pack_entry);
    EXPECT_EQ(back->host.split, spec.host.split);
    for (std::size_t i = 0; i < spec.args.size(); ++i) {
      EXPECT_EQ(back->args[i].kind, spec.args[i].kind);
      EXPECT_EQ(back->args[i].operand, spec.args[i].operand);
      EXPECT_EQ(back->args[i].extra, spec.args[i].extra);
      EXPECT_EQ(back->args[i].offset_bytes, spec.args[i].offset_bytes);
      EXPECT_EQ(back->args[i].value, spec.args[i].value);
      EXPECT_EQ(back->args[i].f32, spec.args[i].f32);
      EXPECT_EQ(back->args[i].map, spec.args[i].map);
    }
  }
}

TEST(LaunchSpec, DamagedJsonIsAnError) {
  const std::string json = full_spec().json();
  EXPECT_FALSE(LaunchSpec::from_json(""));
  EXPECT_FALSE(LaunchSpec::from_json("[]"));
  EXPECT_FALSE(LaunchSpec::from_json("{\"grid\":[1,1,1]}"));
  EXPECT_FALSE(LaunchSpec::from_json(json.substr(0, json.size() / 2)));
  const auto with_lists = [&json](int depth) {
    const auto brackets = [depth](char c) {
      return std::string(static_cast<std::size_t>(depth), c);
    };
    return "{\"more\":" + brackets('[') + brackets(']') + "," + json.substr(1);
  };
  EXPECT_TRUE(LaunchSpec::from_json(with_lists(99)));
  const auto deep = LaunchSpec::from_json(with_lists(100));
  ASSERT_FALSE(deep);
  EXPECT_EQ(deep.error().detail, "line 1, column 108: nested more than 100 deep");
  std::mt19937_64 random(9);
  for (int i = 0; i < 5000; ++i) {
    std::string damaged = json;
    damaged[random() % damaged.size()] = static_cast<char>(32 + random() % 95);
    const auto spec = LaunchSpec::from_json(damaged);
    if (spec) continue;
    EXPECT_EQ(spec.error().code, ErrorCode::invalid_argument);
  }
}

TEST(LaunchSpec, NumbersThatAreNotWholeOrDoNotFitAreErrors) {
  const std::string json = full_spec().json();
  const auto with = [&json](std::string_view field, const char* value) {
    const std::size_t begin = json.find(field) + field.size();
    std::string text = json;
    return text.replace(begin, json.find_first_of(",}]", begin) - begin, value);
  };
  ASSERT_TRUE(LaunchSpec::from_json(with("\"threads\":", "7")));
  for (const char* field : {"\"threads\":", "\"shared_bytes\":", "\"extra\":", "\"bits\":"}) {
    ASSERT_NE(json.find(field), std::string::npos) << field;
    // The third is 2^32 + 1, the last 2^64 - 1: both would wrap.
    for (const char* value :
         {"1.5", "5.08889e+101", "4294967297", "18446744073709551615", "true"}) {
      EXPECT_FALSE(LaunchSpec::from_json(with(field, value))) << field << value;
    }
  }
  EXPECT_FALSE(LaunchSpec::from_json(with("\"shared_bytes\":", "-1")));
  EXPECT_FALSE(LaunchSpec::from_json(with("\"offset_bytes\":", "1e300")));
  // The first of a map's box, and the most that one which follows m can be.
  for (const char* field : {"\"box\":[", "\"box\":[64,{\"add\":0,\"cap\":"}) {
    ASSERT_NE(json.find(field), std::string::npos) << json;
    EXPECT_TRUE(LaunchSpec::from_json(with(field, "256"))) << field;
    for (const char* value : {"0", "-1", "257", "4294967360"})
      EXPECT_FALSE(LaunchSpec::from_json(with(field, value))) << field << value;
  }
  EXPECT_FALSE(LaunchSpec::from_json(with("\"workspace_align\":", "9223372036854775808")));
}

TEST(ArtifactKinds, HaveNames) {
  EXPECT_EQ(to_string(ArtifactKind::cubin), "cubin");
  EXPECT_EQ(to_string(ArtifactKind::host_so), "host_so");
  EXPECT_EQ(to_string(ArtifactKind::host_builtin), "host_builtin");
  EXPECT_EQ(to_string(ArtifactKind::library_call), "library_call");
}

}  // namespace
}  // namespace culet

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// LaunchSpec as JSON, for stores, bundles and worker processes. Nothing but this file sees the JSON
// library; a damaged or foreign text is an error, never a crash.
#include <bit>
#include <cstring>
#include <nlohmann/json.hpp>

#include "base/json_limits.h"
#include "base/whole_number.h"
#include "culet/candidate.h"

namespace culet {
namespace {

using Json = nlohmann::json;

// The reader below throws this library's exceptions internally; from_json() turns them into a
// Result.
constexpr std::string_view kOperands[] = {"a",         "b",       "d",       "extra",
                                          "temporary", "scratch", "packed_b"};
constexpr std::string_view kKinds[] = {"pointer", "i32", "i64", "f32", "tensor_map"};
constexpr std::string_view kSplits[] = {"none", "m", "n", "k"};

template <typename Enum, std::size_t N>
Json write_enum(const std::string_view (&names)[N], Enum value) {
  return std::string(names[static_cast<std::size_t>(value)]);
}

template <typename Enum, std::size_t N>
Enum read_enum(const std::string_view (&names)[N], const Json& json) {
  const std::string& text = json.get_ref<const std::string&>();
  for (std::size_t i = 0; i < N; ++i) {
    if (names[i] == text) return static_cast<Enum>(i);
  }
  throw Json::other_error::create(501, "unknown name " + text.substr(0, 40), &json);
}

// A constant is a number; anything else {add, mul, div, cap}.
Json write(const MValue& v) {
  if (v == MValue(v.add)) return v.add;
  return Json{{"add", v.add}, {"mul", v.mul}, {"div", v.div}, {"cap", v.cap}};
}

MValue read_mvalue(const Json& json) {
  if (json.is_number_integer()) return MValue(whole_number<std::int64_t>(json));
  MValue v;
  v.add = whole_number<std::int64_t>(json.at("add"));
  v.mul = whole_number<std::int64_t>(json.at("mul"));
  v.div = whole_number<std::int64_t>(json.at("div"));
  v.cap = whole_number<std::int64_t>(json.at("cap"));
  if (v.div < 1) throw Json::other_error::create(502, "div must be positive", &json);
  return v;
}

/// As wide as the hardware's boxes can be, for every m.
MValue read_box(const Json& json) {
  const MValue box = read_mvalue(json);
  const std::int64_t most = box.mul == 0 ? box.at(0) : box.cap;
  if (most < 1 || most > 256) throw Json::other_error::create(505, "a box is not 1..256", &json);
  return box;
}

Json write(const TensorMapSpec& map) {
  Json json{{"operand", write_enum(kOperands, map.operand)},
            {"dtype", std::string(to_string(map.dtype))},
            {"swizzle_bytes", map.swizzle_bytes},
            {"l2_promotion_bytes", map.l2_promotion_bytes},
            {"dims", Json::array()},
            {"strides_bytes", Json::array()},
            {"box", Json::array()}};
  for (int i = 0; i < map.rank; ++i) {
    json["dims"].push_back(write(map.dims[i]));
    json["strides_bytes"].push_back(write(map.strides_bytes[i]));
    json["box"].push_back(write(map.box[i]));
  }
  return json;
}

TensorMapSpec read_map(const Json& json) {
  TensorMapSpec map;
  map.operand = read_enum<Operand>(kOperands, json.at("operand"));
  const Result<DType> dtype = parse_dtype(json.at("dtype").get_ref<const std::string&>());
  if (!dtype) throw Json::other_error::create(503, dtype.error().message, &json);
  map.dtype = *dtype;
  map.swizzle_bytes = whole_number<int>(json.at("swizzle_bytes"));
  map.l2_promotion_bytes = whole_number<int>(json.at("l2_promotion_bytes"));
  const std::size_t rank = json.at("dims").size();
  if (rank < 1 || rank > 5) throw Json::other_error::create(504, "rank is not 1..5", &json);
  map.rank = static_cast<int>(rank);
  for (std::size_t i = 0; i < rank; ++i) {
    map.dims[i] = read_mvalue(json.at("dims").at(i));
    map.strides_bytes[i] = read_mvalue(json.at("strides_bytes").at(i));
    map.box[i] = read_box(json.at("box").at(i));
  }
  return map;
}

Json write(const LaunchArg& arg) {
  Json json{{"kind", write_enum(kKinds, arg.kind)}};
  switch (arg.kind) {
    case LaunchArg::Kind::pointer:
      json["operand"] = write_enum(kOperands, arg.operand);
      if (arg.extra != 0) json["extra"] = arg.extra;
      if (arg.offset_bytes != 0) json["offset_bytes"] = arg.offset_bytes;
      break;
    case LaunchArg::Kind::i32:
    case LaunchArg::Kind::i64:
      json["value"] = write(arg.value);
      break;
    case LaunchArg::Kind::f32:
      json["bits"] = std::bit_cast<std::uint32_t>(arg.f32);  // exact, also for infinities and NaNs
      break;
    case LaunchArg::Kind::tensor_map:
      json["map"] = write(arg.map);
      break;
  }
  return json;
}

/// 0 where there is none: what is zero is not written.
template <typename Integer>
Integer optional_number(const Json& json, const char* name) {
  return json.contains(name) ? whole_number<Integer>(json.at(name)) : Integer{0};
}

LaunchArg read_arg(const Json& json) {
  switch (read_enum<LaunchArg::Kind>(kKinds, json.at("kind"))) {
    case LaunchArg::Kind::pointer:
      return LaunchArg::pointer(read_enum<Operand>(kOperands, json.at("operand")),
                                optional_number<int>(json, "extra"),
                                optional_number<std::int64_t>(json, "offset_bytes"));
    case LaunchArg::Kind::i32:
      return LaunchArg::i32(read_mvalue(json.at("value")));
    case LaunchArg::Kind::i64:
      return LaunchArg::i64(read_mvalue(json.at("value")));
    case LaunchArg::Kind::f32:
      return LaunchArg::real(std::bit_cast<float>(whole_number<std::uint32_t>(json.at("bits"))));
    case LaunchArg::Kind::tensor_map:
      break;
  }
  return LaunchArg::tensor_map(read_map(json.at("map")));
}

template <typename T>
Json write_triple(const T (&values)[3]) {
  if constexpr (std::is_same_v<T, MValue>) {
    return Json::array({write(values[0]), write(values[1]), write(values[2])});
  } else {
    return Json::array({values[0], values[1], values[2]});
  }
}

template <typename T>
void read_triple(const Json& json, T (&values)[3]) {
  for (std::size_t i = 0; i < 3; ++i) {
    if constexpr (std::is_same_v<T, MValue>) {
      values[i] = read_mvalue(json.at(i));
    } else {
      values[i] = whole_number<T>(json.at(i));
    }
  }
}

Json write(const HostLaunch& host) {
  return Json{{"split", write_enum(kSplits, host.split)},
              {"granularity", host.granularity},
              {"threads", host.threads},
              {"scratch_bytes_per_thread", host.scratch_bytes_per_thread}};
}

HostLaunch read_host(const Json& json) {
  HostLaunch host;
  host.split = read_enum<HostLaunch::Split>(kSplits, json.at("split"));
  host.granularity = whole_number<std::int64_t>(json.at("granularity"));
  host.threads = whole_number<int>(json.at("threads"));
  host.scratch_bytes_per_thread = whole_number<std::int64_t>(json.at("scratch_bytes_per_thread"));
  if (host.granularity < 1 || host.threads < 1) {
    throw Json::other_error::create(505, "granularity and threads must be positive", &json);
  }
  return host;
}

LaunchSpec read_spec(const Json& json) {
  LaunchSpec spec;
  read_triple(json.at("grid"), spec.grid);
  read_triple(json.at("block"), spec.block);
  read_triple(json.at("cluster"), spec.cluster);
  spec.shared_bytes = whole_number<std::uint32_t>(json.at("shared_bytes"));
  spec.pdl = json.at("pdl").get<bool>();
  for (const Json& arg : json.at("args")) spec.args.push_back(read_arg(arg));
  spec.host = read_host(json.at("host"));
  spec.workspace_bytes = read_mvalue(json.at("workspace_bytes"));
  spec.workspace_align = whole_number<std::int64_t>(json.at("workspace_align"));
  spec.zeroed_prefix = whole_number<std::int64_t>(json.at("zeroed_prefix"));
  spec.packed_b_bytes = whole_number<std::int64_t>(json.at("packed_b_bytes"));
  spec.pack_entry = json.at("pack_entry").get<std::string>();
  return spec;
}

}  // namespace

std::string LaunchSpec::json() const {
  Json json{{"grid", write_triple(grid)},
            {"block", write_triple(block)},
            {"cluster", write_triple(cluster)},
            {"shared_bytes", shared_bytes},
            {"pdl", pdl},
            {"args", Json::array()},
            {"host", write(host)},
            {"workspace_bytes", write(workspace_bytes)},
            {"workspace_align", workspace_align},
            {"zeroed_prefix", zeroed_prefix},
            {"packed_b_bytes", packed_b_bytes},
            {"pack_entry", pack_entry}};
  for (const LaunchArg& arg : args) json["args"].push_back(write(arg));
  return json.dump();
}

Result<LaunchSpec> LaunchSpec::from_json(std::string_view text) {
  if (const std::string why = beyond_json_limits(text); !why.empty()) {
    return fail(ErrorCode::invalid_argument, "launch: not a launch specification", why);
  }
  try {
    return read_spec(Json::parse(text.begin(), text.end()));
  } catch (const Json::exception& e) {
    return fail(ErrorCode::invalid_argument, "launch: not a launch specification", e.what());
  }
}

}  // namespace culet

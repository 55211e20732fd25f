// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// Problem text, MxNxK[xBATCH]:A[*B][>D][:key=value]..., into a Problem. docs/problem.md describes
// the form; a new key is a row in kKeys.
#include <fmt/format.h>

#include <limits>
#include <set>

#include "base/text.h"
#include "culet/problem.h"
#include "problem/problem_rules.h"

namespace culet {
namespace {

constexpr std::size_t kMaxLength = 8192;  // characters; the epilogue has a limit of its own

using Parsed = Result<void>;

tl::unexpected<Error> wrong(std::string message) {
  return fail(ErrorCode::invalid_argument, std::move(message));
}

Parsed read_number(std::string_view field, std::string_view text, std::int64_t* value) {
  switch (parse_int(text, value)) {
    case IntParse::ok:
      return {};
    case IntParse::too_large:
      return wrong(fmt::format("{}: {} is too large", field, shown(text)));
    case IntParse::not_a_number:
      break;
  }
  return wrong(fmt::format("{}: '{}' is not a whole number", field, shown(text)));
}

Parsed read_sizes(std::string_view text, Problem* p) {
  const std::vector<std::string_view> parts = split(text, 'x');
  if (parts.size() < 3 || parts.size() > 4) {
    return wrong(fmt::format("size: '{}' is not MxNxK or MxNxKxBATCH", shown(text)));
  }
  Parsed parsed = read_number("m", parts[0], &p->m);
  if (parsed) parsed = read_number("n", parts[1], &p->n);
  if (parsed) parsed = read_number("k", parts[2], &p->k);
  if (parsed && parts.size() == 4) parsed = read_number("batch", parts[3], &p->batch);
  return parsed;
}

Parsed read_dtype(std::string_view field, std::string_view text, DType* dtype) {
  const Result<DType> parsed = parse_dtype(text);
  if (!parsed) return wrong(fmt::format("{}: {}", field, shown(parsed.error().message, 200)));
  *dtype = *parsed;
  return {};
}

// A[*B][>D]
Parsed read_dtypes(std::string_view text, Problem* p) {
  const std::size_t greater = text.find('>');
  const std::string_view inputs = text.substr(0, greater);
  const std::size_t star = inputs.find('*');
  if (Parsed r = read_dtype("a", inputs.substr(0, star), &p->a); !r) return r;
  p->b = p->a;
  if (star != std::string_view::npos) {
    if (Parsed r = read_dtype("b", inputs.substr(star + 1), &p->b); !r) return r;
  }
  p->d = default_d(p->a, p->b);
  p->accumulate = default_accumulate(p->a);
  if (greater == std::string_view::npos) return {};
  return read_dtype("d", text.substr(greater + 1), &p->d);
}

// --- values of keys; each gets the key for its messages ---

Parsed read_layout(std::string_view key, std::string_view value, Problem* p) {
  const bool valid = value.size() == 2 && (value[0] == 't' || value[0] == 'n') &&
                     (value[1] == 't' || value[1] == 'n');
  if (!valid) {
    return wrong(
        fmt::format("{}: '{}' is not tn, tt, nn or nt (A's letter, then B's)", key, shown(value)));
  }
  p->a_order = value[0] == 't' ? Order::row_major : Order::col_major;
  p->b_order = value[1] == 't' ? Order::row_major : Order::col_major;
  return {};
}

template <std::int64_t Problem::*Field>
Parsed read_ld(std::string_view key, std::string_view value, Problem* p) {
  Parsed parsed = read_number(key, value, &(p->*Field));
  if (parsed && p->*Field == 0) return wrong(fmt::format("{}: 0 is not a leading dimension", key));
  return parsed;
}

template <std::int64_t Problem::*Field>
Parsed read_stride(std::string_view key, std::string_view value, Problem* p) {
  Parsed parsed = read_number(key, value, &(p->*Field));
  if (parsed && p->*Field < 0) return wrong(fmt::format("{}: {} is negative", key, p->*Field));
  if (parsed && p->batch == 1) return wrong(fmt::format("{}: there is no batch", key));
  return parsed;
}

template <int Problem::*Field>
Parsed read_align(std::string_view key, std::string_view value, Problem* p) {
  std::int64_t bytes = 0;
  const Parsed parsed = read_number(key, value, &bytes);
  if (!parsed) return parsed;
  if (bytes > (1 << 30)) return wrong(fmt::format("{}: {} is larger than 2^30", key, bytes));
  p->*Field = bytes < 0 ? -1 : static_cast<int>(bytes);
  return {};
}

Parsed read_accumulate(std::string_view key, std::string_view value, Problem* p) {
  for (const Accumulate acc :
       {Accumulate::f32, Accumulate::fast, Accumulate::s32, Accumulate::f16, Accumulate::f64}) {
    if (to_string(acc) != value) continue;
    // validated() takes f32 for "not stated", so a stated f32 is checked here.
    if (acc == Accumulate::f32 && default_accumulate(p->a) != acc) {
      return wrong(fmt::format("{}: f32 does not go with {} operands, which accumulate in {}", key,
                               to_string(p->a), to_string(default_accumulate(p->a))));
    }
    p->accumulate = acc;
    return {};
  }
  return wrong(fmt::format("{}: '{}' is not f32, fast, s32, f16 or f64", key, shown(value)));
}

Parsed read_range(std::string_view key, std::string_view value, Problem* p) {
  const std::size_t dots = value.find("..");
  const std::string_view low = value.substr(0, dots);
  const std::string_view high = dots == std::string_view::npos ? low : value.substr(dots + 2);
  Parsed parsed = read_number(key, low, &p->m_range.low);
  if (parsed) parsed = read_number(key, high, &p->m_range.high);
  if (parsed && p->m_range == MRange{} && p->m > 0) {
    return wrong(fmt::format("{}: the leading M {} is outside the range 0..0", key, p->m));
  }
  return parsed;
}

template <bool Problem::*Flag>
Parsed read_flag(std::string_view key, std::string_view value, std::string_view only, Problem* p) {
  if (value != only) {
    return wrong(fmt::format("{}: '{}' is not '{}'", key, shown(value), only));
  }
  p->*Flag = true;
  return {};
}

Parsed read_order(std::string_view key, std::string_view value, Problem* p) {
  return read_flag<&Problem::deterministic>(key, value, "deterministic", p);
}
Parsed read_const(std::string_view key, std::string_view value, Problem* p) {
  return read_flag<&Problem::const_b>(key, value, "b", p);
}
Parsed read_pack(std::string_view key, std::string_view value, Problem* p) {
  return read_flag<&Problem::pack_b>(key, value, "b", p);
}

Parsed read_epilogue(std::string_view, std::string_view value, Problem* p) {
  Result<Epilogue> epilogue = Epilogue::parse(value, p->d);
  if (!epilogue) return tl::unexpected<Error>(epilogue.error());
  p->epilogue = std::move(*epilogue);
  return {};
}

struct Key {
  std::string_view name;
  Parsed (*read)(std::string_view key, std::string_view value, Problem* problem);
};

constexpr Key kKeys[] = {
    {"layout", read_layout},
    {"lda", read_ld<&Problem::lda>},
    {"ldb", read_ld<&Problem::ldb>},
    {"ldd", read_ld<&Problem::ldd>},
    {"stridea", read_stride<&Problem::stride_a>},
    {"strideb", read_stride<&Problem::stride_b>},
    {"strided", read_stride<&Problem::stride_d>},
    {"aligna", read_align<&Problem::align_a>},
    {"alignb", read_align<&Problem::align_b>},
    {"alignd", read_align<&Problem::align_d>},
    {"acc", read_accumulate},
    {"m", read_range},
    {"order", read_order},
    {"const", read_const},
    {"pack", read_pack},
    {"epi", read_epilogue},
};

// Keys the text form has a place for, which nothing here can serve yet.
constexpr std::string_view kReserved[] = {"sa", "sb", "sd", "group"};

Parsed unknown_key(std::string_view key) {
  for (const std::string_view reserved : kReserved) {
    if (key == reserved) {
      return wrong(fmt::format("{}: this key is reserved and not supported in this version", key));
    }
  }
  std::string known;
  for (const Key& k : kKeys) {
    known += known.empty() ? "" : " ";
    known += k.name;
  }
  return wrong(fmt::format("unknown key '{}'; known: {}", shown(key), known));
}

Parsed read_key(std::string_view key, std::string_view value, Problem* p) {
  for (const Key& k : kKeys) {
    if (k.name == key) return k.read(key, value, p);
  }
  return unknown_key(key);
}

// epi comes last and holds the rest of the text. The quotes may be missing: shells eat them.
Result<std::string_view> unquoted(std::string_view value) {
  if (value.empty() || value.front() != '"') {
    if (value.find('"') != std::string_view::npos) return wrong("epi: a quote within the value");
    return value;
  }
  const std::size_t end = value.find('"', 1);
  if (end == std::string_view::npos) return wrong("epi: the closing quote is missing");
  if (end + 1 != value.size()) {
    return wrong(fmt::format("epi: comes last, but '{}' follows", shown(value.substr(end + 1))));
  }
  return value.substr(1, end - 1);
}

// One key=value from the front of `rest`, which follows a colon.
Parsed read_next_key(std::string_view* rest, std::set<std::string_view>* seen, Problem* p) {
  const std::size_t colon = rest->find(':');
  const std::size_t equals = rest->substr(0, colon).find('=');
  if (equals == std::string_view::npos) {
    return wrong(fmt::format("'{}' is not key=value", shown(rest->substr(0, colon))));
  }
  const std::string_view key = rest->substr(0, equals);
  if (!seen->insert(key).second) return wrong(fmt::format("{}: stated twice", shown(key)));
  if (key == "epi") {
    const Result<std::string_view> value = unquoted(rest->substr(equals + 1));
    *rest = {};
    if (!value) return tl::unexpected<Error>(value.error());
    return read_key(key, *value, p);
  }
  const std::string_view value = rest->substr(equals + 1, colon - equals - 1);
  *rest = colon == std::string_view::npos ? std::string_view{} : rest->substr(colon + 1);
  if (colon != std::string_view::npos && rest->empty()) {
    return wrong("the text ends with ':', key=value was expected");
  }
  return read_key(key, value, p);
}

}  // namespace

Result<Problem> Problem::parse(std::string_view text) {
  text = trim(text);
  if (text.empty()) return wrong("the problem is empty; write for example 16x4096x4096:bf16");
  if (text.size() > kMaxLength) {
    return wrong(fmt::format("the problem text is longer than {} characters", kMaxLength));
  }
  Problem p;
  const std::size_t colon = text.find(':');
  if (Parsed r = read_sizes(text.substr(0, colon), &p); !r) return tl::unexpected(r.error());
  if (colon == std::string_view::npos) {
    return wrong(fmt::format("the dtype is missing; write for example {}:bf16", shown(text)));
  }
  std::string_view rest = text.substr(colon + 1);
  const std::size_t keys = rest.find(':');
  if (Parsed r = read_dtypes(rest.substr(0, keys), &p); !r) return tl::unexpected(r.error());
  if (keys != std::string_view::npos) {
    rest = rest.substr(keys + 1);
    std::set<std::string_view> seen;
    do {
      if (Parsed r = read_next_key(&rest, &seen, &p); !r) return tl::unexpected(r.error());
    } while (!rest.empty());
  }
  return p.validated();
}

}  // namespace culet

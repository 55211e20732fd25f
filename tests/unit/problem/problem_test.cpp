// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// Problem text, its rules and what follows from a problem.
#include "culet/problem.h"

#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <random>

#include "base/files.h"
#include "random_epilogue.h"

namespace culet {
namespace {

Problem parsed(std::string_view text) {
  const auto p = Problem::parse(text);
  EXPECT_TRUE(p) << text << ": " << (p ? "" : p.error().message);
  return p.value_or(Problem());
}

std::string error_of(std::string_view text) {
  const auto p = Problem::parse(text);
  EXPECT_FALSE(p) << text;
  if (p) return "";
  EXPECT_EQ(p.error().code, ErrorCode::invalid_argument);
  const std::string& message = p.error().message;
  EXPECT_FALSE(message.empty());
  EXPECT_LT(message.size(), 300u) << "one clear line";
  EXPECT_EQ(message.find('\n'), std::string::npos);
  return message;
}

TEST(Dtypes, NamesRoundTrip) {
  for (int i = 0; i < 12; ++i) {
    const auto dtype = static_cast<DType>(i);
    EXPECT_EQ(parse_dtype(to_string(dtype)).value(), dtype);
  }
  EXPECT_FALSE(parse_dtype("BF16"));
  EXPECT_FALSE(parse_dtype(""));
}

TEST(Dtypes, Sizes) {
  EXPECT_EQ(bits(DType::e2m1), 4);
  EXPECT_EQ(bytes(DType::e2m1, 3), 2);
  EXPECT_EQ(bytes(DType::tf32, 3), 12);
  EXPECT_EQ(bytes(DType::f64, std::int64_t{1} << 40), std::int64_t{1} << 43);
  EXPECT_TRUE(is_integer(DType::u8));
  EXPECT_FALSE(is_integer(DType::e4m3));
  EXPECT_EQ(significand_bits(DType::f32), 24);
  EXPECT_EQ(significand_bits(DType::bf16), 8);
  EXPECT_EQ(significand_bits(DType::e5m2), 3);
  EXPECT_EQ(significand_bits(DType::s8), 0);
}

TEST(ProblemText, Defaults) {
  const Problem p = parsed("16x4096x1024:bf16");
  EXPECT_EQ(p.m, 16);
  EXPECT_EQ(p.n, 4096);
  EXPECT_EQ(p.k, 1024);
  EXPECT_EQ(p.batch, 1);
  EXPECT_EQ(p.b, DType::bf16);
  EXPECT_EQ(p.d, DType::bf16);
  EXPECT_EQ(p.a_order, Order::row_major);
  EXPECT_EQ(p.b_order, Order::col_major);
  EXPECT_EQ(p.lda, 1024);
  EXPECT_EQ(p.ldb, 1024);
  EXPECT_EQ(p.ldd, 4096);
  EXPECT_EQ(p.stride_a, 0);
  EXPECT_EQ(p.align_a, 16);
  EXPECT_EQ(p.m_range, (MRange{16, 16}));
  EXPECT_FALSE(p.const_b || p.pack_b || p.deterministic);
  EXPECT_TRUE(p.epilogue.is_identity());
  const std::pair<const char*, DType> results[] = {
      {"f64", DType::f64},   {"f32", DType::f32},        {"tf32", DType::f32},  {"f16", DType::f16},
      {"bf16", DType::bf16}, {"e4m3", DType::bf16},      {"e5m2", DType::bf16}, {"s8", DType::s32},
      {"u8", DType::s32},    {"e4m3*e5m2", DType::bf16}, {"u8*s8", DType::s32}};
  for (const auto& [text, d] : results)
    EXPECT_EQ(parsed(std::string("4x4x4:") + text).d, d) << text;
  EXPECT_EQ(parsed("4x4x4:s8").accumulate, Accumulate::s32);
  EXPECT_EQ(parsed("4x4x4:f64").accumulate, Accumulate::f64);
  EXPECT_EQ(parsed("4x4x4:e4m3").accumulate, Accumulate::f32);
}

TEST(ProblemText, CanonicalForm) {
  const std::pair<const char*, const char*> cases[] = {
      {" 16x4096x4096:bf16\n", "16x4096x4096:bf16"},
      {"16x32x64x1:bf16*bf16>bf16:layout=tn", "16x32x64:bf16"},
      {"4x4x4:s8*s8>s32:acc=s32", "4x4x4:s8"},
      {"4x8x16:f16*f16>f32:lda=16:ldb=16:ldd=8", "4x8x16:f16>f32"},
      {"4x8x16:f16:ldd=9:lda=20:layout=tt", "4x8x16:f16:layout=tt:lda=20:ldd=9"},
      {"4x8x16x3:f16:strided=32:stridea=64:strideb=0", "4x8x16x3:f16:strideb=0"},
      {"4x8x16:f16:aligna=16:alignb=2:alignd=256", "4x8x16:f16:alignb=2:alignd=256"},
      {"4x8x16:e4m3:acc=fast", "4x8x16:e4m3:acc=fast"},
      {"4x8x16:f16:m=4..4", "4x8x16:f16"},
      {"4x8x16:f16:m=4", "4x8x16:f16"},
      {"4x8x16:f16:pack=b:const=b:order=deterministic:m=1..64",
       "4x8x16:f16:m=1..64:order=deterministic:const=b:pack=b"},
      {"4x8x16:f16:epi=\"acc\"", "4x8x16:f16"},
      {"4x8x16:f16:epi=relu( acc+b[n]:f32 )", "4x8x16:f16:epi=\"relu(acc + b[n]:f32)\""},
      {"4x8x16:f16:epi=\"acc + b[n]:f16\"", "4x8x16:f16:epi=\"acc + b[n]\""},
      {"512x512x512x8:f16*f16>f32:layout=nt:epi=\"relu(acc + bias[n])\"",
       "512x512x512x8:f16>f32:layout=nt:epi=\"relu(acc + bias[n])\""},
  };
  for (const auto& [text, canonical] : cases) {
    EXPECT_EQ(parsed(text).text(), canonical);
    EXPECT_EQ(parsed(canonical).text(), canonical);
  }
}

TEST(ProblemText, OperandsTakeTheDtypeOfD) {
  EXPECT_EQ(parsed("4x4x4:e4m3:epi=acc+b[n]").epilogue.operands()[0].dtype, DType::bf16);
  EXPECT_EQ(parsed("4x4x4:e4m3>f32:epi=acc+b[n]").epilogue.operands()[0].dtype, DType::f32);
}

TEST(ProblemText, EveryRuleHasItsMessage) {
  const std::pair<const char*, const char*> cases[] = {
      {"", "the problem is empty"},
      {"x", "size: 'x' is not MxNxK"},
      {"4x4:bf16", "size: '4x4' is not MxNxK"},
      {"4x4x4x4x4:bf16", "is not MxNxK or MxNxKxBATCH"},
      {"ax4x4:bf16", "m: 'a' is not a whole number"},
      {"4x1.5x4:bf16", "n: '1.5' is not a whole number"},
      {"4x4x:bf16", "k: '' is not a whole number"},
      {"-3x4x4:bf16", "m: -3 is negative"},
      {"4x4x4x-1:bf16", "batch: -1 is negative"},
      {"1099511627776x4x4:bf16", "m: 1099511627776 is larger than 2147483647"},
      {"4x4x99999999999999999999999:bf16", "k: 99999999999999999999999 is too large"},
      {"4x4x4", "the dtype is missing; write for example 4x4x4:bf16"},
      {"4x4x4:", "a: unknown dtype ''"},
      {"4x4x4:q8", "a: unknown dtype 'q8'; known: f64 f32"},
      {"4x4x4:f16*", "b: unknown dtype ''"},
      {"4x4x4:f16>x", "d: unknown dtype 'x'"},
      {"4x4x4:s32", "a: s32 is a dtype of results"},
      {"4x4x4:e2m1", "a: e2m1 needs scales"},
      {"4x4x4:bf16*e8m0", "b: e8m0 needs scales"},
      {"4x4x4:s8*bf16", "b: s8*bf16 cannot be multiplied"},
      {"4x4x4:f16*bf16", "b: f16*bf16 cannot be multiplied"},
      {"4x4x4:bf16>s8", "d: s8 needs integer operands, not bf16"},
      {"4x4x4:f32>tf32", "d: tf32 is a dtype of inputs"},
      {"4x4x4:f32>f64", "d: f64 from f32 operands"},
      {"4x4x4:f64>f32", "d: f32 from f64 operands"},
      {"4x4x4:bf16>e2m1", "d: e2m1 needs scales"},
      {"4x4x4:bf16:", "'' is not key=value"},
      {"4x4x4:bf16::lda=4", "'' is not key=value"},
      {"4x4x4:bf16:lda=4:", "the text ends with ':'"},
      {"4x4x4:bf16:foo", "'foo' is not key=value"},
      {"4x4x4:bf16:foo=1", "unknown key 'foo'; known: layout lda ldb"},
      {"4x4x4:bf16:=1", "unknown key ''"},
      {"4x4x4:bf16:sa=f32", "sa: this key is reserved"},
      {"4x4x4:bf16:group=m/8", "group: this key is reserved"},
      {"4x4x4:bf16:lda=4:lda=4", "lda: stated twice"},
      {"4x4x4:bf16:layout=xx", "layout: 'xx' is not tn, tt, nn or nt"},
      {"4x4x4:bf16:layout=t", "layout: 't' is not"},
      {"16x16x4096:bf16:lda=100", "lda: 100 is smaller than the row length 4096 of A"},
      {"16x16x4096:bf16:layout=nn:lda=8", "lda: 8 is smaller than the column length 16 of A"},
      {"16x16x4096:bf16:ldb=8", "ldb: 8 is smaller than the column length 4096 of B"},
      {"16x16x4096:bf16:ldd=15", "ldd: 15 is smaller than the row length 16 of D"},
      {"4x4x4:bf16:lda=0", "lda: 0 is not a leading dimension"},
      {"4x4x4:bf16:lda=-4", "lda: -4 is negative"},
      {"4x4x4:bf16:lda=x", "lda: 'x' is not a whole number"},
      {"4x4x4:bf16:lda=999999999999999999", "lda: 999999999999999999 is larger than 2^58"},
      {"4x4x4:bf16:stridea=16", "stridea: there is no batch"},
      {"4x4x4x2:bf16:stridea=-1", "stridea: -1 is negative"},
      {"4x4x4x2:bf16:strided=15", "strided: 15 makes the batches of D overlap"},
      {"4x4x4x2:bf16:strided=0", "strided: 0 makes the batches of D overlap"},
      {"2147483647x2147483647x1x9:bf16", "2^58"},
      {"2147483647x1x2147483647:bf16", "a: spans more than 2^58 elements"},
      {"4x4x4:bf16:aligna=3", "aligna: 3 is not a power of two"},
      {"4x4x4:bf16:alignd=0", "alignd: 0 is not a power of two"},
      {"4x4x4:bf16:aligna=-16", "is not a power of two"},
      {"4x4x4:bf16:alignd=8192", "alignd: 8192 is larger than 4096 bytes"},
      {"4x4x4:f64:alignb=4", "alignb: 4 is below the 8 bytes of a f64 element"},
      {"4x4x4:bf16:aligna=99999999999", "aligna: 99999999999 is larger than 2^30"},
      {"4x4x4:bf16:acc=f8", "acc: 'f8' is not f32, fast"},
      {"4x4x4:bf16:acc=fast", "acc: fast does not go with bf16 operands, which accumulate in f32"},
      {"4x4x4:s8:acc=f32", "acc: f32 does not go with s8 operands"},
      {"4x4x4:f64:acc=f32", "acc: f32 does not go with f64 operands"},
      {"4x4x4:f32:acc=f16", "acc: f16 does not go with f32 operands"},
      {"4x4x4:f16:acc=s32", "accumulate in f32 or f16"},
      {"100x4x4:bf16:m=1..64", "m: the leading M 100 is outside the range 1..64"},
      {"4x4x4:bf16:m=0..0", "m: the leading M 4 is outside the range 0..0"},
      {"4x4x4:bf16:m=8..2", "m: 8..2 is not a range"},
      {"4x4x4:bf16:m=-1..8", "m: -1..8 is not a range"},
      {"4x4x4:bf16:m=1..", "m: '' is not a whole number"},
      {"4x4x4:bf16:m=1..9999999999", "m: 9999999999 is larger than"},
      {"4x4x4:bf16:order=fast", "order: 'fast' is not 'deterministic'"},
      {"4x4x4:bf16:const=a", "const: 'a' is not 'b'"},
      {"4x4x4:bf16:pack=", "pack: '' is not 'b'"},
      {"4x4x4:bf16:epi=\"acc", "epi: the closing quote is missing"},
      {"4x4x4:bf16:epi=\"acc\":lda=8", "epi: comes last, but ':lda=8' follows"},
      {"4x4x4:bf16:epi=acc\"", "epi: a quote within the value"},
      {"4x4x4:bf16:epi=", "epi: column 1"},
      {"4x4x4:bf16:epi=\"acc + \"", "epi: column 7"},
  };
  for (const auto& [text, expected] : cases) {
    EXPECT_NE(error_of(text).find(expected), std::string::npos)
        << text << "\n  gave:   " << error_of(text) << "\n  wanted: " << expected;
  }
  EXPECT_NE(error_of(std::string(9000, 'x')).find("longer than 8192"), std::string::npos);
}

TEST(ProblemRules, ZeroSizesAreValid) {
  for (const char* text : {"0x4x4:bf16", "4x0x4:bf16", "4x4x0:bf16", "0x0x0:bf16", "4x4x4x0:bf16",
                           "0x0x0x0:f32:layout=nt", "4x4x0x3:bf16"}) {
    const Problem p = parsed(text);
    EXPECT_GE(p.lda, 1) << text;
    EXPECT_GE(p.ldb, 1);
    EXPECT_GE(p.ldd, 1);
    EXPECT_EQ(p.flops(), 0);
    EXPECT_EQ(p.text(), text);
  }
  EXPECT_TRUE(parsed("0x4x4:bf16").is_empty());
  EXPECT_TRUE(parsed("4x4x4x0:bf16").is_empty());
  EXPECT_FALSE(parsed("4x4x0:bf16").is_empty()) << "D is the epilogue of zero";
  EXPECT_EQ(parsed("4x4x0:bf16").span_a(), 0);
  EXPECT_EQ(parsed("4x4x0:bf16").span_d(), 16);
}

TEST(ProblemRules, BatchesOfDMayLieBesideEachOther) {
  const Problem p = parsed("4x8x16x3:bf16:ldd=24:strided=8");
  EXPECT_EQ(p.span_d(), 2 * 8 + 3 * 24 + 8);
  error_of("4x8x16x3:bf16:ldd=23:strided=8");
}

TEST(ProblemRules, ValidatingTwiceChangesNothing) {
  for (const char* text : {"4x8x16x3:f16:strideb=0", "4x8x16x3:f16:stridea=0:layout=nn:m=1..9",
                           "4x4x4:s8", "0x4x4x2:f64"}) {
    const Problem p = parsed(text);
    const auto again = p.validated();
    ASSERT_TRUE(again);
    EXPECT_EQ(again->text(), p.text());
    EXPECT_EQ(again->stride_b, p.stride_b);
    EXPECT_EQ(again->stride_a, p.stride_a);
  }
}

TEST(ProblemRules, ProblemsMadeByHand) {
  Problem p;
  p.m = 4, p.n = 8, p.k = 16, p.batch = 2;
  p.a = p.b = DType::s8;
  p.d = DType::s32;
  const auto valid = p.validated();
  ASSERT_TRUE(valid) << valid.error().message;
  EXPECT_EQ(valid->accumulate, Accumulate::s32);
  EXPECT_EQ(valid->stride_a, 64);
  EXPECT_EQ(valid->stride_d, 32);
  EXPECT_EQ(valid->text(), "4x8x16x2:s8");
  EXPECT_EQ(p.text(), valid->text());
  p.align_a = 24;
  EXPECT_FALSE(p.validated());
}

TEST(ProblemRules, WithM) {
  const Problem p = parsed("16x32x64x2:bf16:layout=nn");
  const Problem q = p.with_m(40).value();
  EXPECT_EQ(q.lda, 40) << "tight stays tight";
  EXPECT_EQ(q.stride_d, 40 * 32);
  EXPECT_EQ(q.m_range, (MRange{40, 40}));
  EXPECT_EQ(q.text(), "40x32x64x2:bf16:layout=nn");
  EXPECT_EQ(parsed("16x32x64:bf16:layout=nn:lda=100").with_m(40)->lda, 100);
  EXPECT_FALSE(parsed("16x32x64:bf16:layout=nn:lda=100").with_m(140));
  EXPECT_FALSE(p.with_m(-1));
  EXPECT_TRUE(p.with_m(0));

  const Problem ranged = parsed("16x32x64:bf16:layout=nn:m=1..64");
  EXPECT_EQ(ranged.lda, 64) << "one memory layout for the whole range";
  EXPECT_EQ(ranged.with_m(64)->text(), "64x32x64:bf16:layout=nn:m=1..64");
  EXPECT_EQ(ranged.with_m(1)->lda, 64);
  const auto outside = ranged.with_m(65);
  ASSERT_FALSE(outside);
  EXPECT_NE(outside.error().message.find("m: 65 is outside the range 1..64"), std::string::npos);
}

TEST(ProblemFigures, FlopsAndBytes) {
  const Problem p = parsed("16x4096x1024:bf16");
  EXPECT_EQ(p.flops(), 2.0 * 16 * 4096 * 1024);
  EXPECT_EQ(p.compulsory_bytes(), 2.0 * (16 * 1024 + 4096 * 1024 + 16 * 4096));
  EXPECT_EQ(parsed("4x8x16x10:f32:strideb=0").compulsory_bytes(),
            4.0 * (10 * 4 * 16 + 8 * 16 + 10 * 4 * 8));
  EXPECT_EQ(
      parsed("4x8x16x10:e4m3>f32:epi=acc*s+b[n]+r[m]+c[m,n]:bf16").compulsory_bytes(),
      10 * 4 * 16 + 10 * 8 * 16 + 4 * (10 * 4 * 8) + 4 * 1 + 4 * 8 + 4 * 4 + 2 * (10 * 4 * 8));
  EXPECT_GT(parsed("2147483647x65536x65536:bf16").flops(), 1.8e19);
}

TEST(ProblemFigures, Spans) {
  const Problem p = parsed("4x8x16x3:bf16:layout=nt:lda=10:ldb=20:ldd=30:stridea=1000");
  EXPECT_EQ(p.span_a(), 2 * 1000 + 15 * 10 + 4);
  EXPECT_EQ(p.span_b(), 2 * (16 * 20) + 15 * 20 + 8);
  EXPECT_EQ(p.span_d(), 2 * (4 * 30) + 3 * 30 + 8);
}

TEST(ProblemFigures, HashIsStable) {
  EXPECT_EQ(hash(parsed("16x32x64:bf16")), hash(parsed("16x32x64:bf16*bf16:layout=tn")));
  EXPECT_NE(hash(parsed("16x32x64:bf16")), hash(parsed("16x32x65:bf16")));
}

// A random valid problem, built field by field.
class RandomProblem {
 public:
  explicit RandomProblem(std::uint64_t seed) : epilogues_(seed) {}

  Problem next() {
    static constexpr DType kPairs[][2] = {{DType::bf16, DType::bf16}, {DType::f16, DType::f16},
                                          {DType::f32, DType::f32},   {DType::f64, DType::f64},
                                          {DType::tf32, DType::tf32}, {DType::e4m3, DType::e5m2},
                                          {DType::u8, DType::s8},     {DType::s8, DType::s8}};
    Problem p;
    p.m = size(), p.n = size(), p.k = size();
    p.batch = pick(3) == 0 ? pick(5) : 1;
    const auto& pair = kPairs[pick(8)];
    p.a = pair[0], p.b = pair[1];
    p.d = result(p.a);
    p.a_order = static_cast<Order>(pick(2));
    p.b_order = static_cast<Order>(pick(2));
    if (p.a == DType::e4m3 && pick(2) == 0) p.accumulate = Accumulate::fast;
    if (pick(4) == 0) p.m_range = {p.m - pick(static_cast<int>(p.m) + 1), p.m + pick(100)};
    p = p.validated().value();
    if (pick(3) == 0) p.lda += pick(9);
    if (pick(3) == 0) p.ldb += pick(9);
    if (pick(3) == 0) p.ldd += pick(9);
    if (p.batch > 1) {
      p.stride_a = pick(2) == 0 ? 0 : -1;
      p.stride_b = pick(2) == 0 ? pick(1000) : -1;
      p.stride_d = -1;
    }
    if (pick(3) == 0) p.align_a = 8 << pick(6);
    if (pick(3) == 0) p.align_d = 8 << pick(6);
    p.const_b = pick(2) == 0;
    p.pack_b = pick(4) == 0;
    p.deterministic = pick(4) == 0;
    if (pick(2) == 0) {
      const auto tree = epilogues_.expression(4);
      p.epilogue = Epilogue::parse(epilogues_.print(*tree), p.d).value();
    }
    return p.validated().value();
  }

  int pick(int count) { return epilogues_.pick(count); }

 private:
  std::int64_t size() { return pick(6) == 0 ? pick(3) : pick(5000); }
  DType result(DType a) {
    if (a == DType::f64) return a;
    static constexpr DType kFloats[] = {DType::f32, DType::f16, DType::bf16};
    static constexpr DType kIntegers[] = {DType::s32, DType::s8, DType::f32};
    return is_integer(a) ? kIntegers[pick(3)] : kFloats[pick(3)];
  }
  testing_support::RandomEpilogue epilogues_;
};

TEST(ProblemProperties, TextRoundTrips) {
  RandomProblem random(11);
  for (int i = 0; i < 4000; ++i) {
    const Problem p = random.next();
    const std::string text = p.text();
    const auto q = Problem::parse(text);
    ASSERT_TRUE(q) << text << ": " << q.error().message;
    ASSERT_EQ(q->text(), text);
    // Not only the text: every field.
    ASSERT_EQ(q->lda, p.lda) << text;
    ASSERT_EQ(q->ldb, p.ldb) << text;
    ASSERT_EQ(q->ldd, p.ldd) << text;
    ASSERT_EQ(q->stride_a, p.stride_a) << text;
    ASSERT_EQ(q->stride_b, p.stride_b) << text;
    ASSERT_EQ(q->stride_d, p.stride_d) << text;
    ASSERT_EQ(q->m_range, p.m_range) << text;
    ASSERT_EQ(q->accumulate, p.accumulate) << text;
    ASSERT_EQ(q->align_a, p.align_a) << text;
    ASSERT_EQ(q->align_d, p.align_d) << text;
    ASSERT_EQ(hash(*q), hash(p));
    ASSERT_TRUE(*q == p);
  }
}

// Valid texts with bytes replaced, removed, inserted and doubled: no input may crash the parser,
// take long, or be accepted and then not print back.
TEST(ProblemProperties, SurvivesDamagedText) {
  RandomProblem random(12);
  std::mt19937_64 bytes(13);
  std::vector<std::string> seeds;
  for (int i = 0; i < 200; ++i) seeds.push_back(random.next().text());
  static constexpr std::string_view kAlphabet =
      "0123456789x:=*>.\"()[],+-/;abcdefmnkst_ \n\t\0\xff";
  int accepted = 0;
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < 100000; ++i) {
    std::string text = seeds[bytes() % seeds.size()];
    for (int edits = 1 + static_cast<int>(bytes() % 4); edits > 0 && !text.empty(); --edits) {
      const std::size_t at = bytes() % text.size();
      const char byte = kAlphabet[bytes() % (kAlphabet.size())];
      switch (bytes() % 4) {
        case 0:
          text[at] = byte;
          break;
        case 1:
          text.erase(at, 1 + bytes() % 3);
          break;
        case 2:
          text.insert(at, 1, byte);
          break;
        default:
          text.insert(at, text.substr(at, bytes() % 20));
          break;
      }
    }
    const auto p = Problem::parse(text);
    if (!p) {
      ASSERT_FALSE(p.error().message.empty());
      ASSERT_LT(p.error().message.size(), 400u);
      continue;
    }
    ++accepted;
    const auto q = Problem::parse(p->text());
    ASSERT_TRUE(q) << p->text() << ": " << q.error().message;
    ASSERT_EQ(q->text(), p->text());
  }
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  EXPECT_GT(accepted, 1000);
  EXPECT_LT(accepted, 99000);
  EXPECT_LT(took.count(), 60);
}

TEST(ProblemProperties, LongTextsTakeNoLongTime) {
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < 200; ++i) {
    std::string sum = "acc", many = "4x4x4:bf16", nested;
    while (sum.size() < 4090) sum += "+s";
    while (many.size() < 8000) many += ":lda=4";
    for (int j = 0; j < 99; ++j) nested += "max(acc,";
    Problem::parse("4x4x4:bf16:epi=" + sum);
    Problem::parse(many);
    Problem::parse("4x4x4:bf16:epi=" + nested + "1" + std::string(99, ')'));
    Problem::parse(std::string(8000, ':'));
    Problem::parse("4x4x4:bf16:epi=" + std::string(4000, '('));
  }
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  EXPECT_LT(took.count(), 20);
}

class Shapes : public testing::Test {
 protected:
  void SetUp() override { folder_.emplace(TemporaryFolder::make().value()); }
  std::string file(const std::string& text) {
    const std::string path = folder_->path() + "/x.shapes";
    EXPECT_TRUE(write_file_atomically(path, text));
    return path;
  }
  std::optional<TemporaryFolder> folder_;
};

TEST_F(Shapes, ReadsCommentsQuotesAndLineEnds) {
  const auto problems = read_shapes(file(
      "# a comment\n\n  16x32x64:bf16   # qkv\r\n4x4x4:f32:epi=\"acc + c[m,n]\"#x\n8x8x8:f16"));
  ASSERT_TRUE(problems) << problems.error().message;
  ASSERT_EQ(problems->size(), 3u);
  EXPECT_EQ((*problems)[1].text(), "4x4x4:f32:epi=\"acc + c[m,n]\"");
}

TEST_F(Shapes, ErrorsNameFileAndLine) {
  const std::string path = file("16x32x64:bf16\n# x\n16x32:bf16\n");
  const auto problems = read_shapes(path);
  ASSERT_FALSE(problems);
  EXPECT_EQ(problems.error().code, ErrorCode::invalid_argument);
  EXPECT_EQ(problems.error().message, path + ":3: size: '16x32' is not MxNxK or MxNxKxBATCH");
  const auto missing = read_shapes(path + ".missing");
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().code, ErrorCode::io);
  EXPECT_FALSE(read_shapes(file("# nothing\n")));
}

}  // namespace
}  // namespace culet

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// Text helpers, units, tables and exit statuses.
#include "base/text.h"

#include <gtest/gtest.h>

#include "base/table.h"
#include "base/units.h"
#include "culet/error.h"

namespace culet {
namespace {

TEST(Text, Trim) {
  EXPECT_EQ(trim("  a b\t\r\n"), "a b");
  EXPECT_EQ(trim(" \t "), "");
  EXPECT_EQ(trim(""), "");
}

TEST(Text, Split) {
  EXPECT_EQ(split("a,,b", ',').size(), 3u);
  EXPECT_EQ(split("", ',').size(), 1u);
  EXPECT_EQ(split("a,", ',').back(), "");
}

TEST(Text, ParseInt) {
  std::int64_t value = 0;
  EXPECT_EQ(parse_int("-12", &value), IntParse::ok);
  EXPECT_EQ(value, -12);
  for (const char* bad : {"", "-", "1x", " 1", "+1", "1.0", "0x10"}) {
    EXPECT_EQ(parse_int(bad, &value), IntParse::not_a_number) << bad;
  }
  EXPECT_EQ(parse_int("9223372036854775808", &value), IntParse::too_large);
  EXPECT_EQ(parse_int("9223372036854775808x", &value), IntParse::not_a_number);
}

TEST(Text, ShownIsOnePrintableLine) {
  EXPECT_EQ(shown("a\nb\x80"), "a?b?");
  EXPECT_EQ(shown("abcdef", 3), "abc...");
}

TEST(Units, ThreeDigits) {
  EXPECT_EQ(format_seconds(12.34e-6), "12.3 us");
  EXPECT_EQ(format_seconds(1.05), "1.05 s");
  EXPECT_EQ(format_seconds(999.7e-6), "1.00 ms");
  EXPECT_EQ(format_seconds(0), "0.00 ns");
  EXPECT_EQ(format_seconds(123e-9), "123 ns");
  EXPECT_EQ(format_bytes(64), "64 B");
  EXPECT_EQ(format_bytes(1.5 * (1 << 30)), "1.50 GiB");
  EXPECT_EQ(format_ratio(1.0789), "1.08x");
}

TEST(Table, AlignsColumns) {
  TextTable table({"name", "us"}, {TextTable::Align::left, TextTable::Align::right});
  table.add_row({"a", "1.0"});
  table.add_rule();
  table.add_row({"\x1b[1mlonger\x1b[0m", "12.5"});
  table.add_row({"\xc3\xa9"});
  EXPECT_EQ(table.text(),
            "name      us\n"
            "------  ----\n"
            "a        1.0\n"
            "------  ----\n"
            "\x1b[1mlonger\x1b[0m  12.5\n"
            "\xc3\xa9\n");
}

TEST(Errors, ExitStatuses) {
  EXPECT_EQ(exit_status(ErrorCode::invalid_argument), 2);
  EXPECT_EQ(exit_status(ErrorCode::unsupported), 3);
  EXPECT_EQ(exit_status(ErrorCode::no_candidate), 3);
  EXPECT_EQ(exit_status(ErrorCode::wrong_result), 4);
  EXPECT_EQ(exit_status(ErrorCode::device), 5);
  EXPECT_EQ(exit_status(ErrorCode::build_failed), 5);
  EXPECT_EQ(exit_status(ErrorCode::io), 6);
  EXPECT_EQ(exit_status(ErrorCode::regression), 7);
  EXPECT_EQ(exit_status(ErrorCode::out_of_budget), 124);
  EXPECT_EQ(exit_status(ErrorCode::interrupted), 130);
}

}  // namespace
}  // namespace culet

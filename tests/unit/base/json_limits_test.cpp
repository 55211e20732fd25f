// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// Texts that are not given to the JSON library, and those just within the limits.
#include "base/json_limits.h"

#include <gtest/gtest.h>

namespace culet {
namespace {

std::string repeated(const std::string& part, int times) {
  std::string text;
  for (int i = 0; i < times; ++i) text += part;
  return text;
}

TEST(JsonLimits, Depth) {
  EXPECT_EQ(beyond_json_limits(repeated("[", 100) + repeated("]", 100)), "");
  EXPECT_EQ(beyond_json_limits(repeated("[", 101)),
            "line 1, column 101: nested more than 100 deep");
  EXPECT_EQ(beyond_json_limits(repeated("{\"a\":\n", 101)),
            "line 101, column 1: nested more than 100 deep");
  EXPECT_EQ(beyond_json_limits("[" + repeated("[{}],", 1000)), "") << "wide is not deep";
  EXPECT_EQ(beyond_json_limits("\"" + repeated("[{:\\\"", 1000) + "\""), "") << "a string";
  EXPECT_NE(beyond_json_limits("[\"\\\\\"," + repeated("[", 101)), "") << "after a string";
  EXPECT_EQ(beyond_json_limits(repeated("]", 1000) + repeated("[", 100)), "");
}

TEST(JsonLimits, NamesOfAnObject) {
  const auto object = [](int names) {
    return "{" + repeated("\"a\": 1,", names - 1) + "\"a\": 1}";
  };
  EXPECT_EQ(beyond_json_limits(object(256)), "");
  EXPECT_EQ(beyond_json_limits(object(257)),
            "line 1, column 1797: an object of more than 256 names");
  EXPECT_EQ(beyond_json_limits("[" + repeated(object(200) + ",", 3) + "]"), "") << "each its own";
  EXPECT_NE(beyond_json_limits("{\"x\": " + object(3) + "," + object(256).substr(1)), "")
      << "the outer one goes on";
  EXPECT_EQ(beyond_json_limits(repeated(":", 1000)), "") << "no object, no JSON";
}

TEST(JsonLimits, SyntaxErrorsBeforeALimitAreTheParsersToReport) {
  const std::string names = repeated("\"a\": \"b\",\n", 300), nested = repeated("[", 200);
  EXPECT_EQ(beyond_json_limits("{" + names),
            "line 257, column 4: an object of more than 256 names");
  EXPECT_EQ(beyond_json_limits("{\"x: 1,\n" + names), "") << "a lost quote";
  EXPECT_EQ(beyond_json_limits("{\"x\": 1 2," + names), "");
  EXPECT_EQ(beyond_json_limits("{\"x\": 1e999," + names), "") << "a number that fits no double";
  EXPECT_EQ(beyond_json_limits("{" + repeated("\"a\": 1,", 256) + "::"), "") << "at the limit";
  EXPECT_EQ(beyond_json_limits("{" + repeated("a: 1\n", 300)), "") << "YAML";
  EXPECT_EQ(beyond_json_limits("[1 " + nested), "");
  EXPECT_EQ(beyond_json_limits("[]" + nested), "");
  EXPECT_EQ(beyond_json_limits("[1, " + nested), "line 1, column 104: nested more than 100 deep");
}

TEST(JsonLimits, TextsThatAreCutOff) {
  for (const char* text : {"", "\"", "\"\\", "[\"", "{\"a", "{\"a\\\""}) {
    EXPECT_EQ(beyond_json_limits(text), "") << text;
  }
}

}  // namespace
}  // namespace culet

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// Epilogues as source text, kernel files and their includes, and the functions that kernels compute
// epilogues with.
#include "codegen/codegen.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

#include "kernels/epilogue_math.h"

namespace culet {
namespace {

std::string statements(std::string_view text, std::string_view type = "float") {
  const Epilogue e = Epilogue::parse(text).value();
  std::vector<std::string> operands;
  for (const EpilogueOperand& operand : e.operands()) operands.push_back("load_" + operand.name);
  return epilogue_statements(e, operands, type);
}

TEST(EpilogueStatements, AreStraightLineCode) {
  EXPECT_EQ(statements("acc"), "return acc;\n");
  EXPECT_EQ(statements("relu(acc + bias[n])"),
            "const float v1 = load_bias;\n"
            "const float v2 = acc + v1;\n"
            "const float v3 = culet_relu(v2);\n"
            "return v3;\n");
  EXPECT_EQ(statements("0.5*acc"), "const float v2 = 0.5f * acc;\nreturn v2;\n");
  EXPECT_EQ(statements("-acc - -3"),
            "const float v1 = -acc;\n"
            "const float v3 = v1 - (-3.0f);\n"
            "return v3;\n");
  EXPECT_EQ(statements("max(acc, rcp(s))"),
            "const float v1 = load_s;\n"
            "const float v2 = float(1) / v1;\n"
            "const float v3 = culet_max(acc, v2);\n"
            "return v3;\n");
}

TEST(EpilogueStatements, ShareSubexpressionsAndLoads) {
  const std::string text = statements("silu(acc + b[n]) * (acc + b[n]) + b[n]");
  EXPECT_EQ(text.find("load_b"), text.rfind("load_b")) << text;
  EXPECT_EQ(text.find("acc + "), text.rfind("acc + ")) << text;
}

TEST(EpilogueStatements, OtherTypes) {
  EXPECT_EQ(statements("0.1*acc", "double"),
            "const double v2 = double(0.10000000000000001) * acc;\nreturn v2;\n");
  EXPECT_EQ(statements("1000000*acc", "T"), "const T v2 = T(1000000.0) * acc;\nreturn v2;\n");
}

TEST(EpilogueStatements, LiteralsAreFloats) {
  EXPECT_NE(statements("1e30*acc").find("1.00000002e+30f"), std::string::npos);
  EXPECT_NE(statements("3*acc").find("3.0f"), std::string::npos);
  EXPECT_NE(statements("1e300*acc").find("(1e38f * 1e38f)"), std::string::npos);
}

TEST(EmbeddedKernels, AreFoundByName) {
  EXPECT_FALSE(embedded_kernel("epilogue_math.h").empty());
  EXPECT_EQ(embedded_kernel("no_such_file.h"), "");
  const auto names = embedded_kernel_names();
  EXPECT_NE(std::find(names.begin(), names.end(), "epilogue_math.h"), names.end());
}

TEST(EmbeddedKernels, FlattenLeavesNoIncludeOfOurs) {
  for (const std::string& name : embedded_kernel_names()) {
    const std::string flat = flatten(name);
    EXPECT_EQ(flat.find("#pragma once"), std::string::npos) << name;
    std::size_t at = 0;
    while ((at = flat.find("#include \"", at)) != std::string::npos) {
      const std::size_t start = at + 10;
      const std::string included = flat.substr(start, flat.find('"', start) - start);
      EXPECT_TRUE(embedded_kernel(included).empty()) << name << " still includes " << included;
      at = start;
    }
    EXPECT_GE(flat.size() + 16, embedded_kernel(name).size() / 2);
  }
  EXPECT_EQ(flatten("no_such_file.h"), "");
  const std::string user = flatten_text("#include \"layout.cuh\"\n#include <cmath>\nint x;\n");
  EXPECT_NE(user.find("struct Layout"), std::string::npos);
  EXPECT_EQ(user.find("#include \""), std::string::npos);
  EXPECT_NE(user.find("#include <cmath>\nint x;\n"), std::string::npos);
  EXPECT_EQ(flatten_text("int y;\n"), "int y;\n");
}

TEST(DeviceDtypes, HaveTheirTextNames) {
  EXPECT_EQ(device_dtype_name(DType::bf16), "bf16");
  EXPECT_EQ(device_dtype_name(DType::tf32), "tf32");
}

// --- epilogue_math.h, as the CPU compiles it ---

double worst_relative(const std::function<float(float)>& function,
                      const std::function<double(double)>& exact, double low, double high) {
  double worst = 0;
  constexpr int kSteps = 400000;
  for (int i = 0; i <= kSteps; ++i) {
    const auto x = static_cast<float>(low + (high - low) * i / kSteps);
    const double wanted = exact(x);
    worst = std::max(worst, std::abs(function(x) - wanted) / (std::abs(wanted) + 1e-37));
  }
  return worst;
}

TEST(EpilogueMath, IsAccurate) {
  const auto gelu = [](double x) { return 0.5 * x * std::erfc(-x * std::sqrt(0.5)); };
  const auto gelu_tanh = [](double x) {
    const double u = 0.79788456080286535588 * (x + 0.044715 * x * x * x);
    return x / (1 + std::exp(-2 * u));
  };
  const auto silu = [](double x) { return x / (1 + std::exp(-x)); };
  const auto sigmoid = [](double x) { return 1 / (1 + std::exp(-x)); };
  const auto f = [](float (*function)(float)) { return std::function<float(float)>(function); };
  EXPECT_LT(worst_relative(
                f([](float x) { return culet_exp(x); }), [](double x) { return std::exp(x); },
                -87.3, 88.7),
            2e-7);
  EXPECT_LT(
      worst_relative(
          f([](float x) { return culet_tanh(x); }), [](double x) { return std::tanh(x); }, -12, 12),
      3e-7);
  EXPECT_LT(worst_relative(f([](float x) { return culet_gelu(x); }), gelu, -5, 10), 1e-6);
  EXPECT_LT(worst_relative(f([](float x) { return culet_gelu(x); }), gelu, -12, -5), 1e-5);
  EXPECT_LT(worst_relative(f([](float x) { return culet_gelu_tanh(x); }), gelu_tanh, -5, 10), 4e-6);
  EXPECT_LT(worst_relative(f([](float x) { return culet_silu(x); }), silu, -80, 80), 3e-7);
  EXPECT_LT(worst_relative(f([](float x) { return culet_sigmoid(x); }), sigmoid, -80, 80), 3e-7);
}

TEST(EpilogueMath, EndsOfTheRange) {
  const float inf = std::numeric_limits<float>::infinity();
  EXPECT_EQ(culet_exp(-inf), 0);
  EXPECT_EQ(culet_exp(-200.0f), 0);
  EXPECT_EQ(culet_exp(inf), inf);
  EXPECT_EQ(culet_exp(89.0f), inf);
  EXPECT_TRUE(std::isfinite(culet_exp(88.72f)));
  EXPECT_EQ(culet_exp(0.0f), 1);
  EXPECT_EQ(culet_tanh(inf), 1);
  EXPECT_EQ(culet_tanh(-1e30f), -1);
  EXPECT_EQ(culet_sigmoid(-inf), 0);
  EXPECT_EQ(culet_gelu(1e30f), 1e30f);
  EXPECT_EQ(culet_gelu(-1e30f), 0);
  EXPECT_EQ(culet_gelu_tanh(-1e30f), 0);
  EXPECT_EQ(culet_silu(-1e30f), 0);
  EXPECT_TRUE(std::signbit(culet_tanh(-0.0f)));
}

TEST(EpilogueMath, NanPassesThrough) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  EXPECT_TRUE(std::isnan(culet_relu(nan)));
  EXPECT_TRUE(std::isnan(culet_max(nan, 1.0f)));
  EXPECT_TRUE(std::isnan(culet_max(1.0f, nan)));
  EXPECT_TRUE(std::isnan(culet_min(nan, 1.0f)));
  EXPECT_TRUE(std::isnan(culet_min(1.0f, nan)));
  EXPECT_TRUE(std::isnan(culet_exp(nan)));
  EXPECT_TRUE(std::isnan(culet_tanh(nan)));
  EXPECT_TRUE(std::isnan(culet_gelu(nan)));
  EXPECT_TRUE(std::isnan(culet_gelu_tanh(nan)));
  EXPECT_TRUE(std::isnan(culet_silu(nan)));
  EXPECT_TRUE(std::isnan(culet_sigmoid(nan)));
}

// What the expression language says and what kernels compute are the same functions.
TEST(EpilogueMath, AgreesWithTheReference) {
  struct Row {
    const char* text;
    float (*single)(float);
    double (*precise)(double);
  };
  const Row rows[] = {
      {"relu(acc)", [](float x) { return culet_relu(x); }, [](double x) { return culet_relu(x); }},
      {"gelu(acc)", [](float x) { return culet_gelu(x); }, [](double x) { return culet_gelu(x); }},
      {"gelu_tanh(acc)", [](float x) { return culet_gelu_tanh(x); },
       [](double x) { return culet_gelu_tanh(x); }},
      {"silu(acc)", [](float x) { return culet_silu(x); }, [](double x) { return culet_silu(x); }},
      {"sigmoid(acc)", [](float x) { return culet_sigmoid(x); },
       [](double x) { return culet_sigmoid(x); }},
      {"tanh(acc)", [](float x) { return culet_tanh(x); }, [](double x) { return culet_tanh(x); }},
      {"exp(acc)", [](float x) { return culet_exp(x); }, [](double x) { return culet_exp(x); }},
      {"abs(acc)", [](float x) { return culet_abs(x); }, [](double x) { return culet_abs(x); }},
      {"sqrt(abs(acc))", [](float x) { return culet_sqrt(culet_abs(x)); },
       [](double x) { return culet_sqrt(culet_abs(x)); }},
      {"max(acc, 0.5)", [](float x) { return culet_max(x, 0.5f); },
       [](double x) { return culet_max(x, 0.5); }},
      {"min(acc, 0.5)", [](float x) { return culet_min(x, 0.5f); },
       [](double x) { return culet_min(x, 0.5); }},
  };
  for (const Row& row : rows) {
    const Epilogue e = Epilogue::parse(row.text).value();
    for (int i = -400; i <= 400; ++i) {
      const float x = static_cast<float>(i) / 40;
      const double wanted = e.evaluate(x, {});
      ASSERT_NEAR(row.single(x), wanted, 1e-6 * std::abs(wanted) + 1e-7) << row.text << " " << x;
      ASSERT_NEAR(row.precise(x), wanted, 1e-14 * std::abs(wanted) + 1e-15) << row.text << " " << x;
    }
  }
}

}  // namespace
}  // namespace culet

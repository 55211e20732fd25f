// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// Tunes one problem, prints what was found, and runs the chosen kernel. A second run of this
// program compiles and times nothing: both are in the store.
//
//   example_02_tune_and_run [DEVICE [PROBLEM]]       (an f32 problem; the default device is "auto")
#include <cstdio>

#include "common/example.h"

namespace {

/// What a program with a display of its own does with the tuner's events.
class Narrator : public culet::Observer {
 public:
  void report(const culet::TuneReport& report) override {
    std::printf("%s: %s\n", report.problem.text().c_str(), report.why.c_str());
  }
  void warning(std::string_view text) override {
    std::printf("warning: %.*s\n", static_cast<int>(text.size()), text.data());
  }
};

}  // namespace

int main(int argc, char** argv) {
  const culet::DeviceSpec device = example::device_or_skip(argc > 1 ? argv[1] : "auto");
  const culet::Problem problem =
      example::must(culet::Problem::parse(argc > 2 ? argv[2] : "16x1024x512:f32"));

  culet::TuneOptions options;
  options.top = 3;  // candidates compiled and measured for each ranked backend
  culet::Tuner tuner(culet::Registry::standard(), device, options,
                     example::must(culet::open_cache()));
  Narrator narrator;
  const culet::TuneReport report = example::must(tuner.tune(problem, &narrator));
  std::fputs(culet::render({report}, tuner.counts(), culet::ReportFormat::table).c_str(), stdout);

  const culet::Plan plan = example::must(tuner.plan(problem));
  return example::run_and_check(plan, device) ? 0 : 1;
}

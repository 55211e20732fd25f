// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// Whatever is wrong with the input: one line that says what, where, and what would be right, and
// the documented exit status.
#include <filesystem>

#include "program.h"

namespace culet::testing_cli {
namespace {

constexpr int kUsage = 2, kDevice = 5, kIo = 6;

struct Case {
  const char* name;
  std::vector<std::string> arguments;
  int status;
  std::string part;
};

class BadInput : public Cli, public ::testing::WithParamInterface<Case> {};

TEST_P(BadInput, IsOneLineAndAStatus) {
  expect_error(run(GetParam().arguments), GetParam().status, GetParam().part);
}

const Case kCases[] = {
    {"UnknownDtype", {"tune", "16x16x16:bf17"}, kUsage, "unknown dtype 'bf17'; known: f64 f32"},
    {"UnknownKey", {"tune", "16x16x16:bf16:foo=1"}, kUsage, "unknown key 'foo'; known: layout"},
    {"NegativeSize", {"tune", "-1x16x16:bf16"}, kUsage, "m: -1 is negative"},
    {"NegativeSizeInside", {"tune", "16x-2x16:bf16"}, kUsage, "n: -2 is negative"},
    {"HugeSize", {"tune", "16x1099511627776x16:bf16"}, kUsage, "n: 1099511627776 is larger"},
    {"HugerThanAnyNumber", {"tune", "16x16x99999999999999999999:bf16"}, kUsage, "k:"},
    {"BadLayout", {"tune", "16x16x16:bf16:layout=xy"}, kUsage, "'xy' is not tn, tt, nn or nt"},
    {"LdaTooSmall", {"tune", "16x16x16:bf16:lda=4"}, kUsage, "lda: 4 is smaller than"},
    {"NoDtype", {"tune", "16x16x16"}, kUsage, "dtype is missing"},
    {"TwoSizes", {"tune", "16x16:bf16"}, kUsage, "is not MxNxK"},
    {"NoProblem", {"tune"}, kUsage, "no problem given"},
    {"NoProblemToExplain", {"explain"}, kUsage, "PROBLEM is required"},
    {"UnknownVerb", {"frobnicate"}, kUsage, "(see culet --help)"},
    {"UnknownOption", {"tune", "8x8x8:f32", "--frob"}, kUsage, "--frob"},
    {"MissingShapes", {"tune", "--shapes", "/nowhere/x.shapes"}, kIo, "/nowhere/x.shapes"},
    {"UnknownFormat", {"rank", "8x8x8:f32", "--format", "xml"}, kUsage, "table, json, csv, md"},
    {"UnknownBackend",
     {"rank", "8x8x8:f32", "--backends", "mkl"},
     kUsage,
     "unknown backend 'mkl'; known are vendor, cublaslt"},
    {"TopZero", {"rank", "8x8x8:f32", "--top", "0"}, kUsage, "--top: '0' is not"},
    {"NegativeBudget", {"tune", "8x8x8:f32", "--budget", "-1"}, kUsage, "--budget: '-1' is not"},
    {"BadSeed", {"tune", "8x8x8:f32", "--seed", "x"}, kUsage, "--seed: 'x' is not"},
    {"BadMemory", {"tune", "8x8x8:f32", "--max-memory", "0"}, kUsage, "--max-memory: '0'"},
    {"BadM", {"tune", "8x8x8:f32", "--m", "1,two"}, kUsage, "--m: 'two' is not a size"},
    {"NegativeM", {"tune", "8x8x8:f32", "--m", "-4"}, kUsage, "--m: '-4' is not a size"},
    {"UnknownDevice", {"rank", "8x8x8:f32", "--device", "gpu9"}, kUsage, "'gpu9'"},
    {"CpuThreadsZero", {"rank", "8x8x8:f32", "--device", "cpu:0"}, kUsage, "cpu:0"},
    {"DeviceOnlyDescribed",
     {"tune", "64x64x64:bf16", "--device", "h200"},
     kDevice,
     "is a description, not a device here"},
    {"OutputFolderMissing", {"rank", "8x8x8:f32", "-o", "/nowhere/x"}, kIo, "/nowhere"},
    {"OutputIsAFolder", {"rank", "8x8x8:f32", "-o", "/tmp"}, kIo, "'/tmp' is a folder"},
    {"DumpUnwritable", {"tune", "8x8x8:f32", "--dump", "/dev/null/x"}, kIo, "--dump"},
    // Below a file nobody, root included, can make a folder.
    {"CacheUnwritable", {"tune", "8x8x8:f32", "--cache", "/dev/null/x"}, kIo, "/dev/null"},
    {"CacheUnwritableToLookAt", {"cache", "ls", "--cache", "/dev/null/x"}, kIo, "/dev/null"},
    {"BadCandidate", {"bench", "8x8x8:f32", "--candidate", "foo{"}, kUsage, "--candidate"},
    {"CandidateOfAnotherSpace",
     {"bench", "8x8x8:f32", "--device", "cpu", "--cache", "none", "--candidate", "reference{x=1}"},
     kUsage,
     "culet rank"},
};

INSTANTIATE_TEST_SUITE_P(Cases, BadInput, ::testing::ValuesIn(kCases),
                         [](const auto& info) { return std::string(info.param.name); });

class BadFiles : public Cli {};

TEST_F(BadFiles, ShapesFileNamesTheLine) {
  write("my.shapes", "# fine\n16x16x16:bf16\n\n16x16x16:bf16:layout=zz  # not\n");
  expect_error(run({"rank", "--shapes", file("my.shapes")}), kUsage, "my.shapes:4: layout: 'zz'");
}

TEST_F(BadFiles, EmptyShapesFile) {
  write("my.shapes", "# nothing\n");
  expect_error(run({"rank", "--shapes", file("my.shapes")}), kUsage, "holds no problem");
}

TEST_F(BadFiles, ShapesIsAFolder) {
  expect_error(run({"rank", "--shapes", folder_}), kIo, folder_);
}

TEST_F(BadFiles, UnknownBackendInTheEnvironment) {
  expect_error(run({"rank", "8x8x8:f32"}, {{"CULET_BACKENDS", "mkl"}}), kUsage,
               "CULET_BACKENDS: unknown backend 'mkl'; known are");
}

TEST_F(BadFiles, BadNumberInTheEnvironment) {
  expect_error(run({"rank", "8x8x8:f32"}, {{"CULET_MAX_PROFILING_CONFIGS", "few"}}), kUsage,
               "CULET_MAX_PROFILING_CONFIGS: 'few'");
}

TEST_F(BadFiles, NoCudaDevice) {
  // Of a machine with GPUs, this is the one that is not there.
  expect_error(run({"tune", "64x64x64:bf16", "--device", "cuda:63"}), kDevice, "cuda:63");
}

TEST_F(BadFiles, CorruptCacheFileIsKeptAndTheRunGoesOn) {
  std::filesystem::create_directories(file("store"));
  write("store/culet.sqlite", "this is not a database");
  const Ended run1 = run(quick({"tune", "8x8x8:f32", "--cache", file("store")}));
  EXPECT_EQ(run1.status, 0) << run1.err;
  EXPECT_EQ(run1.err.rfind("culet: warning: cache: damaged file", 0), 0u) << run1.err;
  EXPECT_EQ(run1.err.find('\n'), run1.err.size() - 1) << run1.err;
  EXPECT_EQ(read(file("store/culet.sqlite.damaged")), "this is not a database");
  const Ended run2 = run(quick({"tune", "8x8x8:f32", "--cache", file("store")}));
  EXPECT_EQ(run2.status, 0);
  EXPECT_EQ(run2.err, "");
}

TEST_F(BadFiles, UnwritableDefaultStoreIsAWarning) {
  write("blocked", "a file where a folder should be");
  const Ended result = run(quick({"tune", "8x8x8:f32"}), {{"XDG_CACHE_HOME", file("blocked")}});
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_EQ(result.err.rfind("culet: warning: cache: ", 0), 0u) << result.err;
  EXPECT_NE(result.out.find("8x8x8:f32"), std::string::npos);
}

TEST_F(BadFiles, AnotherProgramsFileIsNotTouched) {
  std::filesystem::create_directories(file("store"));
  // A valid, empty database page of no application: SQLite's header and nothing else would do, but
  // garbage after it must not make it ours.
  std::string page("SQLite format 3\0\x10\0\x01\x01\0\x40\x20\x20", 24);
  page += std::string("\0\0\0\1\0\0\0\1", 8) + std::string(4064, '\0');
  write("store/culet.sqlite", page);
  const Ended result = run(quick({"tune", "8x8x8:f32", "--cache", file("store")}));
  // Either refused, or moved aside: its bytes must still be there.
  const bool kept =
      read(file("store/culet.sqlite")) == page || read(file("store/culet.sqlite.damaged")) == page;
  EXPECT_TRUE(kept) << result.err;
}

}  // namespace
}  // namespace culet::testing_cli

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// Whatever is wrong with the input: one line that says what, where, and what would be right, and
// the documented exit status.
#include <sys/wait.h>

#include <cstdlib>
#include <filesystem>

#include "program.h"

namespace culet::testing_cli {
namespace {

constexpr int kUsage = 2, kNoCandidate = 3, kDevice = 5, kIo = 6;

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
    {"UnknownVerb",
     {"frobnicate"},
     kUsage,
     "unknown verb 'frobnicate'; known are tune, rank, list"},
    {"UnknownCacheVerb",
     {"cache", "frob"},
     kUsage,
     "unknown verb 'cache frob'; known are path, ls"},
    {"EmptyBudget", {"tune", "8x8x8:f32", "--budget", ""}, kUsage, "--budget: the value is empty"},
    {"EmptyM", {"tune", "8x8x8:f32", "--m", ""}, kUsage, "--m: the value is empty"},
    {"EmptyDump", {"tune", "8x8x8:f32", "--dump", ""}, kUsage, "--dump: the value is empty"},
    {"EmptyShapes", {"tune", "--shapes", ""}, kUsage, "--shapes: the value is empty"},
    {"EmptyOutput", {"tune", "8x8x8:f32", "-o", ""}, kUsage, "--output: the value is empty"},
    {"EmptyCache", {"cache", "ls", "--cache", ""}, kUsage, "--cache: the value is empty"},
    {"EmptyBackends", {"rank", "8x8x8:f32", "--backends", ""}, kUsage, "--backends: the value"},
    {"LoneComma", {"rank", "8x8x8:f32", "--backends", ","}, kUsage, "--backends: ',' has an empty"},
    {"TrailingComma",
     {"rank", "8x8x8:f32", "--m", "1,2,"},
     kUsage,
     "--m: '1,2,' has an empty item"},
    {"NumberAsOutput", {"rank", "8x8x8:f32", "-o", "-5/x"}, kIo, "no folder '-5'"},
    {"NumberAsDevice", {"rank", "8x8x8:f32", "--device", "-1"}, kUsage, "'-1'"},
    {"NumberAsFormat", {"rank", "8x8x8:f32", "--format", "-1"}, kUsage, "'-1'"},
    {"Trials",
     {"tune", "8x8x8:f32", "--trials", "timed"},
     kUsage,
     "--trials: 'timed' is not all or"},
    {"DryRunAsJson",
     {"tune", "8x8x8:f32", "--dry-run", "--format", "json"},
     kUsage,
     "--dry-run: writes a table only, not --format json"},
    {"ShapesIsADevice", {"rank", "--shapes", "/dev/zero"}, kIo, "'/dev/zero' is neither a file"},
    {"InvalidUtf8", {"rank", "8x8x8:\xff\xc3"}, kUsage, "problem 8x8x8:??: "},
    {"LongProblem",
     {"rank", std::string(5000, 'x')},
     kUsage,
     "problem " + std::string(80, 'x') + "...: "},
    {"UnknownOption", {"tune", "8x8x8:f32", "--frob"}, kUsage, "--frob"},
    {"MissingShapes", {"tune", "--shapes", "/nowhere/x.shapes"}, kIo, "/nowhere/x.shapes"},
    {"UnknownFormat", {"rank", "8x8x8:f32", "--format", "xml"}, kUsage, "table, json, csv, md"},
    {"UnknownBackend",
     {"rank", "8x8x8:f32", "--backends", "mkl"},
     kUsage,
     "unknown backend 'mkl'; known are vendor, cublaslt"},
    {"TopZero", {"rank", "8x8x8:f32", "--top", "0"}, kUsage, "--top: '0' is not"},
    {"NegativeBudget", {"tune", "8x8x8:f32", "--budget", "-1"}, kUsage, "--budget: '-1' is not"},
    {"EndlessBudget",
     {"tune", "8x8x8:f32", "--budget", "1e10"},
     kUsage,
     "--budget: '1e10' is not a positive number of seconds, at most 1e9"},
    {"NoMachinesMemory",
     {"tune", "8x8x8:f32", "--max-memory", "1e11"},
     kUsage,
     "--max-memory: '1e11' is not a positive number of gigabytes, at most 1e9"},
    {"OperandsBeyondAllMemory",
     {"tune", "536870912x536870912x0:f64:epi=\"acc + a[m,n] + b[m,n] + c[m,n]\"", "--device",
      "cpu:1", "--backends", "reference"},
     kNoCandidate,
     "the operands take more than 2^61 bytes"},
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

TEST_F(BadFiles, ShapesFileIsFarTooLarge) {
  write("my.shapes", "");
  std::filesystem::resize_file(file("my.shapes"), (std::uintmax_t{64} << 20) + 1);
  expect_error(run({"rank", "--shapes", file("my.shapes")}), kIo, "more than 67108864 bytes");
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
  // An option replaces it.
  const Ended replaced = run({"rank", "8x8x8:f32", "--backends", "reference", "--device", "cpu:1"},
                             {{"CULET_BACKENDS", "mkl"}});
  EXPECT_EQ(replaced.status, 0) << replaced.err;
}

TEST_F(BadFiles, NonsenseInTheEnvironmentIsNamed) {
  expect_error(run({"rank", "8x8x8:f32"}, {{"CULET_DISABLE", "no"}}), kUsage,
               "CULET_DISABLE: 'no' is not 0 or 1");
  expect_error(run({"rank", "8x8x8:f32", "--device", "cpu"}, {{"CULET_THREADS", "few"}}), kUsage,
               "CULET_THREADS: 'few'");
  expect_error(run({"tune", "8x8x8:f32"}, {{"CULET_DUMP", "/dev/null/x"}}), kIo,
               "CULET_DUMP: cannot write into");
}

TEST_F(BadFiles, HelpThatCannotBeWritten) {
  if (!std::filesystem::exists("/dev/full")) GTEST_SKIP() << "no /dev/full here";
  const int status = std::system(CULET_PROGRAM " --help >/dev/full 2>/dev/null");
  EXPECT_EQ(WEXITSTATUS(status), kIo);
}

TEST_F(BadFiles, VerifySaysThatTheStoreWasDamaged) {
  std::filesystem::create_directories(file("store"));
  write("store/culet.sqlite", "this is not a database");
  const Ended result = run({"cache", "verify", "--cache", file("store")});
  EXPECT_EQ(result.status, kIo);
  EXPECT_NE(result.out.find("culet.sqlite.damaged"), std::string::npos) << result.out;
  EXPECT_EQ(result.out.find("all whole"), std::string::npos) << result.out;
  // What took its place is whole.
  EXPECT_EQ(run({"cache", "verify", "--cache", file("store")}).status, 0);
}

TEST_F(BadFiles, LookingForAStoreMakesNone) {
  for (const char* verb : {"ls", "verify", "clear"}) {
    const Ended result = run({"cache", verb});
    EXPECT_EQ(result.status, 0) << result.err;
    EXPECT_EQ(result.out, "no store at " + file(".cache/culet/culet.sqlite") + "\n");
    expect_error(run({"cache", verb, "--cache", file("x")}), kIo, "no store at " + file("x"));
  }
  expect_error(run({"cache", "show", "8x8x8:f32"}), kIo, "no store at");
  EXPECT_EQ(run({"cache", "path"}).out, file(".cache/culet/culet.sqlite") + "\n");
  EXPECT_FALSE(std::filesystem::exists(file(".cache")));
  EXPECT_FALSE(std::filesystem::exists(file("x")));
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

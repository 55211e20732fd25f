// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// A main() for fuzz targets where there is no libFuzzer: replays a corpus, then changes its inputs
// at random for some seconds, from a fixed seed. It knows nothing of coverage; it is here so that
// what was found once stays found, and that targets are built and run by every compiler.
//
//   fuzz_TARGET CORPUS [SECONDS]
#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

#include "fuzz.h"

namespace {

namespace fs = std::filesystem;

void run(const std::string& input) {
  LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t*>(input.data()), input.size());
}

/// One of: another byte, bytes cut out, bytes doubled, a piece of another input, a number.
std::string changed(std::string text, const std::vector<std::string>& corpus,
                    std::mt19937& random) {
  const auto below = [&](std::size_t limit) { return limit == 0 ? 0 : random() % limit; };
  for (std::size_t times = 1 + below(4); times > 0; --times) {
    const std::size_t at = below(text.size() + 1);
    const std::size_t length = std::min<std::size_t>(below(16), text.size() - at);
    switch (below(5)) {
      case 0:
        if (at < text.size()) text[at] = static_cast<char>(random());
        break;
      case 1:
        text.erase(at, length);
        break;
      case 2:
        text.insert(at, text.substr(at, length));
        break;
      case 3: {
        const std::string& other = corpus[below(corpus.size())];
        text.insert(at, other.substr(below(other.size()), below(24)));
        break;
      }
      default: {
        static const std::vector<std::string> kOdd{
            "0",   "-1", "9223372036854775808", "1e999", "null", "\"", "{", "]", "\xff",
            "NaN", "1.5"};
        text.replace(at, length, kOdd[below(kOdd.size())]);
      }
    }
  }
  return text;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fprintf(stderr, "usage: %s CORPUS [SECONDS]\n", argv[0]);
    return 2;
  }
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(argv[1])) files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  std::vector<std::string> corpus;
  for (const fs::path& file : files) {
    std::ifstream in(file, std::ios::binary);
    corpus.emplace_back(std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>());
    run(corpus.back());
  }
  if (corpus.empty()) {
    std::fprintf(stderr, "%s: no inputs\n", argv[1]);
    return 1;
  }
  const double seconds = argc > 2 ? std::atof(argv[2]) : 1;
  const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  std::mt19937 random(1);
  long runs = 0;
  for (; std::chrono::steady_clock::now() < end; ++runs) {
    run(changed(corpus[random() % corpus.size()], corpus, random));
  }
  std::printf("%zu inputs replayed, %ld made from them\n", corpus.size(), runs);
  return 0;
}

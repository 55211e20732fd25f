// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// A program that tunes can be its own worker process (docs/isolation.md), and then needs no
// installed `culet` for that.
#pragma once

#include <optional>

namespace culet {

/// To be called first in main(). Where the program was started as a worker, serves until its owner
/// is done and gives the exit status; otherwise does nothing but remember that this program can
/// serve:
///
///     int main(int argc, char** argv) {
///       if (const auto status = culet::run_as_worker(argc, argv)) return *status;
std::optional<int> run_as_worker(int argc, char** argv);

}  // namespace culet

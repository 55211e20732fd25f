// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// Compiling beside measuring: while one problem is timed on a GPU, the host's cores have nothing to
// do, and compile what the next one will need.
#pragma once

#include <memory>
#include <mutex>
#include <thread>

#include "tuner/run.h"

namespace culet {

/// Runs a problem's stages up to compile() in a thread, and keeps the code only: the compiler gives
/// it to whoever asks next. Nobody is told, and no error comes of it; the problem's own run meets
/// it again. Thread-safe.
class CompileAhead {
 public:
  explicit CompileAhead(TunerState& state) : state_(state) {}
  ~CompileAhead();

  /// Begins with a problem, where compiling disturbs no timing; first ends what is under way.
  void begin(const Problem& problem);
  /// Begins no further kernel, and leaves those that are being compiled to end by themselves.
  void halt();

 private:
  void end();

  TunerState& state_;
  std::mutex mutex_;  ///< guards what follows
  std::unique_ptr<TuneRun> run_;
  std::thread thread_;
};

}  // namespace culet

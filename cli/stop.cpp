// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// Signal handlers may touch lock-free atomics and write(2) only, hence the globals.
#include "stop.h"

#include <signal.h>
#include <unistd.h>

#include <chrono>

#include "culet/settings.h"

namespace culet::cli {
namespace {

constexpr int kInterruptedStatus = 130;

std::atomic<bool> stop_flag{false};
std::atomic<int> signals{0};

void on_signal(int) {
  if (signals.fetch_add(1) > 0) {
    kill_running_compilers();
    _exit(kInterruptedStatus);
  }
  stop_flag.store(true);
  constexpr char kText[] = "\nculet: ending after this trial (again: at once)\n";
  (void)!write(STDERR_FILENO, kText, sizeof kText - 1);
}

}  // namespace

Stop::Stop(double budget_seconds) {
  stop_flag.store(false);
  signals.store(0);
  struct sigaction action {};
  action.sa_handler = on_signal;
  action.sa_flags = SA_RESTART;
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
  struct sigaction before {};
  sigaction(SIGHUP, nullptr, &before);
  hangup_ = before.sa_handler != SIG_IGN;
  if (hangup_) sigaction(SIGHUP, &action, nullptr);
  if (budget_seconds <= 0) return;
  timer_ = std::thread([this, budget_seconds] {
    std::unique_lock lock(mutex_);
    if (!wake_.wait_for(lock, std::chrono::duration<double>(budget_seconds),
                        [this] { return done_; })) {
      stop_flag.store(true);
    }
  });
}

Stop::~Stop() {
  if (timer_.joinable()) {
    {
      const std::lock_guard lock(mutex_);
      done_ = true;
    }
    wake_.notify_all();
    timer_.join();
  }
  // While an interrupted run delivers what it has, a second signal still means: at once, status
  // 130.
  if (interrupted()) return;
  signal(SIGINT, SIG_DFL);
  signal(SIGTERM, SIG_DFL);
  if (hangup_) signal(SIGHUP, SIG_DFL);
}

const std::atomic<bool>* Stop::flag() const { return &stop_flag; }
bool Stop::interrupted() const { return signals.load() > 0; }

}  // namespace culet::cli

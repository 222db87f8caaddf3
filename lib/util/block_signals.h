// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <pthread.h>

#include <csignal>

namespace gantrain {

// Blocks all signals in this thread and returns what was blocked before.
inline sigset_t block_signals() {
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  return before;
}

// Blocks all signals in this thread, and in the threads that it starts, until the end of the scope.
class BlockSignals {
 public:
  BlockSignals() : before_(block_signals()) {}
  ~BlockSignals() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  BlockSignals(const BlockSignals&) = delete;
  BlockSignals& operator=(const BlockSignals&) = delete;

 private:
  sigset_t before_;
};

}  // namespace gantrain

// SPDX-License-Identifier: Apache-2.0
#include "data/worker.h"

#include <csignal>
#include <utility>

namespace gantrain {

namespace {

// Blocks all signals in this thread, and what it starts, until the end of the scope.
class BlockSignals {
 public:
  BlockSignals() {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~BlockSignals() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  BlockSignals(const BlockSignals&) = delete;
  BlockSignals& operator=(const BlockSignals&) = delete;

 private:
  sigset_t before_;
};

}  // namespace

std::thread start_worker(std::function<void()> body) {
  const BlockSignals blocked;
  return std::thread(std::move(body));
}

}  // namespace gantrain

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>

namespace gantrain {

// Makes a thread that writes in the background rest three times as long as it works, so that the
// training, which may use every core, loses at most a quarter of one. Nobody rests while somebody
// waits for the files.
class WritePace {
 public:
  // `used` returns for how many seconds the calling thread has used a processor, without one the
  // clock of the thread. No rest is longer than `longest` seconds.
  explicit WritePace(std::function<double()> used = {}, double longest = 1);

  // To be called in the writing thread before its work.
  void begin();
  // To be called in the writing thread after each piece of work: sleeps three times as long as this
  // thread has used a processor since the call before.
  void rest();
  // Ends a sleep, and makes the others until the next relax() none. From any thread.
  void hurry();
  void relax();

 private:
  std::function<double()> used_;
  double longest_;
  std::mutex mutex_;
  std::condition_variable hurried_;
  bool hurry_ = false;
  double worked_ = 0;  // seconds of processor time when the thread last went on
};

}  // namespace gantrain

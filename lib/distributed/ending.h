// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <c10/core/Device.h>
#include <c10/util/intrusive_ptr.h>

#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>

#include "util/error.h"

namespace c10d {
class ProcessGroup;
}

namespace gantrain {

// Ends this process if it still exists after `seconds`: for calls that may never return and take no
// timeout. A thread throws UserError(code) with `message`, which nothing catches, so that the
// process reports it as it does with every uncaught exception, and dies of SIGABRT.
class Deadline {
 public:
  Deadline(double seconds, Exit code, std::string message);
  ~Deadline();
  Deadline(const Deadline&) = delete;
  Deadline& operator=(const Deadline&) = delete;

 private:
  std::mutex mutex_;
  std::condition_variable ended_;
  bool over_ = false;
  std::thread thread_;
};

// How a process group ends. A rank whose work is done shuts it down, which waits for what is still
// under way. A rank that has failed must not wait: a peer may be dead, and NCCL would wait for it
// for ever. It leaves the group alone, reports why it failed, and aborts the group last, which
// wakes the peers that wait in a collective.

// Shuts the group down. Returns false if that has not ended after `seconds`, or if it failed; then
// the group is left as it is until the process ends.
bool shut_down(const c10::intrusive_ptr<c10d::ProcessGroup>& group,
               c10::Device device,
               double seconds);

// Keeps the group and its threads as they are until the process ends or
// abort_abandoned_groups() is called.
void abandon(c10::intrusive_ptr<c10d::ProcessGroup> group, c10::Device device);

// Aborts all groups that were abandoned, and returns when that is done or after `seconds`. Call it
// after the failure has been reported.
void abort_abandoned_groups(double seconds);

}  // namespace gantrain

// SPDX-License-Identifier: Apache-2.0
#include "distributed/ending.h"

#include <c10/core/DeviceGuard.h>

#include <chrono>
#include <functional>
#include <future>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <vector>

#include "util/log.h"

namespace gantrain {

Deadline::Deadline(double seconds, Exit code, std::string message)
    : thread_([this, seconds, code, message = std::move(message)] {
        std::unique_lock<std::mutex> lock(mutex_);
        const bool in_time =
            ended_.wait_for(lock, std::chrono::duration<double>(seconds), [this] { return over_; });
        if (!in_time) throw UserError(code, message);
      }) {}

Deadline::~Deadline() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    over_ = true;
  }
  ended_.notify_all();
  thread_.join();
}

namespace {

struct Abandoned {
  c10::intrusive_ptr<c10d::ProcessGroup> group;
  c10::Device device;
};

// Both lists are never destroyed: at the end of a process the destructors of NCCL's groups would
// wait for peers that may be dead.
struct AbandonedGroups {
  std::mutex mutex;
  std::vector<Abandoned> running, aborted;
};

AbandonedGroups& abandoned_groups() {
  static auto* groups = new AbandonedGroups;
  return *groups;
}

// Calls `work` in a thread of its own. Returns true if it has ended after `seconds` without an
// exception. Else the thread goes on; this process is about to end with _exit().
bool ends_within(double seconds, std::function<void()> work) {
  auto promise = std::make_shared<std::promise<bool>>();
  std::future<bool> done = promise->get_future();
  std::thread([promise, work = std::move(work)] {
    try {
      work();
      promise->set_value(true);
    } catch (const std::exception& e) {
      debug("ending the process group: {}", e.what());
      promise->set_value(false);
    }
  }).detach();
  return done.wait_for(std::chrono::duration<double>(seconds)) == std::future_status::ready &&
         done.get();
}

}  // namespace

bool shut_down(const c10::intrusive_ptr<c10d::ProcessGroup>& group,
               c10::Device device,
               double seconds) {
  return ends_within(seconds, [group, device] {
    const c10::DeviceGuard guard(device);
    group->shutdown();
  });
}

void abandon(c10::intrusive_ptr<c10d::ProcessGroup> group, c10::Device device) {
  AbandonedGroups& groups = abandoned_groups();
  const std::lock_guard<std::mutex> lock(groups.mutex);
  groups.running.push_back({std::move(group), device});
}

void abort_abandoned_groups(double seconds) {
  std::vector<Abandoned> list;
  {
    AbandonedGroups& groups = abandoned_groups();
    const std::lock_guard<std::mutex> lock(groups.mutex);
    list.swap(groups.running);
    groups.aborted.insert(groups.aborted.end(), list.begin(), list.end());
  }
  if (list.empty()) return;
  ends_within(seconds, [list = std::move(list)] {
    for (const Abandoned& item : list) {
      const c10::DeviceGuard guard(item.device);
      item.group->abort();
    }
  });
}

}  // namespace gantrain

// SPDX-License-Identifier: Apache-2.0
#include "distributed/backend.h"

#include <c10/core/DeviceGuard.h>
#include <dlfcn.h>

#include <functional>
#include <future>
#include <stdexcept>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>
#include <vector>

#include "util/log.h"
#include "util/system.h"

namespace gantrain {

void CountingBackend::note_in(RankTrace& trace) {
  trace_ = &trace;
  trace_->skip_to(traffic_.collectives);
}

// Counts before the call, so that a rank that waits in a collective is seen to have entered it.
void CountingBackend::count(const char* what, const Tensors& tensors) {
  int64_t bytes = 0;
  for (const at::Tensor& tensor : tensors) {
    check_on_group_device(what, tensor.device(), device_);
    bytes += static_cast<int64_t>(tensor.nbytes());
  }
  traffic_.collectives += 1;
  traffic_.launched = monotonic_seconds();
  traffic_.bytes += bytes;
  if (trace_ == nullptr) return;
  const auto number = static_cast<int64_t>(tensors.size());
  trace_->enter(what, purpose_, number, bytes, device_.is_cpu());
}

void CountingBackend::count_wait(double since) {
  traffic_.returned = monotonic_seconds();
  traffic_.waited += traffic_.returned - since;
}

// The end is noted by the thread of gloo's that made the collective.
CountingBackend::Work CountingBackend::watched(Work work) {
  if (trace_ == nullptr || !device_.is_cpu()) return work;
  work->getFuture()->addCallback(
      [trace = trace_, number = trace_->entered()](c10::ivalue::Future& end) {
        if (!end.hasError()) trace->ended(number);
      });
  return work;
}

CountingBackend::Work CountingBackend::broadcast(Tensors& tensors,
                                                 const c10d::BroadcastOptions& options) {
  count("broadcast", tensors);
  return watched(backend_->broadcast(tensors, options));
}

CountingBackend::Work CountingBackend::allreduce(Tensors& tensors,
                                                 const c10d::AllreduceOptions& options) {
  count("all-reduce", tensors);
  return watched(backend_->allreduce(tensors, options));
}

// This file alone reads gloo's headers: they are Debian's and older than the gloo inside
// LibTorch, so nothing of gloo's own classes is touched here.

namespace {

c10::intrusive_ptr<c10d::Backend> make_gloo(const c10::intrusive_ptr<c10d::Store>& store,
                                            const BackendSettings& s) {
  auto options = c10d::ProcessGroupGloo::Options::create(s.timeout);
  const char* interface = std::getenv("GLOO_SOCKET_IFNAME");
  if (interface != nullptr && *interface != 0) {
    options->devices.push_back(c10d::ProcessGroupGloo::createDeviceForInterface(interface));
  } else if (s.ranks.nodes == 1) {
    options->devices.push_back(c10d::ProcessGroupGloo::createDeviceForHostname("127.0.0.1"));
  } else if (!s.address.empty()) {
    options->devices.push_back(c10d::ProcessGroupGloo::createDeviceForHostname(s.address));
  } else {
    options->devices.push_back(c10d::ProcessGroupGloo::createDefaultDevice());
  }
  return c10::make_intrusive<c10d::ProcessGroupGloo>(
      store, static_cast<int>(s.ranks.rank), static_cast<int>(s.ranks.world), options);
}

c10::intrusive_ptr<c10d::Backend> make_nccl(const c10::intrusive_ptr<c10d::Store>& store,
                                            const BackendSettings& s) {
  const auto make = reinterpret_cast<MakeNccl>(dlsym(RTLD_DEFAULT, kMakeNccl));
  if (make == nullptr) fail(Exit::kEnvironment, "the CUDA library is not loaded: no NCCL");
  return c10::intrusive_ptr<c10d::Backend>::reclaim(make(store.get(), s));
}

// Group makes its process group with this backend and no other.
c10::intrusive_ptr<CountingBackend> backend_of(const Group& group) {
  return c10::dynamic_intrusive_pointer_cast<CountingBackend>(
      group.process_group()->getDefaultBackend());
}

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

c10::intrusive_ptr<c10d::ProcessGroup> make_process_group(
    BackendKind backend,
    const c10::intrusive_ptr<c10d::Store>& store,
    const BackendSettings& settings,
    c10::Device device) {
  const bool nccl = backend == BackendKind::kNccl;
  const auto type =
      nccl ? c10d::ProcessGroup::BackendType::NCCL : c10d::ProcessGroup::BackendType::GLOO;
  const auto made = nccl ? make_nccl(store, settings) : make_gloo(store, settings);
  if (device.has_index()) made->setBoundDeviceId(device);
  auto group = c10::make_intrusive<c10d::ProcessGroup>(
      store, static_cast<int>(settings.ranks.rank), static_cast<int>(settings.ranks.world));
  group->setBackend(device.type(), type, c10::make_intrusive<CountingBackend>(made, device));
  group->setDefaultBackend(type);
  return group;
}

Traffic traffic_of(const c10d::ProcessGroup& group, c10::Device device) {
  const auto backend = const_cast<c10d::ProcessGroup&>(group).getBackend(device.type());
  return dynamic_cast<const CountingBackend&>(*backend).traffic();
}

c10::Device device_of(const Group& group) {
  return group.world() == 1 ? c10::Device(c10::kCPU) : backend_of(group)->device();
}

void trace_collectives(const Group& group, RankTrace& trace) {
  if (group.world() > 1) backend_of(group)->note_in(trace);
}

GroupCall::GroupCall(const Group& group, const char* purpose)
    : backend_(backend_of(group)),
      before_(backend_->set_purpose(purpose)),
      since_(monotonic_seconds()) {}

GroupCall::~GroupCall() {
  backend_->set_purpose(before_);
  backend_->count_wait(since_);
}

void check_on_group_device(const char* call, c10::Device tensor, c10::Device group) {
  const bool same_index =
      !tensor.has_index() || !group.has_index() || tensor.index() == group.index();
  if (tensor.type() == group.type() && same_index) return;
  throw std::logic_error(
      fmt::format("{}: a tensor on {} in a group on {}", call, tensor.str(), group.str()));
}

Deadline::Deadline(double seconds, std::function<void()> late)
    : thread_([this, seconds, late = std::move(late)] {
        std::unique_lock<std::mutex> lock(mutex_);
        const bool in_time =
            ended_.wait_for(lock, std::chrono::duration<double>(seconds), [this] { return over_; });
        lock.unlock();
        if (!in_time) late();
      }) {}

Deadline::Deadline(double seconds, Exit code, std::string message)
    : Deadline(seconds, [code, message = std::move(message)] { throw UserError(code, message); }) {}

Deadline::~Deadline() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    over_ = true;
  }
  ended_.notify_all();
  thread_.join();
}

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

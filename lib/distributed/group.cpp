// SPDX-License-Identifier: Apache-2.0
#include "distributed/group.h"

#include <torch/torch.h>

#include <algorithm>
#include <chrono>
#include <random>
#include <thread>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include "distributed/backend.h"
#include "util/error.h"

namespace gantrain {

struct Group::Impl {
  c10::intrusive_ptr<c10d::Store> store;
  c10::intrusive_ptr<c10d::ProcessGroup> group;
  int64_t session = 0;  // a random number, the same on all ranks: stores outlive restarts
  int64_t turns = 0;    // calls of on_rank_0()
};

namespace {

std::chrono::milliseconds milliseconds(double seconds) {
  return std::chrono::milliseconds(static_cast<int64_t>(seconds * 1e3));
}

// First line of a c10 message: what a person can read.
std::string first_line(const std::exception& e) {
  const auto* c10_error = dynamic_cast<const c10::Error*>(&e);
  std::string text = c10_error != nullptr ? c10_error->what_without_backtrace() : e.what();
  return text.substr(0, text.find('\n'));
}

c10::intrusive_ptr<c10d::Store> open_store(const Rendezvous& r, double timeout_seconds) {
  c10d::TCPStoreOptions options;
  options.port = static_cast<std::uint16_t>(r.master.port);
  options.isServer = r.ranks.rank == 0 && !r.store_is_served;
  options.numWorkers = static_cast<size_t>(r.ranks.world);
  options.waitWorkers = false;
  options.timeout = milliseconds(timeout_seconds);
  if (options.isServer && r.listen_fd >= 0) options.masterListenFd = r.listen_fd;
  try {
    return c10::make_intrusive<c10d::TCPStore>(r.master.host, options);
  } catch (const std::exception& e) {
    fail(
        Exit::kEnvironment,
        "rank {}: no rendezvous at {}:{}: {}; is rank 0 running there, and the port open and free?",
        r.ranks.rank,
        r.master.host,
        r.master.port,
        first_line(e));
  }
}

// Runs a collective and turns its failure into one readable line.
template <class Call>
void guarded(int64_t rank, const char* what, Call&& call) {
  try {
    call();
  } catch (const std::exception& e) {
    fail(Exit::kEnvironment,
         "rank {}: {} failed: {} (a peer died, or the network between ranks is cut)",
         rank,
         what,
         first_line(e));
  }
}

}  // namespace

Group::Group(const RankInfo& ranks, at::Device device)
    : ranks_(ranks), device_(device), impl_(std::make_unique<Impl>()) {}

Group::~Group() = default;

std::shared_ptr<Group> Group::join(const Rendezvous& r,
                                   BackendKind backend,
                                   at::Device device,
                                   double timeout_seconds) {
  std::shared_ptr<Group> group(new Group(r.ranks, device));
  if (group->world() == 1) return group;
  c10::initLogging();  // C++ programs must ask for TORCH_CPP_LOG_LEVEL to be heard
  Impl& impl = *group->impl_;
  impl.store = open_store(r, timeout_seconds);
  // A key prefix of our own: under torchrun the store is shared with its agent.
  const auto store = c10::make_intrusive<c10d::PrefixStore>("gantrain", impl.store);
  guarded(group->rank(), "forming the process group", [&] {
    const BackendSettings settings{r.ranks, milliseconds(timeout_seconds)};
    impl.group = make_process_group(backend, store, settings, device);
  });
  // How many ranks there are, and a number of rank 0's that float32 holds exactly.
  const int64_t session = group->rank() == 0 ? std::random_device()() % (1 << 24) : 0;
  at::Tensor sums = torch::tensor({1.0F, static_cast<float>(session)}).to(device);
  guarded(group->rank(), "the first all-reduce", [&] { group->sum_(sums); });
  sums = sums.cpu();
  if (sums[0].item<float>() != static_cast<float>(group->world())) {
    fail(Exit::kEnvironment,
         "rank {}: the first all-reduce counted {} ranks, {} were expected",
         group->rank(),
         sums[0].item<float>(),
         group->world());
  }
  impl.session = static_cast<int64_t>(sums[1].item<float>());
  return group;
}

void Group::sum_(at::Tensor& tensor) {
  if (world() == 1) return;
  guarded(rank(), "all-reduce", [&] {
    std::vector<at::Tensor> tensors = {tensor};
    impl_->group->allreduce(tensors)->wait();
  });
}

void Group::broadcast_(at::Tensor& tensor) {
  if (world() == 1) return;
  guarded(rank(), "broadcast", [&] {
    std::vector<at::Tensor> tensors = {tensor};
    impl_->group->broadcast(tensors)->wait();
  });
}

void Group::barrier() {
  if (world() == 1) return;
  at::Tensor one = torch::ones({1}, at::TensorOptions().device(device_));
  sum_(one);
  one.item<float>();  // on a GPU: wait
}

void Group::on_rank_0(const std::function<void()>& work, const std::function<void()>& waiting) {
  if (world() == 1) {
    work();
    return;
  }
  const std::string key = fmt::format("gantrain/alone/{}/{}", impl_->session, ++impl_->turns);
  if (rank() == 0) {
    work();
    guarded(rank(), "telling the others to go on", [&] { impl_->store->set(key, "done"); });
    return;
  }
  guarded(rank(), "waiting for rank 0", [&] {
    std::chrono::duration<double> pause(0.001);
    for (; !impl_->store->check({key}); pause = std::min(1.5 * pause, decltype(pause)(0.05))) {
      waiting();
      std::this_thread::sleep_for(pause);
    }
  });
}

void Group::broadcast_state(const NamedTensors& tensors) {
  if (world() == 1) return;
  const torch::NoGradGuard no_grad;
  std::map<at::ScalarType, std::vector<at::Tensor>> by_type;
  for (const auto& [name, tensor] : tensors) by_type[tensor.scalar_type()].push_back(tensor);
  for (auto& [type, list] : by_type) {
    std::vector<at::Tensor> flat;
    for (const at::Tensor& t : list) flat.push_back(t.detach().reshape(-1).to(device_));
    at::Tensor all = torch::cat(flat);
    broadcast_(all);
    int64_t at = 0;
    for (at::Tensor& t : list) {
      t.detach().copy_(all.narrow(0, at, t.numel()).view(t.sizes()));
      at += t.numel();
    }
  }
}

Traffic Group::traffic() const {
  return world() == 1 ? Traffic{} : traffic_of(*impl_->group, device_);
}

c10d::ProcessGroup* Group::process_group() const { return impl_->group.get(); }

}  // namespace gantrain

// SPDX-License-Identifier: Apache-2.0
// The only file that reads gloo's headers: they are Debian's and older than the gloo inside
// LibTorch, so nothing of gloo's own classes is touched here.
#include "distributed/backend.h"

#include <dlfcn.h>

#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>

#include "distributed/counting_backend.h"
#include "util/error.h"

namespace gantrain {

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

}  // namespace gantrain

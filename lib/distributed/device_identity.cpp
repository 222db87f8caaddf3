// SPDX-License-Identifier: Apache-2.0
#include "distributed/device_identity.h"

#include <dlfcn.h>
#include <unistd.h>

#include <array>
#include <fstream>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include "util/error.h"
#include "util/system.h"
#include "util/text.h"

namespace gantrain {

namespace {

std::string boot_id() {
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::string text;
  std::getline(file, text);
  return text.empty() ? host_name() : text;
}

std::string key_of(int64_t rank) { return fmt::format("device/{}", rank); }

}  // namespace

std::string to_text(const DeviceIdentity& identity) {
  return join({identity.host, identity.boot, identity.pci, identity.uuid}, "|");
}

DeviceIdentity device_identity(const std::string& text) {
  const std::vector<std::string> parts = split(text, '|');
  if (parts.size() != 4)
    fail(Exit::kEnvironment, "the store holds no identity of a GPU but \"{}\"", text);
  return {parts[0], parts[1], parts[2], parts[3]};
}

std::string shared_device_text(const std::vector<DeviceIdentity>& identities) {
  for (size_t second = 1; second < identities.size(); ++second) {
    for (size_t first = 0; first < second; ++first) {
      const DeviceIdentity& a = identities[first];
      const DeviceIdentity& b = identities[second];
      if (a.boot != b.boot || a.pci != b.pci) continue;
      const bool instances = a.uuid != b.uuid;
      return fmt::format(
          "ranks {} and {} are both on {} ({}, PCI {}{}): NCCL needs a GPU for each rank{}; start "
          "one rank per GPU (--nproc), and let each see its own (CUDA_VISIBLE_DEVICES)",
          first,
          second,
          instances ? "MIG instances of one GPU" : "one GPU",
          a.host,
          a.pci,
          instances ? fmt::format(", {} and {}", a.uuid, b.uuid) : ", " + a.uuid,
          instances ? " and takes two instances for the same one" : "");
    }
  }
  return "";
}

DeviceIdentity read_device_identity(int64_t index) {
  const auto read = reinterpret_cast<ReadDevice>(dlsym(RTLD_DEFAULT, kReadDevice));
  if (read == nullptr) fail(Exit::kEnvironment, "the CUDA library is not loaded: no GPU to name");
  std::array<char, 64> pci{};
  std::array<char, 64> uuid{};
  const int error = read(static_cast<int>(index),
                         pci.data(),
                         static_cast<int>(pci.size()),
                         uuid.data(),
                         static_cast<int>(uuid.size()));
  if (error != 0) {
    fail(Exit::kEnvironment,
         "GPU {}: CUDA cannot name it (error {}); is it visible (CUDA_VISIBLE_DEVICES), and not "
         "lost (nvidia-smi)?",
         index,
         error);
  }
  return {host_name(), boot_id(), pci.data(), uuid.data()};
}

void check_one_rank_per_device(c10d::Store& store,
                               const RankInfo& ranks,
                               const DeviceIdentity& mine) {
  const auto waiting_for = [&](int64_t other, const std::exception& e) {
    fail(Exit::kEnvironment,
         "rank {}: rank {} has not told its GPU: {}; did it start, and can it reach the store?",
         ranks.rank,
         other,
         cause_line(e.what()));
  };
  std::vector<DeviceIdentity> all;
  try {
    store.set(key_of(ranks.rank), to_text(mine));
  } catch (const std::exception& e) {
    waiting_for(ranks.rank, e);
  }
  for (int64_t rank = 0; rank < ranks.world; ++rank) {
    std::string text;
    try {
      text = store.get_to_str(key_of(rank));
    } catch (const std::exception& e) {
      waiting_for(rank, e);
    }
    all.push_back(device_identity(text));
  }
  if (const std::string shared = shared_device_text(all); !shared.empty())
    fail(Exit::kEnvironment, "{}", shared);
}

}  // namespace gantrain

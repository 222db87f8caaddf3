// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "util/rank_info.h"

namespace c10d {
class Store;
}

namespace gantrain {

// Which GPU of which machine a rank computes on.
struct DeviceIdentity {
  std::string host;  // its name, for people
  std::string boot;  // the number that a machine draws when it starts; containers share it
  std::string pci;   // "0000:3B:00.0"; all MIG instances of a GPU have that GPU's
  std::string uuid;  // as nvidia-smi writes it, without "GPU-"; each MIG instance has its own
};

// One line for the store, and back.
std::string to_text(const DeviceIdentity& identity);
DeviceIdentity device_identity(const std::string& text);

// Finds the first two ranks that are on one GPU, for which NCCL takes two MIG instances too, and
// says which ranks and GPU they are and what can be done. "" if every rank has a GPU of its own.
// `identities` has one for each rank. A pure function.
std::string shared_device_text(const std::vector<DeviceIdentity>& identities);

// The identity of this process's GPU number `index`. Throws UserError(kEnvironment) if the CUDA
// library is not loaded or CUDA cannot tell.
DeviceIdentity read_device_identity(int64_t index);

// Every rank tells its GPU through the store and waits until all others have told theirs. Throws
// UserError(kEnvironment), on all ranks alike, if two of them are on one GPU. Throws it too if a
// rank does not come within the store's timeout, and names that rank.
void check_one_rank_per_device(c10d::Store& store,
                               const RankInfo& ranks,
                               const DeviceIdentity& mine);

// The function that the CUDA library exports under this name. It writes both texts with a closing
// zero and returns 0, or else CUDA's error number.
using ReadDevice = int (*)(int index, char* pci, int pci_size, char* uuid, int uuid_size);
inline constexpr const char* kReadDevice = "gantrain_read_device";

}  // namespace gantrain

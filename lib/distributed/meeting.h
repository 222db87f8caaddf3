// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "util/rank_info.h"

namespace c10d {
class Store;
}

namespace gantrain {

// Returns the numeric address under which the other nodes reach this one: that of the interface
// over which `master` is reached. Where the host's name leads to a loopback address, as on many
// systems, it is the first address of an interface that is up, unless the master is given as a
// loopback address: then all nodes are on this machine. Returns "" where none can be found.
std::string local_address(const Endpoint& master);

// Why a host's name leads to no address; "" if it does.
std::string unresolved_text(const std::string& host);

// Waits until the master's name leads to an address, where somebody listens unless that is this
// rank's part (`serves`): a store would do so for two or three times its timeout. Returns the
// seconds that are left, at least 1. Throws UserError(kEnvironment) when the time is over.
double await_master(const Rendezvous& rendezvous, bool serves, double timeout_seconds);

// Brings all ranks together at the store, before a process group is formed. Throws
// UserError(kEnvironment) within `timeout_seconds`, with the same words on every rank that came,
// that names the ranks that did not come and their nodes, the rank that was started twice and
// where, or the node whose ranks count otherwise. `store` must have no keys of an earlier meeting.
void meet(c10d::Store& store, const RankInfo& ranks, double timeout_seconds);

// Why a rank found that it does not fit, such as one that was started a second time; "" if none has
// said so. After the meeting it is one that came late and was refused.
std::string objection_in(c10d::Store& store);

// NCCL says nothing while it cannot connect the ranks. So each rank notes in the store that it has
// begun to connect, and connecting_text() says which have, after so many seconds, and at which
// `address` this rank's node is reached; "" leaves that out.
void note_connecting(c10d::Store& store, const RankInfo& ranks);
std::string connecting_text(c10d::Store& store,
                            const RankInfo& ranks,
                            double seconds,
                            const std::string& address);

// What a user can do where NCCL failed with that text, one sentence for each way; "" if the text is
// not NCCL's.
std::string nccl_ways_out(std::string_view text);

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

// Says that two ranks are on one GPU, for which NCCL takes two MIG instances too, and what can be
// done.
std::string shared_device_text(int64_t first,
                               const DeviceIdentity& a,
                               int64_t second,
                               const DeviceIdentity& b);

// The identity of this process's GPU number `index`. Throws UserError(kEnvironment) if the CUDA
// library is not loaded or CUDA cannot tell.
DeviceIdentity read_device_identity(int64_t index);

// Every rank tells its GPU through the store and waits until all others have told theirs, with a
// few requests however many ranks there are. Throws
// UserError(kEnvironment), on all ranks alike, if two of them are on one GPU, or if a rank, which
// it names, does not come within the store's timeout.
void check_one_rank_per_device(c10d::Store& store,
                               const RankInfo& ranks,
                               const DeviceIdentity& mine);

// The function that the CUDA library exports under this name. It writes both texts with a closing
// zero and returns 0, or else CUDA's error number.
using ReadDevice = int (*)(int index, char* pci, int pci_size, char* uuid, int uuid_size);
inline constexpr const char* kReadDevice = "gantrain_read_device";

// Another one: whether each of the visible GPUs can read the memory of all others.
using PeersReach = bool (*)();
inline constexpr const char* kPeersReach = "gantrain_peers_reach";

}  // namespace gantrain

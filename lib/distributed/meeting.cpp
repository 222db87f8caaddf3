// SPDX-License-Identifier: Apache-2.0
#include "distributed/meeting.h"

#include <arpa/inet.h>
#include <dlfcn.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <system_error>
#include <thread>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include "util/error.h"
#include "util/system.h"
#include "util/text.h"

namespace gantrain {

namespace {

struct FreeAddresses {
  void operator()(addrinfo* list) const { ::freeaddrinfo(list); }
  void operator()(ifaddrs* list) const { ::freeifaddrs(list); }
};

std::string numeric_text(const sockaddr* address) {
  std::array<char, INET6_ADDRSTRLEN> text{};
  const void* bytes =
      address->sa_family == AF_INET
          ? static_cast<const void*>(&reinterpret_cast<const sockaddr_in*>(address)->sin_addr)
          : static_cast<const void*>(&reinterpret_cast<const sockaddr_in6*>(address)->sin6_addr);
  ::inet_ntop(address->sa_family, bytes, text.data(), text.size());
  return text.data();
}

bool is_loopback(const std::string& address) {
  return starts_with(address, "127.") || address == "::1" || starts_with(address, "::ffff:127.");
}

// The address that the kernel would send from to `to`. Connecting a datagram socket sends nothing.
std::string source_towards(const addrinfo& to) {
  const int fd = ::socket(to.ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return "";
  std::string text;
  sockaddr_storage own{};
  socklen_t size = sizeof own;
  if (::connect(fd, to.ai_addr, to.ai_addrlen) == 0 &&
      ::getsockname(fd, reinterpret_cast<sockaddr*>(&own), &size) == 0) {
    text = numeric_text(reinterpret_cast<sockaddr*>(&own));
  }
  ::close(fd);
  return text;
}

std::string first_address() {
  ifaddrs* found = nullptr;
  if (::getifaddrs(&found) != 0) return "";
  const std::unique_ptr<ifaddrs, FreeAddresses> all(found);
  for (const ifaddrs* one = all.get(); one != nullptr; one = one->ifa_next) {
    if (one->ifa_addr == nullptr || one->ifa_addr->sa_family != AF_INET) continue;
    if ((one->ifa_flags & IFF_UP) == 0 || (one->ifa_flags & IFF_LOOPBACK) != 0) continue;
    return numeric_text(one->ifa_addr);
  }
  return "";
}

// Keys in the store.
constexpr const char* kSizes = "meeting/sizes";          // of the rank that came first
constexpr const char* kStarted = "meeting/started";      // how many have begun to come
constexpr const char* kCame = "meeting/came";            // how many ranks have come
constexpr const char* kKnown = "meeting/known";          // there: all have come, or one objects
constexpr const char* kObjection = "meeting/objection";  // of the rank that objected first
constexpr const char* kVerdict = "meeting/verdict";      // rank 0's: "ok" or why not
constexpr const char* kHeard = "meeting/heard";          // how many ranks have read the verdict
constexpr const char* kTold = "device/told";             // how many ranks have told their GPU
constexpr const char* kShared = "device/shared";         // of the rank that objected first
constexpr const char* kGpus = "device/verdict";          // of the last rank: "ok" or why not
std::string came_key(int64_t rank) { return fmt::format("meeting/came/{}", rank); }
std::string place_key(int64_t rank) { return fmt::format("meeting/place/{}", rank); }

constexpr const char* kOk = "ok";
// Seconds that rank 0 keeps the store for those who have not read why there is no run, and seconds
// that others wait for its verdict beyond the time that it has itself.
constexpr double kLinger = 2;
constexpr double kVerdictSlack = 5;

std::string sizes_of(const RankInfo& r) { return sizes_text(r.world, r.nodes); }

// Waits until the store has the key, without asking again and again; false if it has not in time.
bool comes(c10d::Store& store, const std::string& key, double seconds) {
  try {
    store.wait({key}, std::chrono::milliseconds(static_cast<int64_t>(seconds * 1e3)));
    return true;
  } catch (const c10::DistStoreError&) {
    return false;
  }
}

// Tells rank 0 why there can be no run, and returns it; of several objections rank 0 hears the
// first.
std::string object(c10d::Store& store, std::string text) {
  store.compareSet(kObjection, std::string(), text);
  store.set(kKnown, "objection");
  return text;
}

// Announces this rank and returns "ok", or objects to what it finds and returns the objection.
std::string arrive(c10d::Store& store, const RankInfo& r) {
  const std::string place = fmt::format("node {} ({})", r.node_rank, host_name());
  const std::string mine = fmt::format("{}|{}", sizes_of(r), place);
  store.add(kStarted, 1);
  const std::vector<std::string> first = split(store.compareSet(kSizes, std::string(), mine), '|');
  if (first[0] != sizes_of(r)) {
    return object(store,
                  disagreement_text(
                      first[0], first.size() > 1 ? first[1] : "another node", sizes_of(r), place));
  }
  if (store.add(came_key(r.rank), 1) > 1) {
    const std::string there = store.get_to_str(place_key(r.rank));
    return object(store, started_twice_text(fmt::format("rank {}", r.rank), there, place));
  }
  store.set(place_key(r.rank), place);
  if (store.add(kCame, 1) == r.world) store.set(kKnown, "all");
  return kOk;
}

// Where nodes have different numbers of ranks, which node a rank would be on is not known here, and
// ranks alone are named.
std::string absent_text(const std::vector<int64_t>& absent, const RankInfo& r) {
  if (r.local_world * r.nodes != r.world) return ranks_text(absent);
  std::vector<NodeRanks> nodes;
  for (const int64_t rank : absent) {
    const int64_t node = rank / r.local_world;
    if (nodes.empty() || nodes.back().node != node)
      nodes.push_back({.node = node, .first = rank, .last = rank});
    nodes.back().last = rank;
  }
  return nodes_text(nodes);
}

// Rank 0: waits for all, or for an objection, and returns the verdict.
std::string judge(c10d::Store& store, const RankInfo& r, double timeout_seconds) {
  if (comes(store, kKnown, timeout_seconds)) {
    // One that was started twice objects at once, and the store is there until it has.
    const double soon = monotonic_seconds() + std::min(timeout_seconds, kLinger);
    while (store.add(kStarted, 0) > r.world && !store.check({kObjection}) &&
           monotonic_seconds() < soon)
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    const std::string objection = objection_in(store);
    return objection.empty() ? kOk : objection;
  }
  std::vector<int64_t> absent;
  for (int64_t rank = 0; rank < r.world; ++rank) {
    if (!store.check({place_key(rank)})) absent.push_back(rank);
  }
  return fmt::format(
      "{} did not come within {} (--timeout): does gantrain run there, with the same --nnodes and "
      "its own --node-rank, and does it reach this host's port?",
      absent_text(absent, r),
      short_duration(timeout_seconds));
}

void linger(c10d::Store& store, const RankInfo& r) {
  const double end = monotonic_seconds() + kLinger;
  while (store.add(kHeard, 0) < r.world - 1 && monotonic_seconds() < end)
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
}

std::string verdict_of_rank_0(c10d::Store& store, double timeout_seconds) {
  if (!comes(store, kVerdict, timeout_seconds + kVerdictSlack))
    return "rank 0 has not said that all ranks are there";
  return store.get_to_str(kVerdict);
}

std::string boot_id() {
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::string text;
  std::getline(file, text);
  return text.empty() ? host_name() : text;
}

std::string key_of(int64_t rank) { return fmt::format("device/of/{}", rank); }
std::string key_of(const DeviceIdentity& gpu) {
  return fmt::format("device/{}/{}", gpu.boot, gpu.pci);
}
std::string connecting_key(int64_t rank) { return fmt::format("connecting/{}", rank); }

// The first rank that has not told its GPU, found in a few requests.
int64_t first_untold(c10d::Store& store, int64_t world) {
  std::vector<std::string> keys;
  int64_t told = 0;
  for (int64_t step = std::bit_ceil(static_cast<uint64_t>(world)); step > 0; step /= 2) {
    const int64_t more = std::min(told + step, world);
    keys.clear();
    for (int64_t rank = told; rank < more; ++rank) keys.push_back(key_of(rank));
    if (keys.empty() || store.check(keys)) told = more;
  }
  return told;
}

struct WayOut {
  std::string_view words;  // of NCCL's text in small letters, one of which tells; "|" between them
  std::string_view advice;
};
constexpr std::array<WayOut, 4> kWaysOut{{
    {"invalid argument|nvls|multicast",
     "on machines with NVSwitch whose multicast does not work, such as many virtual ones, set "
     "NCCL_NVLS_ENABLE=0"},
    {"system not yet initialized|error 802|cuda failure 802",
     "the GPUs' fabric manager does not run or is not of the driver's version: systemctl status "
     "nvidia-fabricmanager"},
    {"shared memory|/dev/shm|no space left on device",
     "/dev/shm is too small: docker run --shm-size=1g, or an emptyDir of medium Memory on "
     "Kubernetes"},
    {"no route to host|connection refused|network is unreachable|socket",
     "NCCL_SOCKET_IFNAME names the network interface between the nodes"},
}};

}  // namespace

std::string local_address(const Endpoint& master) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_DGRAM;
  addrinfo* found = nullptr;
  const std::string port = std::to_string(master.port);
  if (::getaddrinfo(master.host.c_str(), port.c_str(), &hints, &found) != 0) return first_address();
  const std::unique_ptr<addrinfo, FreeAddresses> all(found);
  std::string loopback;
  for (const addrinfo* one = all.get(); one != nullptr; one = one->ai_next) {
    const std::string source = source_towards(*one);
    if (source.empty()) continue;
    if (!is_loopback(source)) return source;
    loopback = source;
  }
  if (is_loopback(master.host) || master.host == "localhost") return loopback;
  const std::string other = first_address();
  return other.empty() ? loopback : other;
}

std::string unresolved_text(const std::string& host) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int problem = ::getaddrinfo(host.c_str(), nullptr, &hints, &found);
  if (problem != 0) return fmt::format("host {}: {}", host, ::gai_strerror(problem));
  ::freeaddrinfo(found);
  return "";
}

namespace {

// 0 if a connection came about within so many seconds, else errno.
int try_to_connect(const addrinfo& to, double seconds) {
  const int fd = ::socket(to.ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0) return errno;
  int problem = ::connect(fd, to.ai_addr, to.ai_addrlen) == 0 ? 0 : errno;
  if (problem == EINPROGRESS) {
    pollfd polled{fd, POLLOUT, 0};
    socklen_t size = sizeof problem;
    if (::poll(&polled, 1, static_cast<int>(std::ceil(seconds * 1e3))) <= 0) {
      problem = ETIMEDOUT;
    } else if (::getsockopt(fd, SOL_SOCKET, SO_ERROR, &problem, &size) != 0) {
      problem = errno;
    }
  }
  ::close(fd);
  return problem;
}

// Why nothing can be reached there, after at most so many seconds: nobody listens, or no answer
// comes; "" if somebody listens.
std::string unreached_text(const Endpoint& endpoint, double seconds) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const std::string port = std::to_string(endpoint.port);
  if (::getaddrinfo(endpoint.host.c_str(), port.c_str(), &hints, &found) != 0)
    return unresolved_text(endpoint.host);
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> all(found, ::freeaddrinfo);
  int problem = 0;
  for (const addrinfo* one = found; one != nullptr; one = one->ai_next) {
    problem = try_to_connect(*one, seconds);
    if (problem == 0) return "";
  }
  return std::generic_category().message(problem);
}

constexpr double kLeastConnect = 1;  // seconds to reach a master that was there late

}  // namespace

double await_master(const Rendezvous& r, bool serves, double timeout_seconds) {
  const double until = monotonic_seconds() + timeout_seconds;
  const auto left = [&] { return until - monotonic_seconds(); };
  for (double pause = 0.01;; pause = std::min(1.5 * pause, 0.2)) {
    const std::string unresolved = unresolved_text(r.master.host);
    const std::string problem = !unresolved.empty() || serves
                                    ? unresolved
                                    : unreached_text(r.master, std::max(left(), kLeastConnect));
    if (problem.empty()) return std::max(left(), kLeastConnect);
    if (left() <= 0) {
      fail(Exit::kEnvironment,
           "rank {}: no rendezvous at {}:{} within {} (--timeout): {}; {}",
           r.ranks.rank,
           r.master.host,
           r.master.port,
           short_duration(timeout_seconds),
           problem,
           unresolved.empty() ? "is rank 0 running there, and the port open and free?"
                              : "is the name right, and known on this machine?");
    }
    std::this_thread::sleep_for(std::chrono::duration<double>(std::min(pause, left())));
  }
}

void meet(c10d::Store& store, const RankInfo& ranks, double timeout_seconds) {
  std::string verdict;
  try {
    verdict = arrive(store, ranks);
    if (ranks.rank == 0) {
      verdict = judge(store, ranks, timeout_seconds);
      store.set(kVerdict, verdict);
      if (verdict != kOk) linger(store, ranks);
    } else if (verdict == kOk) {
      verdict = verdict_of_rank_0(store, timeout_seconds);
      if (verdict != kOk) store.add(kHeard, 1);
    }  // else it ends with its own objection, also where the others came and began before it
  } catch (const std::exception& e) {
    fail(Exit::kEnvironment,
         "rank {}: the store at rank 0 was lost while the ranks came together: {}",
         ranks.rank,
         cause_line(e.what()));
  }
  if (verdict != kOk) throw UserError(Exit::kEnvironment, verdict);
}

std::string objection_in(c10d::Store& store) {
  return store.check({kObjection}) ? store.get_to_str(kObjection) : "";
}

void note_connecting(c10d::Store& store, const RankInfo& ranks) {
  store.set(connecting_key(ranks.rank), "begun");
}

std::string connecting_text(c10d::Store& store,
                            const RankInfo& ranks,
                            double seconds,
                            const std::string& address) {
  std::vector<int64_t> absent;
  for (int64_t rank = 0; rank < ranks.world; ++rank) {
    if (!store.check({connecting_key(rank)})) absent.push_back(rank);
  }
  const char* interface = std::getenv("NCCL_SOCKET_IFNAME");
  return fmt::format(
      "NCCL has not connected the {} ranks after {}: {}; NCCL_SOCKET_IFNAME {}{}; NCCL_DEBUG=INFO "
      "says more",
      ranks.world,
      short_duration(seconds),
      absent.empty() ? "all have begun to connect and wait for each other"
                     : "the others wait for " + absent_text(absent, ranks),
      interface == nullptr ? "is not set" : "= " + std::string(interface),
      address.empty() ? "" : ", this node is reached at " + address);
}

std::string nccl_ways_out(std::string_view text) {
  if (!tells_of_nccl(text)) return "";
  const std::string small = lower(std::string(text));
  std::string ways;
  for (const WayOut& way : kWaysOut) {
    const std::vector<std::string> words = split(way.words, '|');
    const bool tells = std::ranges::any_of(
        words, [&](const std::string& word) { return small.find(word) != std::string::npos; });
    if (tells) ways += fmt::format("{}; ", way.advice);
  }
  return ways + "--backend gloo works without NCCL, but slowly; NCCL_DEBUG=INFO says more";
}

std::string to_text(const DeviceIdentity& identity) {
  return join({identity.host, identity.boot, identity.pci, identity.uuid}, "|");
}

DeviceIdentity device_identity(const std::string& text) {
  const std::vector<std::string> parts = split(text, '|');
  if (parts.size() != 4)
    fail(Exit::kEnvironment, "the store holds no identity of a GPU but \"{}\"", text);
  return {parts[0], parts[1], parts[2], parts[3]};
}

std::string shared_device_text(int64_t first,
                               const DeviceIdentity& a,
                               int64_t second,
                               const DeviceIdentity& b) {
  const bool instances = a.uuid != b.uuid;
  return fmt::format(
      "ranks {} and {} are both on {} ({}, PCI {}{}): NCCL needs a GPU for each rank{}; start one "
      "rank per GPU (--nproc), and let each see its own (CUDA_VISIBLE_DEVICES)",
      first,
      second,
      instances ? "MIG instances of one GPU" : "one GPU",
      a.host,
      a.pci,
      instances ? fmt::format(", {} and {}", a.uuid, b.uuid) : ", " + a.uuid,
      instances ? " and takes two instances for the same one" : "");
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

namespace {

// Takes the GPU for this rank, and objects if another one has taken it.
void take_gpu(c10d::Store& store, int64_t rank, const DeviceIdentity& mine) {
  const std::string own = fmt::format("{}|{}", rank, to_text(mine));
  const std::string holder = store.compareSet(key_of(mine), std::string(), own);
  if (holder == own) return;
  const size_t bar = holder.find('|');
  const int64_t other = parse_int(holder.substr(0, bar)).value_or(-1);
  const DeviceIdentity theirs = device_identity(holder.substr(bar + 1));
  const std::string text = other < rank ? shared_device_text(other, theirs, rank, mine)
                                        : shared_device_text(rank, mine, other, theirs);
  store.compareSet(kShared, std::string(), text);
}

}  // namespace

// Each rank asks for its own GPU alone, and the last one says for all whether one was asked for
// twice: the requests of a rank do not grow with the number of ranks.
void check_one_rank_per_device(c10d::Store& store,
                               const RankInfo& ranks,
                               const DeviceIdentity& mine) {
  std::string verdict;
  int64_t asked = ranks.rank;
  try {
    take_gpu(store, ranks.rank, mine);
    store.set(key_of(ranks.rank), "told");
    if (store.add(kTold, 1) == ranks.world)
      store.set(kGpus, store.check({kShared}) ? store.get_to_str(kShared) : kOk);
    try {
      verdict = store.get_to_str(kGpus);
    } catch (const c10::DistStoreError&) {
      asked = first_untold(store, ranks.world);
      throw;
    }
  } catch (const UserError&) {
    throw;
  } catch (const std::exception& e) {
    fail(Exit::kEnvironment,
         "rank {}: rank {} has not told its GPU: {}; did it start, and can it reach the store?",
         ranks.rank,
         asked,
         cause_line(e.what()));
  }
  if (verdict != kOk) fail(Exit::kEnvironment, "{}", verdict);
}

}  // namespace gantrain

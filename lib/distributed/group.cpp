// SPDX-License-Identifier: Apache-2.0
#include "distributed/group.h"

#include <c10/core/DeviceGuard.h>
#include <dlfcn.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <map>
#include <optional>
#include <random>
#include <stdexcept>
#include <thread>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include "core/device.h"
#include "core/torch.h"
#include "distributed/backend.h"
#include "distributed/meeting.h"
#include "util/error.h"
#include "util/hash.h"
#include "util/log.h"
#include "util/system.h"
#include "util/text.h"

namespace gantrain {

struct Group::Impl {
  c10::intrusive_ptr<c10d::Store> store;
  c10::intrusive_ptr<c10d::ProcessGroup> group;
  int64_t session = 0;  // a random number, the same on all ranks: stores outlive restarts
  int64_t turns = 0;    // calls of on_rank_0()
  std::map<ino_t, int> sockets = {};  // descriptors of gloo's, by what they stand for
  bool late_is_told = false;          // on rank 0: that a rank came late and was refused
};

namespace {

std::chrono::milliseconds milliseconds(double seconds) {
  return std::chrono::milliseconds(static_cast<int64_t>(seconds * 1e3));
}

// For the end of a group whose work is done, which all ranks reach together.
constexpr double kShutdownSeconds = 10;

std::string message_of(const std::exception& e) {
  const auto* c10_error = dynamic_cast<const c10::Error*>(&e);
  return c10_error != nullptr ? c10_error->what_without_backtrace() : e.what();
}

c10::intrusive_ptr<c10d::Store> open_store(const Rendezvous& r, double timeout_seconds) {
  c10d::TCPStoreOptions options;
  options.port = static_cast<std::uint16_t>(r.master.port);
  options.isServer = r.ranks.rank == 0 && !r.store_is_served;
  options.numWorkers = static_cast<size_t>(r.ranks.world);
  options.waitWorkers = false;
  options.timeout = milliseconds(await_master(r, options.isServer, timeout_seconds));
  if (options.isServer && r.listen_fd >= 0) options.masterListenFd = r.listen_fd;
  try {
    auto store = c10::make_intrusive<c10d::TCPStore>(r.master.host, options);
    store->setTimeout(milliseconds(timeout_seconds));
    return store;
  } catch (const std::exception& e) {
    fail(
        Exit::kEnvironment,
        "rank {}: no rendezvous at {}:{}: {}; is rank 0 running there, and the port open and free?",
        r.ranks.rank,
        r.master.host,
        r.master.port,
        cause_line(message_of(e)));
  }
}

[[noreturn]] void explain(int64_t rank, const char* what, const std::string& text) {
  const bool peers = tells_of_lost_peer(text) || tells_of_vain_wait(text);
  const std::string ways = nccl_ways_out(text);
  fail(Exit::kEnvironment,
       "rank {}: {} failed: {}{}{}",
       rank,
       what,
       cause_line(text),
       peers ? " (a peer died, or the network between ranks is cut)" : "",
       ways.empty() ? "" : ". " + ways);
}

// Runs a collective and turns its failure into one readable line. What has its own words already
// and what is a mistake of this program stay as they are.
template <class Call>
void guarded(int64_t rank, const char* what, Call&& call) {
  try {
    call();
  } catch (const UserError&) {
    throw;
  } catch (const std::logic_error&) {
    throw;
  } catch (const c10::OutOfMemoryError&) {
    throw;
  } catch (const std::exception& e) {
    explain(rank, what, message_of(e));
  }
}

void all_reduce(c10d::ProcessGroup& group, const at::Tensor& tensor) {
  std::vector<at::Tensor> tensors = {tensor};
  group.allreduce(tensors)->wait();
}

// A key prefix of our own: under torchrun the store is shared with its agent, and it outlives a
// restart, whose ranks must not read the addresses of those before them.
c10::intrusive_ptr<c10d::Store> own_keys(const c10::intrusive_ptr<c10d::Store>& store) {
  const char* restarts = std::getenv("TORCHELASTIC_RESTART_COUNT");
  const std::string prefix = fmt::format("gantrain/{}", restarts == nullptr ? "0" : restarts);
  return c10::make_intrusive<c10d::PrefixStore>(prefix, store);
}

// The connections of this process: a descriptor of each. What listens is none.
std::map<ino_t, int> open_connections() {
  std::map<ino_t, int> sockets;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd", error)) {
    const auto number = parse_int(entry.path().filename().string());
    if (!number) continue;
    const int descriptor = static_cast<int>(*number);
    struct stat what {};
    int listens = 0;
    socklen_t size = sizeof listens;
    if (::fstat(descriptor, &what) != 0 || !S_ISSOCK(what.st_mode)) continue;
    if (::getsockopt(descriptor, SOL_SOCKET, SO_ACCEPTCONN, &listens, &size) == 0 && listens == 0)
      sockets[what.st_ino] = descriptor;
  }
  return sockets;
}

std::string unconnected_text(int64_t rank, double seconds) {
  const char* interface = std::getenv("NCCL_SOCKET_IFNAME");
  return fmt::format(
      "rank {}: NCCL has not connected the ranks within {}: is the network interface right "
      "(NCCL_SOCKET_IFNAME {}), and are ports open between the nodes? NCCL_DEBUG=INFO says more",
      rank,
      short_duration(seconds),
      interface == nullptr ? "is not set" : "= " + std::string(interface));
}

constexpr double kSilence = 20;  // seconds without a word of NCCL's, until gantrain says something

// Tells rank 0's user who waits for whom. The store that NCCL uses may be held by a call that
// waits.
void tell_who_waits(const Rendezvous& r, const std::string& address) {
  try {
    Rendezvous reader = r;
    reader.store_is_served = true;
    const auto store = own_keys(open_store(reader, kSilence));
    warn("{}", connecting_text(*store, r.ranks, kSilence, address));
  } catch (const std::exception& e) {
    warn("NCCL has not connected the ranks after {}: {}", short_duration(kSilence), e.what());
  }
}

// Before NCCL fails for it, with less telling words.
void check_shared_memory(const RankInfo& ranks) {
  struct statvfs shared {};
  if (ranks.local_rank != 0 || statvfs("/dev/shm", &shared) != 0 || shared.f_blocks == 0) return;
  const auto reach = reinterpret_cast<PeersReach>(dlsym(RTLD_DEFAULT, kPeersReach));
  const auto bytes = static_cast<int64_t>(shared.f_blocks * shared.f_frsize);
  const std::string text =
      shared_memory_text(bytes, ranks.local_world, reach == nullptr || reach());
  if (!text.empty()) warn("{}", text);
}

constexpr int64_t kMostBytes = 1023;

// A checksum is cut into pieces h of 16 bits; ranks send h and h^2. All ranks have the same h
// exactly if W sum(h^2) = (sum h)^2 (Cauchy and Schwarz), which int64 holds without rounding.
constexpr int64_t kPieces = 4;

// Of a tensor's bits, computed where it is, int64 []: the sum of all words times odd numbers of
// their own, modulo 2^64. A difference in one word changes it always, one in many words but for a
// chance of about 2^-63.
at::Tensor sum_of_bits(const at::Tensor& given) {
  const at::Tensor flat = given.detach().contiguous().reshape(-1);
  const at::Tensor words =
      (flat.nbytes() % 4 == 0 ? flat.view(at::kByte).view(at::kInt) : flat.view(at::kByte))
          .to(at::kLong);
  // An odd multiple of the golden ratio's bits, mixed so that neighbours' multipliers have nothing
  // in common.
  at::Tensor odd = torch::arange(1, words.numel() + 1, words.options());
  odd.mul_(static_cast<int64_t>(0x9e3779b97f4a7c15U));
  odd.bitwise_xor_(odd.bitwise_right_shift(29)).mul_(static_cast<int64_t>(0xbf58476d1ce4e5b9U));
  return words.mul_(odd.bitwise_or_(1)).sum();
}

// Each tensor's pieces and their squares, int64 [tensors, kPieces, 2]: computed on the tensors'
// device where reading from it waits, and sent as they are.
at::Tensor checksums(const StateTensors& tensors) {
  std::vector<at::Tensor> hashes;
  for (const StateTensor& state : tensors) {
    const at::Tensor& t = state.tensor;
    if (reads_are_free(t.device())) {
      const at::Tensor held = t.detach().contiguous();
      const uint64_t hash = hash64({static_cast<const char*>(held.data_ptr()), held.nbytes()});
      hashes.push_back(torch::scalar_tensor(static_cast<int64_t>(hash), at::kLong));
    } else {
      hashes.push_back(sum_of_bits(t));
    }
  }
  const at::Tensor all = torch::stack(hashes).unsqueeze(1);
  const at::Tensor shifts = torch::arange(0, 64, 16, all.options());
  const at::Tensor pieces = all.bitwise_right_shift(shifts).bitwise_and(0xffff);
  return torch::stack({pieces, pieces.square()}, 2);
}

// Weights are compared before their average: if the average is the first that differs, the weights
// are equal.
const char* likely_cause(const StateTensor& state) {
  if (state.name.find("_ema/") != std::string::npos)
    return "the average was not updated on every rank alike";
  if (state.kind == StateKind::kRunningStatistic)
    return "batch statistics were not averaged (dist.broadcast_buffers)";
  if (state.kind == StateKind::kRecipe)
    return "a recipe's own sum that it did not declare as shared";
  return "a gradient was not reduced: a network called around its handle, or a draw that depends "
         "on "
         "the rank";
}

// All ranks have found the same difference, so all of them come here and make the same calls. They
// find out which rank is farthest from rank 0.
[[noreturn]] void report(Group& group, const StateTensor& state, at::Device device) {
  const at::Tensor tensor = state.tensor.detach().to(device);
  at::Tensor first = tensor.clone();
  group.broadcast_(first);
  const std::vector<double> distances =
      numbers_of_ranks((tensor - first).abs().max().to(at::kDouble).item<double>(), group);
  const auto worst = torch::tensor(distances, at::kDouble).argmax().item<int64_t>();
  fail(Exit::kInternal,
       "ranks differ: {} of rank {} is {:.3g} from rank 0's; likely {}",
       state.name,
       worst,
       distances[static_cast<size_t>(worst)],
       likely_cause(state));
}

}  // namespace

Group::Group(const RankInfo& ranks, at::Device device)
    : ranks_(ranks), device_(device), impl_(std::make_unique<Impl>()) {}

// While an exception passes through, this rank has failed and others may be dead.
Group::~Group() {
  if (!impl_->group) return;
  if (std::uncaught_exceptions() > 0) {
    abandon(std::move(impl_->group), device_);
  } else if (!shut_down(impl_->group, device_, kShutdownSeconds)) {
    try_to_warn(fmt::format("rank {}: the process group did not shut down in order", rank()));
    abandon(std::move(impl_->group), device_);
  }
}

std::shared_ptr<Group> Group::join(const Rendezvous& r,
                                   BackendKind backend,
                                   at::Device device,
                                   double timeout_seconds,
                                   const std::shared_ptr<const std::atomic<bool>>& given_up) {
  std::shared_ptr<Group> group(new Group(r.ranks, device));
  if (group->world() == 1) return group;
  c10::initLogging();  // C++ programs must ask for TORCH_CPP_LOG_LEVEL to be heard
  Impl& impl = *group->impl_;
  impl.store = open_store(r, timeout_seconds);
  const auto store = own_keys(impl.store);
  meet(*store, r.ranks, timeout_seconds);
  const std::string address = r.ranks.nodes == 1 ? "" : local_address(r.master);
  if (backend == BackendKind::kGloo && !address.empty() && r.ranks.local_rank == 0)
    info("network other nodes reach this one ({}) at {}", host_name(), address);
  std::optional<Deadline> deadline, silence;
  if (backend == BackendKind::kNccl) {
    check_shared_memory(r.ranks);
    // All ranks are here when this returns, so what follows waits for the network alone.
    check_one_rank_per_device(*store, r.ranks, read_device_identity(device.index()));
    const auto is_waited_for = [given_up] { return given_up == nullptr || !*given_up; };
    deadline.emplace(timeout_seconds, [=, rank = r.ranks.rank] {
      if (is_waited_for()) fail(Exit::kEnvironment, "{}", unconnected_text(rank, timeout_seconds));
    });
    note_connecting(*store, r.ranks);
    const auto tell = [&, is_waited_for] { is_waited_for() ? tell_who_waits(r, address) : void(); };
    if (r.ranks.rank == 0) silence.emplace(kSilence, tell);
  }
  const bool ends_gloo = given_up != nullptr && backend == BackendKind::kGloo;
  const auto before = ends_gloo ? open_connections() : std::map<ino_t, int>();
  guarded(group->rank(), "forming the process group", [&] {
    impl.group = make_process_group(
        backend, store, {r.ranks, milliseconds(timeout_seconds), address, !!given_up}, device);
  });
  if (ends_gloo) impl.sockets = open_connections();
  for (const auto& [socket, descriptor] : before) impl.sockets.erase(socket);
  // How many ranks there are, and a number of rank 0's that float32 holds exactly.
  const int64_t session = group->rank() == 0 ? std::random_device()() % (1 << 24) : 0;
  at::Tensor sums = torch::tensor({1.0F, static_cast<float>(session)}).to(device);
  guarded(group->rank(), "the first all-reduce", [&] {
    all_reduce(*impl.group, sums);
    sums = sums.cpu();
  });
  if (sums[0].item<float>() != static_cast<float>(group->world())) {
    fail(Exit::kEnvironment,
         "rank {}: the first all-reduce counted {} of {} ranks",
         group->rank(),
         sums[0].item<float>(),
         group->world());
  }
  impl.session = static_cast<int64_t>(sums[1].item<float>());
  return group;
}

void Group::sum_(at::Tensor& tensor, const char* purpose) {
  if (world() == 1) return;
  check_on_group_device("all-reduce", tensor.device(), device_);
  const GroupCall call(*this, purpose);
  guarded(rank(), "all-reduce", [&] { all_reduce(*impl_->group, tensor); });
}

void Group::broadcast_(at::Tensor& tensor) {
  if (world() == 1) return;
  check_on_group_device("broadcast", tensor.device(), device_);
  const GroupCall call(*this, "rank 0's values");
  guarded(rank(), "broadcast", [&] {
    std::vector<at::Tensor> tensors = {tensor};
    impl_->group->broadcast(tensors)->wait();
  });
}

void Group::barrier() {
  if (world() == 1) return;
  at::Tensor one = torch::ones({1}, at::TensorOptions().device(device_));
  sum_(one, "barrier");
  one.item<float>();  // on a GPU: wait
}

void Group::exchange(at::Tensor& tensor, int64_t other, bool sends) {
  check_on_group_device("exchange", tensor.device(), device_);
  guarded(rank(), sends ? "sending to a rank" : "receiving from a rank", [&] {
    std::vector<at::Tensor> tensors = {tensor};
    c10d::ProcessGroup& group = *impl_->group;
    const int peer = static_cast<int>(other);
    (sends ? group.send(tensors, peer, 0) : group.recv(tensors, peer, 0))->wait();
  });
}

void Group::on_rank_0(const std::function<void()>& work, const std::function<void()>& waiting) {
  if (world() == 1) {
    work();
    return;
  }
  const std::string key = fmt::format("gantrain/alone/{}/{}", impl_->session, ++impl_->turns);
  if (rank() == 0) {
    work();
    guarded(rank(), "telling the others to go on", [&] {
      impl_->store->set(key, "done");
      const std::string late = impl_->late_is_told ? "" : objection_in(*own_keys(impl_->store));
      impl_->late_is_told = impl_->late_is_told || !late.empty();
      if (!late.empty()) warn("refused one that came late: {}", late);
    });
    return;
  }
  guarded(rank(), "waiting for rank 0", [&] {
    // At most a thousand questions a second to the one store. A wait with a time limit would ask
    // less, but c10d takes longer to throw what tells of its end than this rank may be silent.
    using Seconds = std::chrono::duration<double>;
    const Seconds longest(std::clamp(static_cast<double>(world()) / 1e3, 0.05, 1.0));
    for (Seconds pause(0.001); !impl_->store->check({key});
         pause = std::min(1.5 * pause, longest)) {
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

// gloo's own abort() leaves those waiting who wait for a live peer (LibTorch 2.11): its connections
// are ended below it.
void Group::abort() {
  if (!impl_->group) return;
  for (const auto& [socket, descriptor] : impl_->sockets) {
    struct stat what {};  // it may be closed by now, and another file have its number
    if (::fstat(descriptor, &what) == 0 && what.st_ino == socket) ::shutdown(descriptor, SHUT_RDWR);
  }
  const c10::DeviceGuard guard(device_);
  impl_->group->abort();
}

Traffic difference(const Traffic& before, const Traffic& after) {
  Traffic spent = after;
  spent.collectives -= before.collectives;
  spent.bytes -= before.bytes;
  spent.waited -= before.waited;
  return spent;
}

double waited_in(const Traffic& spent, double now) {
  const bool by_reducer = spent.collectives > 0 && spent.returned < spent.launched;
  return spent.waited + (by_reducer ? now - spent.launched : 0);
}

Traffic Group::traffic() const {
  return world() == 1 ? Traffic{} : traffic_of(*impl_->group, device_);
}

c10d::ProcessGroup* Group::process_group() const { return impl_->group.get(); }

std::vector<double> numbers_of_ranks(double mine, Group& group) {
  at::Tensor all = torch::zeros({group.world()}, at::kDouble);
  all[group.rank()] = mine;
  all = all.to(device_of(group));
  group.sum_(all);
  all = all.cpu();
  const double* numbers = all.const_data_ptr<double>();
  return {numbers, numbers + group.world()};
}

std::string text_of_rank(const std::string& mine, int64_t rank, Group& group, c10::Device device) {
  // A sum over all ranks to which the others add nothing.
  at::Tensor text = torch::zeros({kMostBytes}, at::kInt);
  if (group.rank() == rank) {
    const auto count = std::min<int64_t>(kMostBytes, static_cast<int64_t>(mine.size()));
    for (int64_t i = 0; i < count; ++i)
      text.data_ptr<int32_t>()[i] = static_cast<uint8_t>(mine[static_cast<size_t>(i)]);
  }
  text = text.to(device);
  group.sum_(text);
  text = text.cpu();
  std::string told;
  for (int64_t i = 0; i < kMostBytes && text.data_ptr<int32_t>()[i] != 0; ++i)
    told += static_cast<char>(text.data_ptr<int32_t>()[i]);
  return told;
}

void throw_first_objection(const std::string& objection, Group& group, c10::Device device) {
  const std::vector<double> objects = numbers_of_ranks(objection.empty() ? 0 : 1, group);
  const auto first = std::find(objects.begin(), objects.end(), 1) - objects.begin();
  if (first == group.world()) return;
  throw UserError(Exit::kEnvironment, text_of_rank(objection, first, group, device));
}

std::string shared_text(const std::string& mine, Group& group, c10::Device device) {
  at::Tensor length = torch::full({1}, static_cast<int64_t>(mine.size()), at::kLong).to(device);
  group.broadcast_(length);
  const auto size = length.item<int64_t>();
  at::Tensor text = torch::zeros({size}, at::kByte);
  if (group.rank() == 0) std::copy(mine.begin(), mine.end(), text.data_ptr<uint8_t>());
  if (size == 0) return "";
  text = text.to(device);
  group.broadcast_(text);
  text = text.cpu();
  const uint8_t* bytes = text.data_ptr<uint8_t>();
  return {bytes, bytes + size};
}

void check_equal(Group& group, const StateTensors& tensors, bool with_running_statistics) {
  if (group.world() == 1) return;
  StateTensors compared;
  for (const StateTensor& item : tensors) {
    const bool left_out = item.kind == StateKind::kRunningStatistic && !with_running_statistics;
    if (item.tensor.numel() > 0 && !left_out) compared.push_back(item);
  }
  if (compared.empty()) return;
  const at::Device device = device_of(group);
  at::Tensor sums = checksums(compared).to(device);
  group.sum_(sums, "comparison of ranks");
  sums = sums.cpu();
  const at::Tensor same = (sums.select(2, 1) * group.world()).eq(sums.select(2, 0).square()).all(1);
  for (int64_t i = 0; i < same.size(0); ++i) {
    if (!same[i].item<bool>()) report(group, compared[static_cast<size_t>(i)], device);
  }
}

}  // namespace gantrain

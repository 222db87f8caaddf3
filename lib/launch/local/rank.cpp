// SPDX-License-Identifier: Apache-2.0
#include "launch/local/rank.h"

#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <new>
#include <thread>

#include "util/system.h"

namespace gantrain {

static_assert(std::atomic<int64_t>::is_always_lock_free && std::atomic<int>::is_always_lock_free,
              "processes share these, and signal handlers write them");

void RankSlot::beat(int64_t iteration, int64_t images_seen) {
  iteration_.store(iteration, std::memory_order_relaxed);
  images_seen_.store(images_seen, std::memory_order_relaxed);
  beat();
}

void RankSlot::report_failure(Exit code, std::string_view message) {
  int expected = kNone;
  if (!failure_state_.compare_exchange_strong(expected, kBeingWritten)) return;
  failure_ns_.store(monotonic_ns(), std::memory_order_relaxed);
  failure_code_.store(static_cast<int>(code), std::memory_order_relaxed);
  std::memcpy(message_.data(), message.data(), std::min(message.size(), kMessageBytes - 1));
  failure_state_.store(kWritten, std::memory_order_release);
}

std::optional<RankSlot::Failure> RankSlot::failure() const {
  if (failure_state_.load(std::memory_order_acquire) != kWritten) return std::nullopt;
  return Failure{static_cast<Exit>(failure_code_.load(std::memory_order_relaxed)),
                 failure_ns_.load(std::memory_order_relaxed),
                 std::string(message_.data())};
}

void RankSlot::report_crash(int signal, std::string_view stack) {
  int expected = kNone;
  if (!crash_state_.compare_exchange_strong(expected, kBeingWritten)) return;
  crash_signal_.store(signal, std::memory_order_relaxed);
  std::memcpy(stack_.data(), stack.data(), std::min(stack.size(), kStackBytes - 1));
  crash_state_.store(kWritten, std::memory_order_release);
}

std::optional<RankSlot::Crash> RankSlot::crash() const {
  if (crash_state_.load(std::memory_order_acquire) != kWritten) return std::nullopt;
  return Crash{crash_signal_.load(std::memory_order_relaxed), std::string(stack_.data())};
}

std::unique_ptr<RankStatusBoard, RankStatusBoard::Unmap> RankStatusBoard::create(int64_t ranks) {
  const size_t bytes = sizeof(RankStatusBoard) + static_cast<size_t>(ranks) * sizeof(RankSlot);
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) fail(Exit::kEnvironment, "no shared memory for {} ranks", ranks);
  auto* board = new (memory) RankStatusBoard(ranks, bytes);
  for (int64_t i = 1; i < ranks; ++i) new (board->slots_ + i) RankSlot;
  return std::unique_ptr<RankStatusBoard, Unmap>(board);
}

void RankStatusBoard::Unmap::operator()(RankStatusBoard* board) const {
  munmap(board, board->bytes_);
}

bool RankStatusBoard::all_meet() const {
  for (int64_t i = 0; i < ranks_; ++i) {
    const std::string phase = slots_[i].phase();
    if (phase != "start-up" && phase != "rendezvous") return false;
  }
  return true;
}

void RankStatusBoard::renew(int64_t index) {
  slots_[index].~RankSlot();
  new (slots_ + index) RankSlot;
}

void RankStatusBoard::set_run_folder(const std::string& folder) {
  if (folder.empty() || folder == run_folder()) return;
  const size_t size = std::min(folder.size(), run_folder_.size() - 1);
  std::memcpy(run_folder_.data(), folder.data(), size);
  has_run_folder_.store(true, std::memory_order_release);
}

std::string RankStatusBoard::run_folder() const {
  return has_run_folder_.load(std::memory_order_acquire) ? run_folder_.data() : "";
}

namespace {

void set(const char* name, int64_t value) { setenv(name, std::to_string(value).c_str(), 1); }

int report(const RankContext& context, Exit code, const char* message) {
  context.slot().report_failure(code, message);
  return static_cast<int>(code);
}

}  // namespace

void export_environment(const RankContext& context, bool threads_given) {
  set("RANK", context.rank());
  set("LOCAL_RANK", context.ranks().local_rank);
  set("WORLD_SIZE", context.ranks().world);
  set("LOCAL_WORLD_SIZE", context.ranks().local_world);
  set("GROUP_RANK", context.ranks().node_rank);
  set("NODE_RANK", context.ranks().node_rank);
  setenv("MASTER_ADDR", context.rendezvous.master.host.c_str(), 1);
  set("MASTER_PORT", context.rendezvous.master.port);
  if (threads_given || environment_variable("OMP_NUM_THREADS").empty())
    set("OMP_NUM_THREADS", context.threads);
}

int report_exception(const RankContext& context) {
  try {
    throw;
  } catch (const UserError& e) {
    return report(context, e.code(), e.what());
  } catch (const std::bad_alloc&) {
    return report(context, Exit::kOutOfMemory, "out of host memory");
  } catch (const std::exception& e) {
    return report(context, Exit::kInternal, e.what());
  } catch (...) {
    return report(context, Exit::kInternal, "an exception of unknown type");
  }
}

int run_rank(const RankContext& context, RankMain main, const std::string& request_json) {
  try {
    const int code = main(context, request_json.c_str());
    context.slot().returned = true;
    return code;
  } catch (...) {
    return report_exception(context);
  }
}

namespace {

constexpr uint64_t kDismissed = 0xffff;  // instead of a rank

uint64_t packed(const Roster::Place& p) {
  const uint64_t rank = p.dismissed ? kDismissed : static_cast<uint64_t>(p.rank);
  return static_cast<uint64_t>(p.generation) << 32 | static_cast<uint64_t>(p.world) << 16 | rank;
}

Roster::Place unpacked(uint64_t word) {
  const uint64_t rank = word & 0xffff;
  Roster::Place place{.generation = static_cast<int64_t>(word >> 32),
                      .world = static_cast<int64_t>(word >> 16 & 0xffff),
                      .dismissed = rank == kDismissed};
  if (!place.dismissed) place.rank = static_cast<int64_t>(rank);
  return place;
}

}  // namespace

void Roster::ring() const {
  if (bell_ >= 0) ::eventfd_write(bell_, 1);
}

void Roster::begin(int bell, const std::string& own_host) {
  own_host.copy(own_host_.data(), kHostBytes - 1);
  bell_ = bell;
  used_ = true;
}

void Roster::announce(int64_t slot, int64_t border) {
  seat(slot).border = border;
  seat(slot).announced += 1;
  ring();
}

std::optional<Roster::Place> Roster::place_after(int64_t slot, int64_t generation) const {
  const Place place = unpacked(seat(slot).place);
  if (place.generation <= generation) return std::nullopt;
  return place;
}

void Roster::set_meeting(int64_t generation, const Endpoint& at) {
  if (port_ >> 16 >= generation) return;  // it is known
  port_ = 0;
  for (size_t i = 0; i + 1 < kHostBytes; ++i) host_[i] = i < at.host.size() ? at.host[i] : '\0';
  port_ = generation << 16 | at.port;
  ring();
}

std::optional<Endpoint> Roster::meeting(int64_t generation) const {
  const int64_t known = port_;
  if (known == 0 || known >> 16 != generation) return std::nullopt;
  Endpoint at{.host = "", .port = known & 0xffff};
  for (size_t i = 0; i < kHostBytes && host_[i] != '\0'; ++i) at.host += host_[i];
  if (port_ != known) return std::nullopt;  // a later generation's is being written
  return at;
}

void Roster::put(int64_t slot, const Place& place) { seat(slot).place = packed(place); }

void Roster::forget(int64_t slot) {
  seat(slot).announced = 0;
  seat(slot).border = -1;
  seat(slot).place = 0;
}

RosterNews Roster::news(int64_t first, int64_t count) const {
  RosterNews news{.lost = lost_, .wanted = wanted_, .generation = port_ >> 16};
  if (const auto at = meeting(news.generation)) {
    news.host = at->host;
    news.port = at->port;
  } else {
    news.generation = 0;
  }
  for (int64_t slot = first; slot < first + count; ++slot) {
    const Seat& one = seat(slot);
    news.seats.push_back({one.announced, one.border, static_cast<int64_t>(one.place.load())});
  }
  return news;
}

void Roster::take_places(int64_t first, const RosterNews& news) {
  lost_ = std::max<int64_t>(lost_, news.lost);
  wanted_ = std::max<int64_t>(wanted_, news.wanted);
  if (news.generation > 0) set_meeting(news.generation, {news.host, news.port});
  for (size_t i = 0; i < news.seats.size(); ++i) {
    Seat& one = seat(first + static_cast<int64_t>(i));
    const auto place = static_cast<uint64_t>(news.seats[i].place);
    if (place > one.place) one.place = place;
  }
}

void Roster::take_seats(int64_t first, const RosterNews& news) {
  if (news.generation > 0) set_meeting(news.generation, {news.host, news.port});
  for (size_t i = 0; i < news.seats.size(); ++i) {
    Seat& one = seat(first + static_cast<int64_t>(i));
    one.border = news.seats[i].border;
    one.announced = news.seats[i].announced;
  }
}

namespace {

void pause_briefly() { std::this_thread::sleep_for(std::chrono::milliseconds(1)); }

}  // namespace

ElasticRank::ElasticRank(const RankContext& context)
    : context_(context), roster_(context.board->roster) {}

bool ElasticRank::is_lost() const { return roster_.is_lost(place_.generation); }
bool ElasticRank::is_wanted() const { return roster_.is_wanted(place_.generation); }

std::optional<Rendezvous> ElasticRank::meet(int64_t border) {
  const RankInfo& own = context_.ranks();
  const int64_t slot = context_.rank();  // the first rank is that of this slot
  while (true) {
    roster_.announce(slot, border);
    std::optional<Roster::Place> place;
    while (!(place = roster_.place_after(slot, place_.generation))) pause_briefly();
    if (place->dismissed) return std::nullopt;
    place_ = *place;
    Rendezvous meeting;
    meeting.ranks = {.rank = place_.rank,
                     .world = place_.world,
                     .local_rank = own.nodes > 1 ? own.local_rank : place_.rank,
                     .local_world = own.nodes > 1 ? own.local_world : place_.world,
                     .node_rank = own.node_rank,
                     .nodes = own.nodes};
    if (place_.rank == 0) {
      const std::string host = roster_.own_host();
      const Listener listener = listen_on(0, addresses_to_bind(host));
      meeting.listen_fd = ::dup(listener.socket.get());  // the store closes it
      meeting.master = {host, listener.port};
      roster_.set_meeting(place_.generation, meeting.master);
      return meeting;
    }
    std::optional<Endpoint> at;
    while (!at && !is_lost()) {
      pause_briefly();
      at = roster_.meeting(place_.generation);
    }
    if (!at) continue;
    meeting.master = *at;
    return meeting;
  }
}

}  // namespace gantrain

// SPDX-License-Identifier: Apache-2.0
#include "launch/local/rank.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <new>

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
  if (folder.empty()) return;
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

}  // namespace gantrain

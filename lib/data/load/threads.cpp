// SPDX-License-Identifier: Apache-2.0
#include "data/load/threads.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <mutex>

#include "util/error.h"
#include "util/system.h"

namespace gantrain {

std::thread start_worker(std::function<void()> body) {
  const BlockSignals blocked;
  return std::thread(std::move(body));
}

namespace {

constexpr int64_t kSlotsOfAThread = 4;
constexpr auto kPoll = std::chrono::milliseconds(50);

class OrderedWork {
 public:
  OrderedWork(const WorkSize& size, const WorkOnSlot& make)
      : size_(size), make_(make), ready_(slots(size), false) {}

  ~OrderedWork() { end(); }
  OrderedWork(const OrderedWork&) = delete;
  OrderedWork& operator=(const OrderedWork&) = delete;

  bool run(const WorkOnSlot& take, const StopCheck& stop) {
    const int64_t threads = std::min(std::max<int64_t>(size_.threads, 1), size_.count);
    for (int64_t i = 0; i < threads; ++i)
      threads_.push_back(start_worker([this] { make_pieces(); }));
    for (int64_t piece = 0; piece < size_.count; ++piece) {
      if (!wait_for(piece, stop)) return false;
      take(piece, slot_of(piece));
      const std::lock_guard lock(mutex_);
      ready_[slot_of(piece)] = false;
      taken_ = piece + 1;
      room_.notify_all();
    }
    return true;
  }

 private:
  size_t slot_of(int64_t piece) const { return static_cast<size_t>(piece) % ready_.size(); }

  // Waits until the piece is made; returns false where a stop is asked for.
  bool wait_for(int64_t piece, const StopCheck& stop) {
    std::unique_lock lock(mutex_);
    const auto made = [&] { return error_ != nullptr || ready_[slot_of(piece)]; };
    while (true) {
      const bool is_made = made_.wait_for(lock, kPoll, made);
      if (error_) std::rethrow_exception(error_);
      if (stop) {
        lock.unlock();
        if (stop()) return false;
        lock.lock();
      }
      if (is_made) return true;
    }
  }

  void make_pieces() {
    std::unique_lock lock(mutex_);
    while (!ended_ && next_ < size_.count) {
      const int64_t piece = next_++;
      room_.wait(lock,
                 [&] { return ended_ || piece < taken_ + static_cast<int64_t>(ready_.size()); });
      if (ended_) return;
      lock.unlock();
      std::exception_ptr error;
      try {
        make_(piece, slot_of(piece));
      } catch (...) {
        error = std::current_exception();
      }
      lock.lock();
      if (error && !error_) error_ = error;
      ready_[slot_of(piece)] = true;
      made_.notify_one();
    }
  }

  void end() {
    {
      const std::lock_guard lock(mutex_);
      ended_ = true;
      room_.notify_all();
    }
    for (std::thread& thread : threads_) thread.join();
  }

  const WorkSize size_;
  const WorkOnSlot& make_;
  std::vector<bool> ready_;  // by slot: made, and not taken yet
  std::vector<std::thread> threads_;
  std::mutex mutex_;
  std::condition_variable made_;
  std::condition_variable room_;
  int64_t next_ = 0;   // the first piece that nobody makes yet
  int64_t taken_ = 0;  // pieces taken so far
  bool ended_ = false;
  std::exception_ptr error_;
};

}  // namespace

size_t slots(const WorkSize& size) {
  return static_cast<size_t>(std::max<int64_t>(size.threads, 1) * kSlotsOfAThread);
}

bool work_in_order(const WorkSize& size,
                   const WorkOnSlot& make,
                   const WorkOnSlot& take,
                   const StopCheck& stop) {
  return OrderedWork(size, make).run(take, stop);
}

std::vector<int64_t> evenly_spaced(int64_t count, int64_t limit) {
  const int64_t taken = std::min(count, limit);
  std::vector<int64_t> pictures;
  for (int64_t i = 0; i < taken; ++i) pictures.push_back(i * count / taken);
  return pictures;
}

ScanResult scan_pictures(const std::vector<int64_t>& pictures,
                         const std::function<ImageInfo(int64_t)>& look,
                         bool stop_at_bad,
                         const StopCheck& stop) {
  // Enough to keep a disk busy; every rank of a node scans at the same time.
  constexpr unsigned kMostThreads = 8;
  constexpr double kSecondsToCountBad = 1;
  struct Seen {
    ImageInfo info;
    std::string bad;
  };
  ScanResult result;
  const double start = monotonic_seconds();
  bool stopped = false;
  work_in_order<Seen>(
      {.count = static_cast<int64_t>(pictures.size()),
       .threads = std::clamp(std::thread::hardware_concurrency(), 1U, kMostThreads)},
      [&](int64_t piece) -> Seen {
        try {
          return {look(pictures[static_cast<size_t>(piece)]), ""};
        } catch (const UserError& error) {
          return {{}, error.what()};
        }
      },
      [&](int64_t piece, Seen&& seen) {
        if (!seen.bad.empty()) {
          result.bad.push_back({pictures[static_cast<size_t>(piece)], std::move(seen.bad)});
          return;
        }
        result.color |= seen.info.channels >= 3;
        result.alpha += !seen.info.stack && seen.info.channels % 2 == 0 ? 1 : 0;
        if (seen.info.stack && result.stack == 0) result.stack = seen.info.channels;
        (seen.info.depth == 16 ? result.wide : result.narrow) += 1;
        result.sizes[{seen.info.width, seen.info.height}] += 1;
      },
      [&] {
        stopped = stop && stop();
        const bool enough =
            stop_at_bad && !result.bad.empty() && monotonic_seconds() - start >= kSecondsToCountBad;
        return stopped || enough;
      });
  if (stopped) fail(Exit::kStopped, "stopped while the pictures were verified");
  return result;
}

}  // namespace gantrain

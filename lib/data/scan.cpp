// SPDX-License-Identifier: Apache-2.0
#include "data/scan.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <mutex>

#include "data/worker.h"
#include "util/error.h"
#include "util/time.h"

namespace gantrain {

namespace {

// Enough to keep a disk busy; every rank of a node scans at the same time.
constexpr size_t kMaxThreads = 8;
constexpr double kSecondsToCountBad = 1;

class Scan {
 public:
  Scan(const std::vector<int64_t>& pictures,
       const std::function<ImageInfo(int64_t)>& look,
       bool stop_at_bad)
      : pictures_(pictures), look_(look), stop_at_bad_(stop_at_bad) {}

  ScanResult run(const StopCheck& stop) {
    const size_t threads = std::clamp<size_t>(std::thread::hardware_concurrency(), 1, kMaxThreads);
    running_ = std::min(threads, pictures_.size());
    std::vector<std::thread> workers;
    for (size_t i = running_; i > 0; --i) workers.push_back(start_worker([this] { work(); }));
    const bool stopped = wait(stop);
    for (std::thread& worker : workers) worker.join();
    if (error_) std::rethrow_exception(error_);
    if (stopped) fail(Exit::kStopped, "stopped while the pictures were verified");
    std::sort(result_.bad.begin(), result_.bad.end(), [](const BadPicture& a, const BadPicture& b) {
      return a.picture < b.picture;
    });
    return std::move(result_);
  }

 private:
  // True if `stop` ended the scan.
  bool wait(const StopCheck& stop) {
    std::unique_lock lock(mutex_);
    while (!done_.wait_for(lock, std::chrono::milliseconds(50), [this] { return running_ == 0; })) {
      lock.unlock();
      if (stop && stop()) {
        ended_ = true;
        return true;
      }
      lock.lock();
    }
    return false;
  }

  void work() {
    while (!ended_) {
      const size_t i = next_++;
      if (i >= pictures_.size()) break;
      look_at(pictures_[i]);
    }
    const std::lock_guard lock(mutex_);
    --running_;
    done_.notify_one();
  }

  void look_at(int64_t picture) {
    try {
      const ImageInfo info = look_(picture);
      const std::lock_guard lock(mutex_);
      result_.color |= info.channels >= 3;
    } catch (const UserError& error) {
      const std::lock_guard lock(mutex_);
      result_.bad.push_back({picture, error.what()});
    } catch (...) {
      const std::lock_guard lock(mutex_);
      error_ = std::current_exception();
      ended_ = true;
    }
    if (!stop_at_bad_ || monotonic_seconds() - start_ < kSecondsToCountBad) return;
    const std::lock_guard lock(mutex_);
    if (!result_.bad.empty()) ended_ = true;
  }

  const std::vector<int64_t>& pictures_;
  const std::function<ImageInfo(int64_t)>& look_;
  const bool stop_at_bad_;
  const double start_ = monotonic_seconds();
  std::atomic<size_t> next_ = 0;
  std::atomic<bool> ended_ = false;
  std::mutex mutex_;
  std::condition_variable done_;
  size_t running_ = 0;
  std::exception_ptr error_;
  ScanResult result_;
};

}  // namespace

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
  return Scan(pictures, look, stop_at_bad).run(stop);
}

}  // namespace gantrain

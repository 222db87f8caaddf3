// SPDX-License-Identifier: Apache-2.0
#include "data/loader.h"

#include <ATen/ops/empty.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>
#include <utility>
#include <vector>

#include "data/sampler.h"
#include "data/worker.h"
#include "image/planes.h"
#include "image/resize.h"
#include "util/time.h"

namespace gantrain {

namespace {

constexpr int64_t kMostAhead = 4;  // batches

// A batch whose pictures are being loaded.
struct Pending {
  RealBatch batch;
  int64_t claimed = 0;         // pictures that a thread has taken on
  int64_t finished = 0;        // pictures that are there, or never will be
  int64_t first_bad = -1;      // the first picture that could not be loaded
  std::exception_ptr error{};  // what it threw
};

struct Part {
  int64_t first = 0;
  int64_t last = 0;
};

}  // namespace

class Loader::Impl {
 public:
  Impl(std::shared_ptr<const Dataset> dataset,
       const DataOptions& options,
       uint64_t seed,
       const RankInfo& ranks,
       int64_t first_image,
       int64_t global_batch,
       int64_t workers)
      : dataset_(std::move(dataset)),
        sampler_(dataset_->size(), seed, options.mirror),
        resolution_(options.resolution),
        ranks_(ranks),
        first_image_(first_image),
        global_batch_(global_batch),
        count_((global_batch - ranks.rank + ranks.world - 1) / ranks.world),
        part_(std::max<int64_t>(count_ / (4 * std::max<int64_t>(workers, 1)), 1)),
        ahead_(static_cast<size_t>(std::min(workers + 2, kMostAhead))) {
    TORCH_CHECK(ranks.world >= 1 && ranks.rank >= 0 && ranks.rank < ranks.world, "no such rank");
    TORCH_CHECK(global_batch >= ranks.world,
                "a global batch of ",
                global_batch,
                " for ",
                ranks.world,
                " ranks");
    for (int64_t i = 0; i < workers; ++i) workers_.push_back(start_worker([this] { work(); }));
  }

  ~Impl() {
    {
      const std::lock_guard lock(mutex_);
      ended_ = true;
    }
    claimable_.notify_all();
    for (std::thread& worker : workers_) worker.join();
  }

  RealBatch next() {
    const double start = monotonic_seconds();
    RealBatch batch = workers_.empty() ? load_now() : take();
    batch.waited = monotonic_seconds() - start;
    return batch;
  }

 private:
  RealBatch load_now() {
    RealBatch batch = empty_batch();
    for (int64_t i = 0; i < count_; ++i) load(i, buffers_, batch);
    ++begun_;
    return batch;
  }

  RealBatch take() {
    std::unique_lock lock(mutex_);
    ready_.wait(lock, [this] { return !pending_.empty() && pending_.front().finished == count_; });
    if (pending_.front().error) std::rethrow_exception(pending_.front().error);
    RealBatch batch = std::move(pending_.front().batch);
    pending_.pop_front();
    lock.unlock();
    claimable_.notify_all();
    return batch;
  }

  void work() {
    LoadBuffers buffers;
    std::unique_lock lock(mutex_);
    while (true) {
      claimable_.wait(lock, [this] {
        return ended_ || pending_.size() < ahead_ || pending_.back().claimed < count_;
      });
      if (ended_) return;
      Pending& pending = unclaimed();
      const Part part{pending.claimed, std::min(pending.claimed + part_, count_)};
      pending.claimed = part.last;
      lock.unlock();
      int64_t bad = -1;
      std::exception_ptr error;
      for (int64_t i = part.first; i < part.last && !ended_; ++i) {
        try {
          load(i, buffers, pending.batch);
        } catch (...) {
          if (error) continue;
          bad = i;
          error = std::current_exception();
        }
      }
      lock.lock();
      finish(pending, part, bad, error);
    }
  }

  // The batch with pictures that no thread has taken on; begins one if there is none.
  Pending& unclaimed() {
    if (!pending_.empty() && pending_.back().claimed < count_) return pending_.back();
    Pending& pending = pending_.emplace_back();
    try {
      pending.batch = empty_batch();
      ++begun_;
    } catch (...) {  // no memory
      pending.error = std::current_exception();
      pending.claimed = pending.finished = count_;
      ready_.notify_all();
    }
    return pending;
  }

  void finish(Pending& pending, const Part& part, int64_t bad, const std::exception_ptr& error) {
    if (error && (pending.first_bad < 0 || bad < pending.first_bad)) {
      pending.first_bad = bad;
      pending.error = error;
    }
    pending.finished += part.last - part.first;
    if (pending.finished == count_) ready_.notify_all();
  }

  // Loads picture i of this rank's share.
  void load(int64_t i, LoadBuffers& buffers, RealBatch& batch) const {
    const int64_t image = batch.first + ranks_.rank + i * ranks_.world;
    const int64_t index = sampler_.index(image);
    ImageView picture = dataset_->view(index, buffers);
    Image smaller;
    if (picture.width != resolution_.width || picture.height != resolution_.height) {
      smaller = resize(picture, resolution_, Filter::kBox);
      picture = view_of(smaller);
    }
    TORCH_CHECK(picture.width == resolution_.width && picture.height == resolution_.height &&
                    picture.channels == dataset_->channels(),
                "picture of wrong size");
    const int64_t bytes = picture.channels * resolution_.pixels();
    copy_planes(
        picture, sampler_.flipped(image), batch.images.mutable_data_ptr<uint8_t>() + i * bytes);
    if (batch.labels.defined())
      batch.labels.mutable_data_ptr<int64_t>()[i] = dataset_->label(index);
  }

  RealBatch empty_batch() {
    RealBatch batch;
    batch.first = first_image_ + begun_ * global_batch_;
    batch.images = free_memory();
    if (dataset_->classes() > 0) batch.labels = at::empty({count_}, at::kLong);
    return batch;
  }

  // Fresh memory is dear: a page costs more the first time than a decoder's writing to it.
  at::Tensor free_memory() {
    for (const at::Tensor& images : memory_) {
      if (images.use_count() == 1 && images.storage().use_count() == 1) return images;
    }
    at::Tensor images =
        at::empty({count_, dataset_->channels(), resolution_.height, resolution_.width}, at::kByte);
    if (memory_.size() < ahead_ + 1) memory_.push_back(images);
    return images;
  }

  const std::shared_ptr<const Dataset> dataset_;
  const Sampler sampler_;
  const Size resolution_;
  const RankInfo ranks_;
  const int64_t first_image_;
  const int64_t global_batch_;
  const int64_t count_;  // pictures of this rank in a batch
  const int64_t part_;   // pictures that a thread takes on at once
  const size_t ahead_;   // batches

  LoadBuffers buffers_;  // of the thread that calls next(), where there are no workers
  std::atomic<bool> ended_ = false;
  std::mutex mutex_;  // guards what follows
  std::condition_variable ready_;
  std::condition_variable claimable_;
  std::deque<Pending> pending_;     // in their order; workers keep references to them
  std::vector<at::Tensor> memory_;  // images of batches, also of those that were handed out
  int64_t begun_ = 0;               // batches
  std::vector<std::thread> workers_;
};

Loader::Loader(std::shared_ptr<const Dataset> dataset,
               const DataOptions& options,
               uint64_t seed,
               const RankInfo& ranks,
               int64_t first_image,
               int64_t global_batch,
               int64_t workers)
    : impl_(std::make_unique<Impl>(std::move(dataset),
                                   options,
                                   seed,
                                   ranks,
                                   first_image,
                                   global_batch,
                                   options.workers.value_or(workers))) {}
Loader::~Loader() = default;

RealBatch Loader::next() { return impl_->next(); }

}  // namespace gantrain

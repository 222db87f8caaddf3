// SPDX-License-Identifier: Apache-2.0
#include "data/loader.h"

#include <ATen/ops/empty.h>

#include <atomic>
#include <condition_variable>
#include <exception>
#include <map>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "data/sampler.h"
#include "data/worker.h"
#include "image/resize.h"
#include "util/time.h"

namespace gantrain {

namespace {

// [H, W, C] to [C, H, W], left and right exchanged if `flipped`.
void copy_planes(const Image& image, bool flipped, uint8_t* out) {
  const int64_t step = flipped ? -image.channels : image.channels;
  for (int64_t channel = 0; channel < image.channels; ++channel) {
    for (int64_t row = 0; row < image.height; ++row) {
      const int64_t column = flipped ? image.width - 1 : 0;
      const int64_t start = (row * image.width + column) * image.channels + channel;
      const uint8_t* in = &image.pixels[static_cast<size_t>(start)];
      for (int64_t x = 0; x < image.width; ++x) *out++ = in[x * step];
    }
  }
}

}  // namespace

class Loader::Impl {
 public:
  Impl(std::shared_ptr<const Dataset> dataset,
       const DataOptions& options,
       uint64_t seed,
       const RankInfo& ranks,
       int64_t first_image,
       int64_t global_batch)
      : dataset_(std::move(dataset)),
        sampler_(dataset_->size(), seed, options.mirror),
        resolution_(options.resolution),
        ranks_(ranks),
        first_image_(first_image),
        global_batch_(global_batch),
        ahead_(options.workers + 2) {
    TORCH_CHECK(ranks.world >= 1 && ranks.rank >= 0 && ranks.rank < ranks.world, "no such rank");
    TORCH_CHECK(global_batch >= ranks.world,
                "a global batch of ",
                global_batch,
                " for ",
                ranks.world,
                " ranks");
    for (int64_t i = 0; i < options.workers; ++i) {
      workers_.push_back(start_worker([this] { work(); }));
    }
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
    RealBatch batch = workers_.empty() ? *make(consumed_) : take();
    ++consumed_;
    batch.waited = monotonic_seconds() - start;
    return batch;
  }

 private:
  struct Result {
    RealBatch batch;
    std::exception_ptr error;
  };

  RealBatch take() {
    std::unique_lock lock(mutex_);
    ready_.wait(lock, [this] { return results_.count(consumed_) > 0; });
    const auto found = results_.find(consumed_);
    if (found->second.error) std::rethrow_exception(found->second.error);
    RealBatch batch = std::move(found->second.batch);
    results_.erase(found);
    taken_ = consumed_ + 1;
    lock.unlock();
    claimable_.notify_all();
    return batch;
  }

  void work() {
    std::unique_lock lock(mutex_);
    while (true) {
      claimable_.wait(lock, [this] { return ended_ || claimed_ < taken_ + ahead_; });
      if (ended_) return;
      const int64_t number = claimed_++;
      lock.unlock();
      Result result;
      try {
        std::optional<RealBatch> batch = make(number);
        if (!batch) return;
        result.batch = std::move(*batch);
      } catch (...) {
        result.error = std::current_exception();
      }
      lock.lock();
      results_[number] = std::move(result);
      ready_.notify_all();
    }
  }

  // This rank's share of global batch `number`; nothing if the loader ends meanwhile.
  std::optional<RealBatch> make(int64_t number) const {
    const int64_t count = (global_batch_ - ranks_.rank + ranks_.world - 1) / ranks_.world;
    const bool labelled = dataset_->classes() > 0;
    const int64_t bytes = dataset_->channels() * resolution_ * resolution_;
    RealBatch batch;
    batch.first = first_image_ + number * global_batch_;
    batch.images = at::empty({count, dataset_->channels(), resolution_, resolution_}, at::kByte);
    if (labelled) batch.labels = at::empty({count}, at::kLong);
    for (int64_t i = 0; i < count; ++i) {
      if (ended_) return std::nullopt;
      const int64_t image = batch.first + ranks_.rank + i * ranks_.world;
      const int64_t index = sampler_.index(image);
      Image picture = dataset_->load(index);
      if (picture.width != resolution_)
        picture = resize(picture, {resolution_, resolution_}, Filter::kBox);
      TORCH_CHECK(static_cast<int64_t>(picture.pixels.size()) == bytes, "picture of wrong size");
      copy_planes(
          picture, sampler_.flipped(image), batch.images.mutable_data_ptr<uint8_t>() + i * bytes);
      if (labelled) batch.labels.mutable_data_ptr<int64_t>()[i] = dataset_->label(index);
    }
    return batch;
  }

  const std::shared_ptr<const Dataset> dataset_;
  const Sampler sampler_;
  const int64_t resolution_;
  const RankInfo ranks_;
  const int64_t first_image_;
  const int64_t global_batch_;
  const int64_t ahead_;

  int64_t consumed_ = 0;  // batches handed out; of the thread that calls next()
  std::atomic<bool> ended_ = false;
  std::mutex mutex_;  // guards what follows
  std::condition_variable ready_;
  std::condition_variable claimable_;
  std::map<int64_t, Result> results_;
  int64_t claimed_ = 0;
  int64_t taken_ = 0;
  std::vector<std::thread> workers_;
};

Loader::Loader(std::shared_ptr<const Dataset> dataset,
               const DataOptions& options,
               uint64_t seed,
               const RankInfo& ranks,
               int64_t first_image,
               int64_t global_batch)
    : impl_(std::make_unique<Impl>(
          std::move(dataset), options, seed, ranks, first_image, global_batch)) {}
Loader::~Loader() = default;

RealBatch Loader::next() { return impl_->next(); }

}  // namespace gantrain

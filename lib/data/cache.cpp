// SPDX-License-Identifier: Apache-2.0
#include "data/cache.h"

#include <atomic>
#include <mutex>
#include <utility>
#include <vector>

namespace gantrain {

namespace {

class Cache final : public Dataset {
 public:
  Cache(std::shared_ptr<const Dataset> dataset, int64_t max_bytes)
      : dataset_(std::move(dataset)),
        room_(max_bytes),
        kept_(static_cast<size_t>(dataset_->size())) {}

  int64_t size() const override { return dataset_->size(); }
  int64_t channels() const override { return dataset_->channels(); }
  int64_t classes() const override { return dataset_->classes(); }
  int64_t label(int64_t index) const override { return dataset_->label(index); }
  std::string description() const override { return dataset_->description(); }

  Image load(int64_t index) const override {
    std::shared_ptr<const Image>& slot = kept_[static_cast<size_t>(index)];
    {
      std::unique_lock lock(mutex_);
      if (const std::shared_ptr<const Image> image = slot) {
        lock.unlock();
        return *image;
      }
    }
    Image image = dataset_->load(index);
    const auto bytes = static_cast<int64_t>(image.pixels.size());
    std::shared_ptr<const Image> copy = room_ >= bytes ? std::make_shared<Image>(image) : nullptr;
    const std::lock_guard lock(mutex_);
    if (copy && !slot && room_ >= bytes) {
      slot = std::move(copy);
      room_ -= bytes;
    }
    return image;
  }

 private:
  std::shared_ptr<const Dataset> dataset_;
  mutable std::mutex mutex_;
  mutable std::atomic<int64_t> room_;  // bytes
  mutable std::vector<std::shared_ptr<const Image>> kept_;
};

}  // namespace

std::shared_ptr<const Dataset> cached(std::shared_ptr<const Dataset> dataset, int64_t max_bytes) {
  if (max_bytes <= 0) return dataset;
  return std::make_shared<Cache>(std::move(dataset), max_bytes);
}

}  // namespace gantrain

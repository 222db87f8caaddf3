// SPDX-License-Identifier: Apache-2.0
#include "data/load/loader.h"

#include <ATen/ops/empty.h>

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "core/parallel.h"
#include "data/labels/labels.h"
#include "data/load/threads.h"
#include "image/resize.h"
#include "util/system.h"

namespace gantrain {

Sampler::Sampler(int64_t size, uint64_t seed, bool mirror)
    : size_(size), seed_(seed), mirror_(mirror) {
  if (size < 1) throw std::invalid_argument("Sampler: no pictures");
}

int64_t Sampler::index(int64_t image) const {
  const int64_t pass = image / size_, place = image % size_;
  if (size_ > kListed) return stream_of(pass).permuted(place, size_);
  return (*order_of(pass))[static_cast<size_t>(place)];
}

bool Sampler::flipped(int64_t image) const {
  return mirror_ && (Stream(seed_, "flip").bits(static_cast<uint64_t>(image), 0) & 1) != 0;
}

Stream Sampler::stream_of(int64_t pass) const {
  return {seed_, "data/order", static_cast<uint64_t>(pass)};
}

Sampler::Order Sampler::order_of(int64_t pass) const {
  const std::lock_guard lock(mutex_);
  Pass& kept = recent_[pass % 2];
  if (kept.number != pass) {
    kept = {pass, std::make_shared<const std::vector<int64_t>>(stream_of(pass).permutation(size_))};
  }
  return kept.order;
}

namespace {

at::ScalarType type_of_depth(int64_t depth) { return depth == 16 ? at::kUInt16 : at::kByte; }

// Writes picture `at` of [N, C, H, W].
void put_planes(const ImageView& picture, bool flipped, at::Tensor& planes, int64_t at) {
  const int64_t values = picture.channels * picture.height * picture.width;
  if (planes.scalar_type() == at::kByte) {
    copy_planes(picture, flipped, planes.mutable_data_ptr<uint8_t>() + at * values);
  } else {
    copy_planes(picture, flipped, planes.mutable_data_ptr<uint16_t>() + at * values);
  }
}

}  // namespace

at::Tensor load_planes(const Dataset& dataset,
                       const std::vector<WantedPicture>& wanted,
                       int64_t depth) {
  TORCH_CHECK(!wanted.empty(), "load_planes: no pictures");
  const auto count = static_cast<int64_t>(wanted.size());
  LoadBuffers buffers;
  const ImageView first = dataset.view(wanted[0].index, buffers);
  at::Tensor planes =
      at::empty({count, first.channels, first.height, first.width}, type_of_depth(depth));
  parallel_for(0, count, 1, [&](int64_t from, int64_t to) {
    LoadBuffers own;
    for (int64_t i = from; i < to; ++i) {
      const WantedPicture& one = wanted[static_cast<size_t>(i)];
      put_planes(dataset.view(one.index, own), one.flipped, planes, i);
    }
  });
  return planes;
}

namespace {
constexpr int64_t kMostAhead = 4;  // batches
}  // namespace

Loader::Loader(std::shared_ptr<const Dataset> dataset,
               const DataOptions& options,
               uint64_t seed,
               const RankInfo& ranks,
               int64_t first_image,
               int64_t global_batch,
               int64_t workers,
               int64_t units)
    : dataset_(std::move(dataset)),
      sampler_(dataset_->size(), seed, options.mirror),
      resolution_(options.resolution),
      ranks_(ranks),
      first_image_(first_image),
      global_batch_(global_batch),
      units_(units == 0 ? global_batch : units),
      mine_((units_ - ranks.rank + ranks.world - 1) / ranks.world),
      count_(mine_ * (global_batch / units_)),
      threads_(options.workers.value_or(workers)),
      part_(std::max<int64_t>(count_ / (4 * std::max<int64_t>(threads_, 1)), 1)),
      ahead_(static_cast<size_t>(std::min(threads_ + 2, kMostAhead))) {
  TORCH_CHECK(ranks.world >= 1 && ranks.rank >= 0 && ranks.rank < ranks.world, "no such rank");
  TORCH_CHECK(global_batch >= ranks.world,
              "a global batch of ",
              global_batch,
              " for ",
              ranks.world,
              " ranks");
  TORCH_CHECK(global_batch % units_ == 0 && units_ >= ranks.world, units_, " units of a batch");
  try {
    for (int64_t i = 0; i < threads_; ++i) workers_.push_back(start_worker([this] { work(); }));
  } catch (...) {  // as where the system starts no more threads
    end();
    throw;
  }
}

Loader::~Loader() { end(); }

void Loader::end() {
  {
    const std::lock_guard lock(mutex_);
    ended_ = true;
  }
  claimable_.notify_all();
  for (std::thread& worker : workers_) worker.join();
}

Batch Loader::next() {
  const double start = monotonic_seconds();
  Pending taken = workers_.empty() ? load_now() : take();
  first_ = taken.first;
  waited_ = monotonic_seconds() - start;
  return std::move(taken.batch);
}

Loader::Pending Loader::load_now() {
  Pending pending;
  empty(pending);
  for (int64_t i = 0; i < count_; ++i) load(i, buffers_, pending);
  ++begun_;
  return pending;
}

Loader::Pending Loader::take() {
  std::unique_lock lock(mutex_);
  ready_.wait(lock, [this] { return !pending_.empty() && pending_.front().finished == count_; });
  if (pending_.front().error) std::rethrow_exception(pending_.front().error);
  Pending taken = std::move(pending_.front());
  pending_.pop_front();
  lock.unlock();
  claimable_.notify_all();
  return taken;
}

void Loader::work() {
  LoadBuffers buffers;
  std::unique_lock lock(mutex_);
  while (true) {
    claimable_.wait(lock, [this] {
      return ended_ || pending_.size() < ahead_ || pending_.back().claimed < count_;
    });
    if (ended_) return;
    Pending& pending = unclaimed();
    const Range part{pending.claimed, std::min(pending.claimed + part_, count_)};
    pending.claimed = part.last;
    lock.unlock();
    int64_t bad = -1;
    std::exception_ptr error;
    for (int64_t i = part.first; i < part.last && !ended_; ++i) {
      try {
        load(i, buffers, pending);
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
Loader::Pending& Loader::unclaimed() {
  if (!pending_.empty() && pending_.back().claimed < count_) return pending_.back();
  Pending& pending = pending_.emplace_back();
  try {
    empty(pending);
    ++begun_;
  } catch (...) {  // no memory
    pending.error = std::current_exception();
    pending.claimed = pending.finished = count_;
    ready_.notify_all();
  }
  return pending;
}

void Loader::finish(Pending& pending,
                    const Range& part,
                    int64_t bad,
                    const std::exception_ptr& error) {
  if (error && (pending.first_bad < 0 || bad < pending.first_bad)) {
    pending.first_bad = bad;
    pending.error = error;
  }
  pending.finished += part.last - part.first;
  if (pending.finished == count_) ready_.notify_all();
}

// Loads picture i of this rank's share.
void Loader::load(int64_t i, LoadBuffers& buffers, Pending& pending) const {
  Batch& batch = pending.batch;
  const int64_t unit = ranks_.rank + i % mine_ * ranks_.world;
  const int64_t image = pending.first + i / mine_ * units_ + unit;
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
  put_planes(picture, sampler_.flipped(image), batch.real, i);
  if (!batch.labels.defined()) return;
  const LabelVectors& vectors = dataset_->vectors();
  const int64_t length = vectors.length();
  if (length == 0) {
    batch.labels.mutable_data_ptr<int64_t>()[i] = dataset_->label(index);
  } else {
    std::copy_n(vectors.of(index), length, batch.labels.mutable_data_ptr<float>() + i * length);
  }
}

// Gives the next batch its number and memory.
void Loader::empty(Pending& pending) {
  pending.first = first_image_ + begun_ * global_batch_;
  pending.batch.real = free_memory();
  if (dataset_->classes() > 0) pending.batch.labels = at::empty({count_}, at::kLong);
  const int64_t length = dataset_->vectors().length();
  if (length > 0) pending.batch.labels = at::empty({count_, length}, at::kFloat);
}

// Fresh memory is dear: a page costs more the first time than a decoder's writing to it.
at::Tensor Loader::free_memory() {
  for (const at::Tensor& images : memory_) {
    if (images.use_count() == 1 && images.storage().use_count() == 1) return images;
  }
  at::Tensor images =
      at::empty({count_, dataset_->channels(), resolution_.height, resolution_.width},
                type_of_depth(dataset_->depth()));
  if (memory_.size() < ahead_ + 1) memory_.push_back(images);
  return images;
}

}  // namespace gantrain

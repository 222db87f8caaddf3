// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "core/random.h"
#include "core/tensors.h"
#include "data/options.h"
#include "data/pictures/dataset.h"
#include "util/rank_info.h"

namespace gantrain {

// Says which picture of the data is the n-th real image shown, counted over all ranks from 0. Pass
// p = n / size is a permutation of the data keyed by (seed, p): a list of its own up to kListed
// pictures, and above, where each rank would hold gigabytes, computed for each picture.
// Thread-safe.
class Sampler {
 public:
  static constexpr int64_t kListed = int64_t{1} << 24;

  Sampler(int64_t size, uint64_t seed, bool mirror);

  int64_t index(int64_t image) const;
  // Whether image n is shown flipped left to right; never without `mirror`.
  bool flipped(int64_t image) const;

 private:
  using Order = std::shared_ptr<const std::vector<int64_t>>;
  Order order_of(int64_t pass) const;
  Stream stream_of(int64_t pass) const;

  int64_t size_;
  uint64_t seed_;
  bool mirror_;
  mutable std::mutex mutex_;
  struct Pass {
    int64_t number = -1;
    Order order;
  };
  mutable Pass recent_[2];  // a batch may touch the tail of one pass and the head of the next
};

// A picture of a data set, as it is or left and right exchanged.
struct WantedPicture {
  int64_t index = 0;
  bool flipped = false;
};

// Loads pictures, at least one, on several threads: uint8 [N, C, H, W] on the CPU, or uint16 for a
// depth of 16 bits, whatever the data's depth is, in the order asked for. Throws what
// Dataset::view() throws.
at::Tensor load_planes(const Dataset& dataset,
                       const std::vector<WantedPicture>& wanted,
                       int64_t depth = 8);

// Hands out one rank's share of consecutive global batches. `workers` threads, which block all
// signals, prepare up to 4 batches ahead; the batches do not depend on their number. The memory of
// a batch is used again once nobody holds its tensors.
class Loader {
 public:
  // The first batch begins at image `first_image`, counted over all ranks from the start of the
  // run. Pictures larger than options.resolution, as in early stages of a progressive network, are
  // averaged down to it. `workers` counts where options.workers is auto; 0: each batch is loaded
  // when it is asked for. With `units`, a divisor of the batch and at least as many as ranks,
  // sample n of the batch belongs to unit n mod units, and unit u to rank u mod world; 0: each
  // sample is one.
  Loader(std::shared_ptr<const Dataset> dataset,
         const DataOptions& options,
         uint64_t seed,
         const RankInfo& ranks,
         int64_t first_image,
         int64_t global_batch,
         int64_t workers = 1,
         int64_t units = 0);
  ~Loader();
  Loader(const Loader&) = delete;
  Loader& operator=(const Loader&) = delete;

  // Returns the next batch on the CPU, uint8, or uint16 of data of 16 bits: the samples rank, rank
  // + world, rank + 2 world, ... of the global batch; with units the first samples of this rank's
  // units, then their second ones, and so on. If a picture of it could not be loaded, this
  // call and all further ones throw what the first such picture threw.
  Batch next();
  // Of the last batch: the images of all ranks before it, and the seconds that next() had to wait.
  int64_t first() const { return first_; }
  double waited() const { return waited_; }

 private:
  // A batch whose pictures are being loaded.
  struct Pending {
    Batch batch;
    int64_t first = 0;           // images of all ranks before the global batch
    int64_t claimed = 0;         // pictures that a thread has taken on
    int64_t finished = 0;        // pictures that are there, or never will be
    int64_t first_bad = -1;      // the first picture that could not be loaded
    std::exception_ptr error{};  // what it threw
  };
  struct Range {
    int64_t first = 0;
    int64_t last = 0;
  };

  Pending load_now();
  Pending take();
  void work();
  void end();  // of all threads
  Pending& unclaimed();
  void finish(Pending& pending, const Range& part, int64_t bad, const std::exception_ptr& error);
  void load(int64_t i, LoadBuffers& buffers, Pending& pending) const;
  void empty(Pending& pending);
  at::Tensor free_memory();

  const std::shared_ptr<const Dataset> dataset_;
  const Sampler sampler_;
  const Size resolution_;
  const RankInfo ranks_;
  const int64_t first_image_;
  const int64_t global_batch_;
  const int64_t units_;  // of a batch
  const int64_t mine_;   // units of this rank
  const int64_t count_;  // pictures of this rank in a batch
  const int64_t threads_;
  const int64_t part_;  // pictures that a thread takes on at once
  const size_t ahead_;  // batches

  // Of the thread that calls next().
  LoadBuffers buffers_;  // where there are no workers
  int64_t first_ = 0;    // of the last batch
  double waited_ = 0;    // for it

  std::atomic<bool> ended_ = false;
  std::mutex mutex_;  // guards what follows
  std::condition_variable ready_;
  std::condition_variable claimable_;
  std::deque<Pending> pending_;     // in their order; workers keep references to them
  std::vector<at::Tensor> memory_;  // images of batches, also of those that were handed out
  int64_t begun_ = 0;               // batches
  std::vector<std::thread> workers_;
};

}  // namespace gantrain

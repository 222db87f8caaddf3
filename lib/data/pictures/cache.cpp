// SPDX-License-Identifier: Apache-2.0
// Decoded pictures that the ranks of a node keep in memory together.
#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <cstring>

#include "data/pictures/dataset.h"
#include "util/log.h"

namespace gantrain {

namespace {

// Memory of the kernel's that reads as zero and takes no room until it is written to. Anonymous
// shared memory is not bound by the size of /dev/shm, which is 64 MB in many containers.
// Null where the system refuses it.
std::shared_ptr<uint8_t> take_pages(size_t bytes, bool shared) {
  const int kind = (shared ? MAP_SHARED : MAP_PRIVATE) | MAP_ANONYMOUS | MAP_NORESERVE;
  void* start = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, kind, -1, 0);
  if (start == MAP_FAILED) return nullptr;
  return {static_cast<uint8_t*>(start), [bytes](uint8_t* pages) { ::munmap(pages, bytes); }};
}

// Which slot has a picture. Of a fresh table all numbers are zero.
struct Entry {
  enum : uint32_t { kNone = 0, kBeingWritten = 1, kFirstSlot = 2 };
  std::atomic<uint32_t> state;
};
static_assert(std::atomic<uint32_t>::is_always_lock_free, "processes share these numbers");

struct Table {
  std::atomic<uint32_t> taken;  // slots that pictures have got, and maybe some more
};

constexpr size_t kAlignment = 64;  // bytes

class Cache final : public Dataset {
 public:
  Cache(std::shared_ptr<const Dataset> dataset, const Size& resolution)
      : dataset_(std::move(dataset)),
        picture_{resolution.width,
                 resolution.height,
                 dataset_->channels(),
                 nullptr,
                 dataset_->depth(),
                 dataset_->stack()},
        picture_bytes_(static_cast<size_t>(picture_.bytes())) {}

  // Returns false if the system refuses the memory.
  bool take_memory(int64_t max_bytes, bool shared) {
    const auto wanted = static_cast<size_t>(max_bytes) / picture_bytes_;
    slots_ = static_cast<uint32_t>(std::min(wanted, static_cast<size_t>(size())));
    const size_t table = sizeof(Table) + static_cast<size_t>(size()) * sizeof(Entry);
    pixels_at_ = (table + kAlignment - 1) / kAlignment * kAlignment;
    pages_ = take_pages(pixels_at_ + slots_ * picture_bytes_, shared);
    return pages_ != nullptr;
  }

  int64_t size() const override { return dataset_->size(); }
  int64_t channels() const override { return dataset_->channels(); }
  int64_t depth() const override { return dataset_->depth(); }
  bool stack() const override { return dataset_->stack(); }
  int64_t classes() const override { return dataset_->classes(); }
  int64_t label(int64_t index) const override { return dataset_->label(index); }
  std::string class_name(int64_t label) const override { return dataset_->class_name(label); }
  const LabelVectors& vectors() const override { return dataset_->vectors(); }
  std::vector<std::string> left_out() const override { return dataset_->left_out(); }
  bool has_stand_ins() const override { return dataset_->has_stand_ins(); }
  std::string description() const override { return dataset_->description(); }
  std::vector<std::string> warnings() const override { return dataset_->warnings(); }
  std::optional<PictureFile> picture_file(int64_t index) const override {
    return dataset_->picture_file(index);
  }

  Image load(int64_t index) const override {
    LoadBuffers buffers;
    const ImageView found = view(index, buffers);
    Image image{found.width, found.height, found.channels, {}, found.depth, found.stack};
    image.pixels.assign(found.pixels, found.pixels + picture_bytes_);
    return image;
  }

  ImageView view(int64_t index, LoadBuffers& buffers) const override {
    std::atomic<uint32_t>& state = entry(index).state;
    const uint32_t now = state.load(std::memory_order_acquire);
    if (now >= Entry::kFirstSlot) return in_slot(now - Entry::kFirstSlot);
    const ImageView loaded = dataset_->view(index, buffers);
    if (now == Entry::kNone) store(loaded, state);
    return loaded;
  }

 private:
  Table& table() const { return *reinterpret_cast<Table*>(pages_.get()); }
  Entry& entry(int64_t index) const {
    return reinterpret_cast<Entry*>(pages_.get() + sizeof(Table))[index];
  }
  uint8_t* pixels(uint32_t slot) const { return pages_.get() + pixels_at_ + slot * picture_bytes_; }
  ImageView in_slot(uint32_t slot) const {
    ImageView view = picture_;
    view.pixels = pixels(slot);
    return view;
  }

  // The state tells of the slot only once all pixels are there. A process that dies before leaves
  // the state at kBeingWritten: the others then load this picture each time, and nobody waits.
  void store(const ImageView& loaded, std::atomic<uint32_t>& state) const {
    if (table().taken.load(std::memory_order_relaxed) >= slots_) return;
    uint32_t none = Entry::kNone;
    if (!state.compare_exchange_strong(none, Entry::kBeingWritten)) return;
    const uint32_t slot = table().taken.fetch_add(1);
    if (slot >= slots_) return;  // others took the last one meanwhile; the cache is full for good
    std::memcpy(pixels(slot), loaded.pixels, picture_bytes_);
    state.store(Entry::kFirstSlot + slot, std::memory_order_release);
  }

  std::shared_ptr<const Dataset> dataset_;
  ImageView picture_;
  size_t picture_bytes_;
  size_t pixels_at_ = 0;
  uint32_t slots_ = 0;
  std::shared_ptr<uint8_t> pages_;
};

}  // namespace

std::shared_ptr<const Dataset> cached(std::shared_ptr<const Dataset> dataset,
                                      const Size& resolution,
                                      int64_t max_bytes,
                                      int64_t sharers) {
  if (max_bytes <= 0) return dataset;
  const auto cache = std::make_shared<Cache>(dataset, resolution);
  if (sharers > 1 && cache->take_memory(sharers * max_bytes, true)) return cache;
  if (sharers > 1)
    debug("no {} MB of shared memory: each rank keeps its own decoded pictures",
          sharers * max_bytes / 1000000);
  if (cache->take_memory(max_bytes, false)) return cache;
  debug("no {} MB of memory for decoded pictures: none are kept", max_bytes / 1000000);
  return dataset;
}

}  // namespace gantrain

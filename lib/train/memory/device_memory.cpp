// SPDX-License-Identifier: Apache-2.0
#include "train/memory/device_memory.h"

#include <c10/core/CachingDeviceAllocator.h>

#include <algorithm>
#include <limits>

#include "core/torch.h"
#include "train/memory/memory_shortage.h"
#include "util/error.h"

namespace gantrain {

namespace {

// In LibTorch's own terms for any accelerator: the CUDA side need not be linked.
class AllocatorMemory final : public DeviceMemory {
 public:
  explicit AllocatorMemory(c10::Device device)
      : allocator_(*c10::getDeviceAllocator(device.type())), index_(device.index()) {}

  MemoryPeaks peaks() const override {
    const auto stats = allocator_.getDeviceStats(index_);
    return {all_of(stats.allocated_bytes).peak, all_of(stats.reserved_bytes).peak};
  }
  void restart() override { allocator_.resetPeakStats(index_); }
  int64_t usable() const override {
    const auto free = static_cast<int64_t>(allocator_.getMemoryInfo(index_).first);
    return free + all_of(allocator_.getDeviceStats(index_).reserved_bytes).current;
  }
  void give_back() override { allocator_.emptyCache(); }

 private:
  static c10::CachingAllocator::Stat all_of(const c10::CachingAllocator::StatArray& stats) {
    return stats[static_cast<size_t>(c10::CachingAllocator::StatType::AGGREGATE)];
  }

  c10::DeviceAllocator& allocator_;
  c10::DeviceIndex index_;
};

double gib(double bytes) { return bytes / (1 << 30); }

class MicroBatchFit {
 public:
  MicroBatchFit(TrainingStep& step, Group& group, DeviceMemory& memory, const FitRequest& request)
      : step_(step), group_(group), memory_(memory), request_(request) {
    like_ = step.players().front().parameters.front().second.options().requires_grad(false);
    share_ = share_to_cut(step.plan(), std::max<int64_t>(step.batch_group(), 1));
    memory_.give_back();
    budget_ = kUsedShare * static_cast<double>(memory_.usable()) - resident() -
              static_cast<double>(request.later);
    if (!step.records_graphs()) return;
    // A recorded phase keeps what it needs to itself, and until all are recorded the others run
    // beside it: all but what is there anyway counts twice.
    memory_.restart();
    budget_ = (budget_ + static_cast<double>(memory_.peaks().allocated)) / 2;
  }

  std::string run() {
    first_ = first_that_runs();
    line_ = first_line();
    int64_t micro_batch = choose();
    while (micro_batch > 0 && !holds(micro_batch)) micro_batch = choose();
    memory_.give_back();
    if (micro_batch == 0) throw_none_fits(fmt::format("{:.2f} GiB", gib(line_.at(fewest()))));
    step_.cut_into(micro_batch);
    return fmt::format(
        "micro-batch {} of {}{} images a rank, by memory: {:.2f} GiB at the peak ({:.2f} + {:.4f} "
        "an image), {:.2f} GiB may be used; --micro-batch cuts otherwise",
        micro_batch,
        step_.plan().equal() ? "" : "up to ",
        step_.plan().share(0),
        gib(line_.at(micro_batch)),
        gib(line_.fixed),
        gib(line_.each),
        gib(budget_));
  }

 private:
  static constexpr int64_t kFewImages = 4;

  // A rank that has one image more than others has as many micro-batches as they have.
  int64_t fewest() const { return share_.uneven ? 2 : 1; }

  // The pictures of the whole share lie on the device through an iteration, as numbers and, in two
  // buffers, as bytes.
  double resident() const {
    const auto pixels = static_cast<double>(step_.plan().share(0) * step_.channels() *
                                            request_.resolution.pixels());
    return pixels * (static_cast<double>(like_.dtype().itemsize()) + 2);
  }

  // Where the memory runs out, more was needed than there is: the other ranks, which may have had
  // enough, go on to decide together with this one.
  MeasuredPeak measure(int64_t images) {
    memory_.give_back();
    memory_.restart();
    there_ = memory_.peaks().allocated;
    ran_out_ = false;
    try {
      rehearse(images);
      return {images, memory_.peaks().allocated};
    } catch (const c10::Error& e) {
      const auto shortage = shortage_in(e.what_without_backtrace());
      // Ranks that wait inside of a phase for one that has left it cannot be asked.
      if (!shortage || !shortage->on_device || step_.sums_inside_phases()) throw;
    }
    ran_out_ = true;
    memory_.give_back();
    return {images, std::max(memory_.usable(), static_cast<int64_t>(budget_) + 1)};
  }

  void rehearse(int64_t images) {
    Batch batch;  // black pictures: the need does not depend on what is in them
    const auto& [width, height] = request_.resolution;
    batch.real = torch::zeros({images, step_.channels(), height, width}, like_);
    if (const at::Tensor labels = step_.blank_labels(images); labels.defined())
      batch.labels = labels.to(like_.device());
    step_.rehearse_all(
        batch,
        request_.images_seen);  // cuDNN tries its algorithms, with all the memory that there is
    memory_.give_back();
    memory_.restart();
    step_.rehearse_all(batch, request_.images_seen);  // what later runs need
  }

  // Measures a few images, or as many as all ranks can compute with.
  MeasuredPeak first_that_runs() {
    const int64_t groups = (kFewImages + share_.group - 1) / share_.group;
    MeasuredPeak peak = measure(std::min(share_.images, groups * share_.group));
    while (!all_ranks(!ran_out_)) {
      if (peak.images <= fewest()) throw_none_fits("more than there is");
      too_many_ = peak.images;
      peak = measure(peak.images / 2);
    }
    return peak;
  }

  // The second measurement is for up to twice as many images, but only for so many as fit if all
  // that the first one needed beyond what is there anyway was in proportion to its images. Where
  // no more fit than that, it is for half as many.
  MemoryLine first_line() {
    const MemoryLine steep = line_through({0, there_}, first_);
    const auto fitting = static_cast<int64_t>((budget_ - steep.fixed) / std::max(steep.each, 1.0));
    int64_t more =
        std::min({2 * first_.images, share_.images, too_many_ - 1, std::max<int64_t>(fitting, 0)});
    if (more < share_.images) more -= more % share_.group;
    more = least(more);
    if (more <= first_.images && first_.images == 1) return steep;
    measured_ = measure(more > first_.images ? more : first_.images / 2);
    return more > first_.images ? line_through(first_, measured_) : line_through(measured_, first_);
  }

  int64_t choose() {
    const int64_t kept = request_.kept;
    const bool goes_on = kept > 0 && share_.has_cut(kept) && line_.at(kept) <= budget_;
    if (all_ranks(goes_on)) return kept;
    return least(largest_micro_batch(share_, line_, budget_));
  }

  // Measures what was promised, unless it has been measured. Where it needs more than there is, the
  // line is drawn through that, so that the next choice is a smaller one.
  bool holds(int64_t images) {
    MeasuredPeak peak = images == first_.images ? first_ : measured_;
    if (peak.images != images) peak = measure(images);
    const bool fits_here = static_cast<double>(peak.bytes) <= budget_;
    if (all_ranks(fits_here)) return true;
    if (fits_here) return false;  // another rank asks for less
    line_ = images > first_.images ? line_through(first_, peak) : line_through({0, there_}, peak);
    line_.fixed += 1;  // not the same again, however the line was rounded
    return false;
  }

  // The smallest value of all ranks.
  int64_t least(int64_t mine) {
    const std::vector<double> all = numbers_of_ranks(static_cast<double>(mine), group_);
    return static_cast<int64_t>(*std::min_element(all.begin(), all.end()));
  }
  bool all_ranks(bool mine) { return least(mine ? 1 : 0) == 1; }

  [[noreturn]] void throw_none_fits(const std::string& need) const {
    fail(Exit::kOutOfMemory,
         "{} of {} x {} need{} {} of the device's memory, {:.2f} GiB may be used; "
         "make the networks smaller, or use --amp or a smaller --resolution",
         fewest() == 1 ? "one image" : "two images",
         request_.resolution.width,
         request_.resolution.height,
         fewest() == 1 ? "s" : "",
         need,
         gib(budget_));
  }

  TrainingStep& step_;
  Group& group_;
  DeviceMemory& memory_;
  const FitRequest request_;
  at::TensorOptions like_;
  RankShare share_;
  double budget_ = 0;
  int64_t there_ = 0;     // bytes of tensors outside of iterations
  bool ran_out_ = false;  // in the last measurement
  int64_t too_many_ = std::numeric_limits<int64_t>::max();  // images for some rank
  MeasuredPeak first_, measured_;
  MemoryLine line_;
};

}  // namespace

std::unique_ptr<DeviceMemory> memory_of(c10::Device device) {
  if (device.is_cpu()) return nullptr;
  return std::make_unique<AllocatorMemory>(device);
}

void await_freed_memory(const DeviceMemory& memory,
                        double most_seconds,
                        const std::function<void(double)>& sleep) {
  constexpr double kStep = 0.1, kSteady = 0.5;  // seconds
  int64_t known = memory.usable();
  double steady = 0;
  for (double waited = 0; waited < most_seconds && steady < kSteady - kStep / 2; waited += kStep) {
    sleep(kStep);
    const int64_t now = memory.usable();
    steady = now > known ? 0 : steady + kStep;
    known = std::max(known, now);
  }
}

std::string fit_micro_batch(TrainingStep& step,
                            Group& group,
                            DeviceMemory& memory,
                            const FitRequest& request) {
  return MicroBatchFit(step, group, memory, request).run();
}

}  // namespace gantrain

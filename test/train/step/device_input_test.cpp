// SPDX-License-Identifier: Apache-2.0
#include <deque>
#include <map>
#include <random>

#include "core/torch.h"
#include "support/catch.h"
#include "train/run/training_data.h"

using namespace gantrain;
using at::Tensor;

namespace {

// What happened, beside the values.
struct Seen {
  int64_t host_memories = 0, device_memories = 0;  // that were made
  int64_t done = 0;                                // pieces of work that ran
};

// Streams of a device that lies on the CPU. Work waits in queues. A seed decides how slow the
// device is and which of the two queues, if any, goes first; with `stands`, none gets anywhere but
// while the host waits.
class LateStreams final : public InputStreams {
 public:
  LateStreams(uint64_t seed, bool stands, Seen& seen)
      : random_(seed),
        slowness_(1 + seed % 5),
        first_(seed / 5 % 3),
        stands_(stands),
        seen_(seen) {}

  Tensor host_memory(at::IntArrayRef sizes, at::ScalarType type) override {
    ++seen_.host_memories;
    return torch::full(sizes, 77, type);
  }
  Tensor device_memory(at::IntArrayRef sizes, at::ScalarType type) override {
    ++seen_.device_memories;
    return torch::full(sizes, 99, type);
  }
  void run(Which stream, const std::function<void()>& work) override {
    give(stream, [this, work] {
      work();
      ++seen_.done;
      return true;
    });
  }
  void record(Event event, Which stream) override {
    const int64_t version = ++recorded_[event];
    give(stream, [this, event, version] {
      reached_[event] = version;
      return true;
    });
  }
  void begin_after(Event event, Which stream) override {
    give(stream, [this, event, version = recorded_[event]] { return reached_[event] >= version; });
  }
  void wait(Event event) override {
    while (reached_[event] < recorded_[event]) REQUIRE(advance());
  }

  void finish() {
    while (!queues_[0].empty() || !queues_[1].empty()) REQUIRE(advance());
  }

 private:
  using Task = std::function<bool()>;  // false: it cannot begin yet

  void give(Which stream, Task task) {
    queues_[static_cast<size_t>(stream)].push_back(std::move(task));
    if (stands_ || random_() % slowness_ != 0) return;
    for (uint64_t steps = random_() % 4; steps > 0; --steps) advance();
  }

  // Runs the next task of one of the queues; false if none can run.
  bool advance() {
    const size_t first = first_ < 2 ? first_ : random_() % 2;
    for (const size_t stream : {first, 1 - first}) {
      std::deque<Task>& queue = queues_[stream];
      if (queue.empty() || !queue.front()()) continue;
      queue.pop_front();
      return true;
    }
    return false;
  }

  std::mt19937_64 random_;
  uint64_t slowness_;
  size_t first_;  // the queue that goes first; 2: by chance
  bool stands_;
  Seen& seen_;
  std::deque<Task> queues_[2];
  std::map<Event, int64_t> recorded_, reached_;
};

// Makes an input whose streams the test can still see.
struct Input {
  explicit Input(uint64_t seed, bool stands = false, at::ScalarType type = at::kFloat) {
    auto made = std::make_unique<LateStreams>(seed, stands, seen);
    streams = made.get();
    input = std::make_unique<DeviceInput>(std::move(made), type);
  }
  Seen seen;
  LateStreams* streams = nullptr;
  std::unique_ptr<DeviceInput> input;
};

Tensor random_bytes(at::IntArrayRef sizes) { return torch::randint(0, 256, sizes, at::kByte); }

// What TrainingData makes of them on a CPU.
Tensor numbers_of(const Tensor& bytes, at::ScalarType type) {
  return bytes.to(type).div_(127.5).sub_(1);
}

}  // namespace

TEST_CASE("EveryBatchArrivesWholeHoweverLateCopiesAndComputingAre") {
  torch::manual_seed(1);
  for (uint64_t seed = 0; seed < 200; ++seed) {
    CAPTURE(seed);
    Input on(seed);
    std::vector<Batch> batches;
    std::vector<Tensor> expected, labels;
    for (const int64_t count : {13, 13, 13, 13, 13, 13, 5}) {  // the last one is short
      Tensor bytes = random_bytes({count, 3, 7, 7}), classes = torch::randint(0, 10, {count});
      expected.push_back(numbers_of(bytes, at::kFloat));
      labels.push_back(classes.clone());
      batches.push_back(on.input->bring({bytes, classes}));
      bytes.fill_(1);  // the loader's memory is used again at once
      classes.fill_(-1);
    }
    on.streams->finish();
    for (size_t i = 0; i < batches.size(); ++i) {
      REQUIRE(torch::equal(batches[i].real, expected[i]));
      REQUIRE(torch::equal(batches[i].labels, labels[i]));
    }
  }
}

TEST_CASE("TheHostRunsTwoBatchesAheadOfADeviceThatStands") {
  Input on(3, /*stands=*/true);
  on.input->bring({random_bytes({4, 3, 8, 8}), {}});
  on.input->bring({random_bytes({4, 3, 8, 8}), {}});
  CHECK(on.seen.done == 0);
  on.input->bring({random_bytes({4, 3, 8, 8}), {}});
  CHECK(on.seen.done >= 1);  // the first copy had to end
  on.streams->finish();
  CHECK(on.seen.done == 6);  // three copies and three conversions
}

TEST_CASE("BatchesOfOneSizeUseTheSameMemory") {
  Input on(4);
  for (int i = 0; i < 9; ++i) on.input->bring({random_bytes({4, 3, 8, 8}), {}});
  CHECK(on.seen.host_memories == DeviceInput::kBuffers);
  CHECK(on.seen.device_memories == DeviceInput::kBuffers + 1);  // and the divisor
  on.input->bring({random_bytes({4, 3, 16, 16}), {}});          // a network that has grown
  CHECK(on.seen.host_memories == DeviceInput::kBuffers + 1);
}

TEST_CASE("AllBytesBecomeTheNumbersOfTheCpusPath") {
  const Tensor bytes = torch::arange(256, at::kByte).reshape({1, 1, 16, 16});
  for (const at::ScalarType type : {at::kFloat, at::kDouble}) {
    Input on(5, /*stands=*/false, type);
    const Batch batch = on.input->bring({bytes, {}});
    on.streams->finish();
    CHECK(batch.real.scalar_type() == type);
    CHECK(torch::equal(batch.real, numbers_of(bytes, type)));
    CHECK_FALSE(batch.labels.defined());
  }
}

TEST_CASE("AllWordsBecomeTheNumbersOfTheCpusPath") {
  const Tensor words = torch::arange(65536, at::kInt).reshape({1, 4, 128, 128}).to(at::kUInt16);
  for (const at::ScalarType type : {at::kFloat, at::kDouble}) {
    Input on(6, /*stands=*/false, type);
    const Batch first = on.input->bring({words, {}});
    const Batch batch = on.input->bring({words.flip(1), {}});
    on.streams->finish();
    CHECK(torch::equal(first.real, words.to(type).div_(32767.5).sub_(1)));
    CHECK(torch::equal(batch.real, first.real.flip(1)));
    CHECK(on.seen.device_memories == DeviceInput::kBuffers + 2);
  }
}

// SPDX-License-Identifier: Apache-2.0
// Whole training steps of the tiny presets on a GPU: recorded as graphs, and without waiting. The
// way of pictures to a GPU. A process group over NCCL.
#include <torch/csrc/distributed/c10d/HashStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include "config/recipes.h"
#include "config/resolve.h"
#include "core/device.h"
#include "core/torch.h"
#include "device_checks.h"
#include "distributed/backend.h"
#include "distributed/meeting.h"
#include "support/catch.h"
#include "support/deterministic.h"
#include "train/run/training_data.h"
#include "train/step/training_step.h"

using namespace gantrain;
using at::Tensor;

namespace {

constexpr int64_t kBatch = 8, kResolution = 32;
// R1 is due every 16 iterations and recorded after three runs, at iteration 48.
constexpr int64_t kIterations = 66;
const std::vector<std::string> kPresets = {"dcgan-tiny",
                                           "pggan-tiny",
                                           "stylegan1-tiny",
                                           "stylegan2-tiny",
                                           "stylegan3-tiny",
                                           "r3gan-tiny",
                                           "projected-tiny"};

// A training step of a preset on the GPU, in its last stage, with a picture source of its own.
class Training {
 public:
  Training(const std::string& preset, const std::string& graphs, at::Device device)
      : device_(device),
        config_(config_of(preset, graphs)),
        row_(find_recipe(text_of(config_.get("recipe")))) {
    const auto group = Group::join({}, BackendKind::kGloo, device, /*timeout_seconds=*/60);
    step_ = std::make_unique<TrainingStep>(
        StepSetup{config_, row_, group, device, square_of(kResolution), /*channels=*/3, {}});
    const std::vector<Stage>& stages = step_->recipe().schedule().stages();
    if (!stages.empty()) {
      step_->enter(static_cast<int64_t>(stages.size()) - 1, kBatch);
      begin_ = stages.back().first;
    }
    step_->begin();
  }

  // Iterations so many after those before.
  void run(int64_t count) {
    for (int64_t end = iteration_ + count; iteration_ < end; ++iteration_) {
      const Tensor numbers = torch::arange(kBatch * 3 * kResolution * kResolution,
                                           at::TensorOptions().dtype(at::kFloat).device(device_));
      const Tensor real =
          torch::sin(numbers * 0.37 + iteration_).reshape({kBatch, 3, kResolution, kResolution});
      step_->run({real, {}}, {iteration_, begin_ + iteration_ * kBatch});
    }
  }

  StateTensors state() {
    step_->settle();
    StateTensors copies = step_->state();
    for (StateTensor& item : copies) item.tensor = item.tensor.detach().cpu();
    return copies;
  }

 private:
  static Config config_of(const std::string& preset, const std::string& graphs) {
    ConfigSources sources;
    sources.preset = preset;
    for (const std::string& pair : {"train.graphs=" + graphs,
                                    std::string("train.deterministic=on"),
                                    "train.batch=" + std::to_string(kBatch),
                                    "data.resolution=" + std::to_string(kResolution)})
      sources.flags.emplace_back("--set", pair);
    Config config = resolve(sources, {});
    choose_auto_values(config, Site{.ranks = 1, .on_gpu = true});
    return config;
  }

  at::Device device_;
  Config config_;
  const RecipeRow& row_;
  std::unique_ptr<TrainingStep> step_;
  int64_t iteration_ = 0, begin_ = 0;
};

}  // namespace

TEST_CASE("GraphsGiveTheBitsOfPhasesThatRunAsTheyAre") {
  const auto device = gpu_or_skip();
  if (!device) return;
  const Deterministic same_bits;
  for (const std::string& preset : kPresets) {
    CAPTURE(preset);
    // "on" ends with an error where a phase cannot be recorded.
    Training plain(preset, "off", *device), recorded(preset, "on", *device);
    plain.run(kIterations);
    recorded.run(kIterations);
    const StateTensors expected = plain.state(), found = recorded.state();
    REQUIRE(found.size() == expected.size());
    for (size_t i = 0; i < found.size(); ++i) {
      CAPTURE(found[i].name);
      CHECK(torch::equal(found[i].tensor, expected[i].tensor));
    }
  }
}

TEST_CASE("NoIterationOfATinyPresetWaitsForTheGpu") {
  const auto device = gpu_or_skip();
  if (!device) return;
  for (const std::string& preset : kPresets) {
    for (const char* graphs : {"off", "auto"}) {
      CAPTURE(preset, graphs);
      Training training(preset, graphs, *device);
      training.run(1);
      const WaitsAreErrors watched(c10::DeviceType::CUDA, true);
      CHECK_NOTHROW(training.run(kIterations));
    }
  }
}

TEST_CASE("ARecordingThatFailsLeavesItsPoolUsable") {
  const auto device = gpu_or_skip();
  if (!device) return;
  const std::unique_ptr<GraphPool> pool = make_graph_pool(c10::DeviceType::CUDA);
  const Tensor x = torch::ones({1000}, at::TensorOptions().device(*device));
  CHECK_THROWS_AS(pool->record([&] { (x + 1).sum().item<float>(); }), c10::Error);
  CHECK_THROWS_AS(pool->record([&] { TORCH_CHECK(false, "given up"); }), c10::Error);
  Tensor sum;
  const std::unique_ptr<DeviceGraph> graph = pool->record([&] { sum = (2 * x).sum(); });
  for (const double value : {1.0, 3.0}) {
    x.fill_(value);
    graph->replay();
    CHECK(sum.item<double>() == 2000 * value);
  }
  // LibTorch's own draws go on too.
  CHECK(torch::rand({100}, x.options()).max().item<float>() > 0);
}

TEST_CASE("AWaitForTheGpuIsAnErrorWhereItIsWatchedFor") {
  const auto device = gpu_or_skip();
  if (!device) return;
  const Tensor number = torch::ones({}, at::TensorOptions().device(*device));
  {
    const WaitsAreErrors watched(c10::DeviceType::CUDA, true);
    CHECK_THROWS_WITH(number.item<float>(), Catch::Contains("synchronizing"));
    CHECK_NOTHROW(wait_for(*device));
  }
  CHECK(number.item<float>() == 1);
}

// The host's memory is overwritten at once and the GPU is kept busy, so that a copy that came too
// late, or a buffer that was taken too early, would show.
TEST_CASE("BatchesArriveOnTheGpuWithTheBitsThatACpuMakes") {
  const auto device = gpu_or_skip();
  if (!device) return;
  torch::manual_seed(1);
  for (const at::ScalarType type : {at::kFloat, at::kDouble}) {
    DeviceInput input(streams_of(*device, DeviceInput::kEvents), type);
    const Tensor work = torch::randn({1024, 1024}, at::TensorOptions().device(*device));
    std::vector<Batch> batches;
    std::vector<Tensor> pictures, labels;
    for (int64_t i = 0; i < 24; ++i) {
      const int64_t count = i % 7 == 6 ? 5 : 16;
      Tensor bytes = torch::randint(0, 256, {count, 3, 64, 64}, at::kByte);
      Tensor classes = torch::randint(0, 10, {count});
      pictures.push_back(bytes.to(type).div_(127.5).sub_(1));
      labels.push_back(classes.clone());
      for (int k = 0; k < 20; ++k) work.mm(work);
      batches.push_back(input.bring({bytes, i % 3 == 0 ? Tensor() : classes}));
      bytes.fill_(7);
      classes.fill_(-1);
    }
    for (size_t i = 0; i < batches.size(); ++i) {
      CAPTURE(i);
      CHECK(batches[i].real.device() == *device);
      CHECK(torch::equal(batches[i].real.cpu(), pictures[i]));
      if (batches[i].labels.defined()) CHECK(torch::equal(batches[i].labels.cpu(), labels[i]));
      CHECK(batches[i].labels.defined() == (i % 3 != 0));
    }
  }
}

// A process group of one rank over NCCL: one GPU is enough.

namespace {

c10::intrusive_ptr<c10d::ProcessGroup> group_of_one(at::Device device) {
  const BackendSettings settings{.ranks = {}, .timeout = std::chrono::milliseconds(60'000)};
  return make_process_group(
      BackendKind::kNccl, c10::make_intrusive<c10d::HashStore>(), settings, device);
}

// Numbers that every type holds.
Tensor numbers(at::ScalarType type, at::Device device) {
  return torch::arange(1, 100).to(type).to(device);
}

}  // namespace

TEST_CASE("NcclSumsAndBroadcastsEveryTypeInAGroupOfOneAndShutsDown") {
  const auto device = gpu_or_skip();
  if (!device) return;
  const auto group = group_of_one(*device);
  for (const at::ScalarType type : {at::kFloat,
                                    at::kDouble,
                                    at::kHalf,
                                    at::kBFloat16,
                                    at::kLong,
                                    at::kInt,
                                    at::kChar,
                                    at::kByte,
                                    at::kBool}) {
    CAPTURE(c10::toString(type));
    const Tensor expected = numbers(type, at::kCPU);
    std::vector<Tensor> tensors = {numbers(type, *device)};
    group->broadcast(tensors)->wait();
    CHECK(torch::equal(tensors[0].cpu(), expected));
    group->allreduce(tensors)->wait();
    CHECK(torch::equal(tensors[0].cpu(), expected));
  }
  CHECK(traffic_of(*group, *device).collectives == 18);
  CHECK(shut_down(group, *device, /*seconds=*/30));
}

// A run that is restarted in its own process tree, and tests, make one group after another.
TEST_CASE("NcclGroupsFollowEachOther") {
  const auto device = gpu_or_skip();
  if (!device) return;
  for (int i = 0; i < 3; ++i) {
    const auto group = group_of_one(*device);
    std::vector<Tensor> tensors = {torch::full({1000}, i, at::TensorOptions().device(*device))};
    group->allreduce(tensors)->wait();
    CHECK(tensors[0].cpu().sum().item<float>() == 1000.0F * static_cast<float>(i));
    CHECK(shut_down(group, *device, /*seconds=*/30));
  }
}

TEST_CASE("NcclsDeviceHasAnIdentity") {
  const auto device = gpu_or_skip();
  if (!device) return;
  const DeviceIdentity identity = read_device_identity(device->index());
  CHECK(identity.pci.find(':') != std::string::npos);
  CHECK(identity.uuid.size() >= 32);
}

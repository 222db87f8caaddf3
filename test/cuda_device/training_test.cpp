// SPDX-License-Identifier: Apache-2.0
// Whole training steps of the tiny presets on a GPU: recorded as graphs, and without waiting.
#include <catch2/catch.hpp>

#include "config/recipes.h"
#include "config/resolve.h"
#include "core/device.h"
#include "core/torch.h"
#include "device.h"
#include "train/step/mixed_precision.h"
#include "train/step/training_step.h"

using namespace gantrain;
using at::Tensor;

namespace {

constexpr int64_t kBatch = 8, kResolution = 32;
const std::vector<std::string> kPresets = {
    "dcgan-tiny", "pggan-tiny", "stylegan1-tiny", "stylegan2-tiny", "stylegan3-tiny"};

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

// Algorithms with equal bits at every call, while it lives.
struct Deterministic {
  Deterministic() { choose_algorithms(true); }
  ~Deterministic() { choose_algorithms(false); }
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
    plain.run(20);
    recorded.run(20);
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
      CHECK_NOTHROW(training.run(20));
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

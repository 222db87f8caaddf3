// SPDX-License-Identifier: Apache-2.0
#include <thread>

#include "core/archive.h"
#include "core/tensor_files.h"
#include "support/catch.h"
#include "support/temporary_folder.h"
#include "support/tensor_checks.h"
#include "train/save/checkpoint.h"
#include "train/step/toy_recipe.h"
#include "util/error.h"

using namespace gantrain;

namespace fs = std::filesystem;

namespace {

CheckpointWriter::Save save_of(const fs::path& folder,
                               const std::string& name,
                               const at::Tensor& weight,
                               const at::Tensor& moment) {
  Counters counters;
  counters.images_seen = 1000;
  return {.state_path = folder / ("state-" + name + ".pt"),
          .model_path = folder / ("model-" + name + ".safetensors"),
          .state = state_archive({{"G/w", weight}, {"G.opt/w", moment}}, counters, toy_config()),
          .model = {{{"w", weight}}, {{"format", "pt"}}}};
}

// A gate that keeps what is done after a save waiting.
struct Gate {
  std::promise<void> opened;
  std::shared_future<void> open = opened.get_future().share();
};

}  // namespace

TEST_CASE("ASaveHoldsTheMomentAtWhichItWasAskedFor") {
  const TemporaryFolder folder;
  const at::Tensor weight = torch::rand({3, 4}).t(), moment = torch::rand({5}).to(at::kDouble);
  const at::Tensor weight_then = weight.clone(), moment_then = moment.clone();
  CheckpointWriter writer;
  writer.reserve(save_of(folder.path(), "a", weight, moment));
  CHECK(fs::is_empty(folder.path()));
  Gate gate;
  writer.save(save_of(folder.path(), "a", weight, moment), [&] { gate.open.wait(); });
  weight.fill_(-1);
  moment.fill_(-1);
  gate.opened.set_value();
  writer.wait();
  const Archive state = load_archive(folder / "state-a.pt");
  CHECK(torch::equal(state.tensors.at("G/w"), weight_then));
  CHECK(torch::equal(state.tensors.at("G.opt/w"), moment_then));
  const TensorFile model = load_safetensors(folder / "model-a.safetensors");
  CHECK(torch::equal(model.tensors.at("w"), weight_then));
}

TEST_CASE("WhoeverAsksIsToldThatASaveIsWrittenAndThatItHasEndedWellOrNot") {
  const TemporaryFolder folder;
  const at::Tensor weight = torch::rand({2});
  std::vector<bool> told;
  CheckpointWriter writer([&told](bool now) { told.push_back(now); });
  Gate gate;
  writer.save(save_of(folder.path(), "a", weight, weight), [&] { gate.open.wait(); });
  CHECK(told == std::vector<bool>{true});
  gate.opened.set_value();
  writer.wait();
  CHECK(told == std::vector<bool>{true, false});
  writer.save(save_of(folder / "missing", "b", weight, weight), {});
  CHECK_THROWS_AS(writer.wait(), UserError);
  CHECK(told == std::vector<bool>{true, false, true, false});
}

TEST_CASE("ASaveWaitsForTheOneBeforeItAndNoneIsDropped") {
  const TemporaryFolder folder;
  const at::Tensor weight = torch::zeros({1000}), moment = torch::zeros({2});
  CheckpointWriter writer;
  Gate gate;
  writer.save(save_of(folder.path(), "a", weight, moment), [&] { gate.open.wait(); });
  std::thread opens([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    gate.opened.set_value();
  });
  weight.fill_(1);
  bool first_was_done = false;
  const auto opened = [&] {
    return gate.open.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
  };
  writer.save(save_of(folder.path(), "b", weight, moment), [] {});
  first_was_done = opened();
  opens.join();
  CHECK(first_was_done);
  writer.wait();
  CHECK(torch::equal(load_archive(folder / "state-a.pt").tensors.at("G/w"), torch::zeros({1000})));
  CHECK(torch::equal(load_archive(folder / "state-b.pt").tensors.at("G/w"), torch::ones({1000})));
}

TEST_CASE("TensorsThatGrowAreCopiedWhole") {
  const TemporaryFolder folder;
  CheckpointWriter writer;
  for (const int64_t size : {4, 8, 0, 6}) {
    const at::Tensor weight = torch::rand({size}), moment = torch::rand({size, 2});
    const std::string name = std::to_string(size);
    writer.save(save_of(folder.path(), name, weight, moment), [] {});
    writer.wait();
    const Archive state = load_archive(folder / ("state-" + name + ".pt"));
    CHECK(torch::equal(state.tensors.at("G/w"), weight));
    CHECK(torch::equal(state.tensors.at("G.opt/w"), moment));
  }
}

TEST_CASE("AFailureOfTheWriterIsThrownOnceAndNamesTheFile") {
  const TemporaryFolder folder;
  const at::Tensor some = torch::zeros({3});
  CheckpointWriter writer;
  writer.check();
  writer.save(save_of(folder / "gone", "a", some, some), [] {});
  std::string heard;
  while (heard.empty()) {
    try {
      writer.check();
    } catch (const UserError& e) {
      heard = e.what();
      CHECK(e.code() == Exit::kDisk);
    }
  }
  CHECK_THAT(heard, Catch::Contains("state-a.pt"));
  CHECK_NOTHROW(writer.check());
  writer.save(save_of(folder.path(), "b", some, some), [] {});
  writer.wait();
  CHECK(fs::exists(folder / "model-b.safetensors"));
}

TEST_CASE("TheWriterIsNotDestroyedBeforeItsFilesAreWritten") {
  const TemporaryFolder folder;
  const at::Tensor some = torch::zeros({3});
  bool written = false;
  {
    CheckpointWriter writer;
    writer.save(save_of(folder.path(), "a", some, some), [&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      written = true;
    });
  }
  CHECK(written);
}

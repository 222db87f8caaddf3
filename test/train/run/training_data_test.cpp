// SPDX-License-Identifier: Apache-2.0
#include "train/run/training_data.h"

#include "support/catch.h"
#include "support/temporary_folder.h"
#include "support/tensor_checks.h"
#include "train/step/toy_recipe.h"
#include "util/error.h"

using namespace gantrain;
using at::Tensor;

namespace {

using Changes = std::map<std::string, Json>;

// A rank's pictures of a run with that configuration.
struct Data {
  explicit Data(const Changes& changes = {}, int64_t rank = 0, int64_t world = 1)
      : config(toy_config(changes)),
        setup{config, {}, BackendKind::kGloo, at::kCPU, toy_row(), "test", "", {}, {}, nullptr} {
    setup.rendezvous.ranks.rank = rank;
    setup.rendezvous.ranks.world = world;
    data = std::make_unique<TrainingData>(setup);
  }
  TrainingData* operator->() { return data.get(); }

  Config config;
  TrainSetup setup;
  std::unique_ptr<TrainingData> data;
};

}  // namespace

TEST_CASE("PicturesAreNumbersFromMinusOneToOneOfTheNetworksType") {
  for (const char* dtype : {"float32", "float64"}) {
    Data data(Changes{{"train.dtype", dtype}});
    data->begin({8, 8}, 8, 0);
    const Tensor real = data->next().real;
    CHECK(real.sizes() == at::IntArrayRef{8, 3, 8, 8});
    CHECK(real.scalar_type() == (std::string(dtype) == "float64" ? at::kDouble : at::kFloat));
    CHECK(real.min().item<double>() >= -1);
    CHECK(real.max().item<double>() <= 1);
    CHECK(real.min().item<double>() < real.max().item<double>());
    const Tensor bytes = (real.to(at::kDouble) + 1) * 127.5;
    CHECK(torch::allclose(bytes, bytes.round(), 0, 1e-4));
  }
}

TEST_CASE("SixteenBitsAreNumbersFromMinusOneToOne") {
  Data bytes, words(Changes{{"data.depth", "16"}});
  bytes->begin({8, 8}, 8, 0);
  words->begin({8, 8}, 8, 0);
  // Bytes are widened by 257: the same numbers up to float32's rounding.
  CHECK(torch::allclose(words->next().real, bytes->next().real, 0, 1e-6));
}

TEST_CASE("RanksSharesMakeUpTheGlobalBatchSampleByTurns") {
  Data whole;
  whole->begin({8, 8}, 8, 0);
  const Tensor global = whole->next().real;
  for (int64_t rank = 0; rank < 2; ++rank) {
    Data mine(Changes(), rank, 2);
    mine->begin({8, 8}, 8, 0);
    CHECK(torch::equal(mine->next().real, global.slice(0, rank, std::nullopt, 2)));
  }
}

TEST_CASE("ItGoesOnWithTheImageAfterThoseSeen") {
  Data data;
  data->begin({8, 8}, 8, 0);
  data->next();
  const Tensor second = data->next().real;
  Data resumed;
  resumed->begin({8, 8}, 8, 8);
  CHECK(torch::equal(resumed->next().real, second));
  data->begin({8, 8}, 4, 8);  // a stage with another batch
  CHECK(torch::equal(data->next().real, second.slice(0, 0, 4)));
}

TEST_CASE("AStageTakesSmallerPicturesOfTheSameImages") {
  Data data(Changes{{"data.resolution", 16}});
  data->begin({16, 16}, 8, 0);
  const Tensor full = data->next().real;
  data->begin({8, 8}, 8, 0);
  const Tensor small = data->next().real;
  CHECK(small.sizes() == at::IntArrayRef{8, 3, 8, 8});
  CHECK(torch::allclose(small, torch::avg_pool2d(full, 2), 0, 0.02));
  CHECK((data->resolution() == square_of(16)));
}

TEST_CASE("LabelsAreUsedWhereTheyAreAskedForAndRefusedWhereThereAreNone") {
  Data without;
  CHECK_FALSE(without->labels_used());  // the toy has no use for any
  CHECK(without->class_counts().empty());
  without->begin({8, 8}, 8, 0);
  CHECK_FALSE(without->next().labels.defined());
  if (without->dataset()->classes() == 0) {
    CHECK_THROWS_WITH(Data(Changes{{"data.cond", "on"}}), Catch::Contains("--cond on"));
    return;
  }
  Data with(Changes{{"data.cond", "on"}});
  int64_t pictures = 0;
  for (const int64_t count : with->class_counts()) pictures += count;
  CHECK(pictures == with->dataset()->size());
  with->begin({8, 8}, 8, 0);
  CHECK(with->next().labels.sizes() == at::IntArrayRef{8});
}

// SPDX-License-Identifier: Apache-2.0
#include "train/average/snapshots.h"

#include <cmath>

#include "config/value.h"
#include "support/catch.h"
#include "support/temporary_folder.h"
#include "support/tensor_checks.h"
#include "train/step/run_ranks.h"
#include "train/step/toys.h"
#include "util/error.h"
#include "util/file.h"

using namespace gantrain;
using at::Tensor;

namespace {

constexpr int64_t kToyIterations = 128, kBatchOfToy = 8;

Config keeping_config(std::map<std::string, Json> more) {
  more["ema.posthoc"] = true;
  more["train.kimg"] = static_cast<double>(kToyIterations * kBatchOfToy) / 1e3;
  return toy_config(more);
}

std::vector<Tensor> weights_of(const NamedTensors& named) {
  std::vector<Tensor> all;
  for (const auto& [name, tensor] : named) all.push_back(tensor.to(at::kDouble).flatten());
  return all;
}

Tensor flat(const NamedTensors& named) { return torch::cat(weights_of(named)); }

// A toy's training with snapshots in a run folder, and true averages of other lengths beside.
struct RunWithSnapshots {
  TemporaryFolder folder;
  Tensor start;
  std::vector<Tensor> truth;

  RunWithSnapshots(const std::vector<double>& others,
                   const std::map<std::string, Json>& more = {}) {
    const Config config = keeping_config(more);
    StepOnCpu step(toy_row(), config);
    NamedTensors parameters;
    for (const auto& item : step->recipe().players().front()->network->named_parameters())
      parameters.emplace_back(item.key(), item.value());
    start = flat(parameters).clone();
    PowerAverages averages(parameters, others);
    SnapshotWriter snapshots(*step, config);
    CHECK(snapshots.cadence() == kToyIterations * kBatchOfToy / 64);
    Counters counters;
    for (int64_t i = 0; i < kToyIterations; ++i) {
      step.run(toy_pictures(kBatchOfToy, i), i);
      averages.update(i * kBatchOfToy, kBatchOfToy);
      counters.images_seen += kBatchOfToy;
      if (snapshots.is_due(i * kBatchOfToy, counters.images_seen))
        snapshots.write(folder.path(), counters, {});
    }
    snapshots.wait();
    for (size_t i = 0; i < others.size(); ++i) truth.push_back(flat(averages.of(i)));
  }
  double moved(size_t which) const { return (truth[which] - start).norm().item<double>(); }
};

// The parameters of a model, in the order of their names in `like`.
Tensor parameters_in(const AveragedModel& average) {
  const TensorMap all(average.model.tensors.begin(), average.model.tensors.end());
  StepOnCpu step(toy_row(), toy_config({}));
  NamedTensors parameters;
  for (const auto& item : step->recipe().players().front()->network->named_parameters())
    parameters.emplace_back(item.key(), all.at(item.key()));
  return flat(parameters);
}

}  // namespace

TEST_CASE("ModelsOfAnyLengthComeOfARunsSnapshots") {
  const std::vector<double> lengths = {.03, .05, .08, .15};
  const RunWithSnapshots run(lengths);
  CHECK(find_averages(run.folder.path()).size() == 64);
  const std::vector<AveragedModel> models = average_models(run.folder.path(), lengths);
  REQUIRE(models.size() == lengths.size());
  for (size_t i = 0; i < lengths.size(); ++i) {
    CAPTURE(lengths[i]);
    CHECK(models[i].length == lengths[i]);
    CHECK(models[i].misfit < .025);
    CHECK(models[i].rounding == 0);
    CHECK(models[i].model.metadata.at("gantrain.average") == shortest(lengths[i]));
    CHECK(models[i].model.metadata.count("gantrain.averages") == 0);
    const double error = (parameters_in(models[i]) - run.truth[i]).norm().item<double>();
    CHECK(error < 1e-3 * run.moved(i));
  }
}

TEST_CASE("AnAverageMayEndBeforeTheRunDoes") {
  const RunWithSnapshots run({.07});
  const fs::path folder = run.folder.path();
  const std::vector<NumberedFile> files = find_averages(folder);
  const int64_t until = files[20].images;
  const AveragedModel early = average_models(folder, {.07}, until + 1).front();
  CHECK(early.images == until);
  CHECK(average_models(folder, {.07}).front().images == files[0].images);
  for (size_t i = 0; i < 20; ++i) fs::remove(files[i].path);
  const AveragedModel last = average_models(folder, {.07}).front();
  CHECK(at::equal(parameters_in(early), parameters_in(last)));
  CHECK_THROWS_WITH(average_models(folder, {.07}, files.back().images),
                    Catch::Contains("one snapshot alone of averages up to "));
}

TEST_CASE("SnapshotsInBfloat16SayTheirError") {
  const RunWithSnapshots run({.07}, {{"ema.snapshot_type", "bf16"}});
  const RunWithSnapshots full({.07});
  const AveragedModel model = average_models(run.folder.path(), {.07}).front();
  const double error = (parameters_in(model) - run.truth[0]).norm().item<double>() / run.moved(0);
  CHECK(error > 1e-6);
  CHECK(error < 5e-3);
  CHECK(model.rounding < 3 * error);
  CHECK(model.rounding > error / 3);
  CHECK(model.model.tensors.front().second.scalar_type() == at::kFloat);
  const auto bytes = [](const RunWithSnapshots& of) {
    return fs::file_size(find_averages(of.folder.path()).front().path);
  };
  CHECK(bytes(run) < bytes(full));
}

// A run that goes on is told by the snapshot that it finds.
TEST_CASE("SnapshotsOfARunThatWasResumedAreToldByItsFirst") {
  const TemporaryFolder folder;
  const Config config = keeping_config({{"ema.snapshot_type", "bf16"}});
  StepOnCpu step(toy_row(), config);
  for (int64_t i = 1; i <= 3; ++i) {
    step.run(toy_pictures(kBatchOfToy, i), i - 1);
    SnapshotWriter another(*step, config);
    Counters counters;
    counters.images_seen = i * kBatchOfToy;
    another.write(folder.path(), counters, {});
    another.wait();
  }
  const auto type_in = [](const NumberedFile& file) {
    return load_safetensors(file.path).tensors.begin()->second.scalar_type();
  };
  std::vector<NumberedFile> files = find_averages(folder.path());
  REQUIRE(files.size() == 3);
  CHECK(type_in(files[2]) == at::kFloat);
  CHECK(type_in(files[1]) == at::kBFloat16);
  CHECK(type_in(files[0]) == at::kBFloat16);
  CHECK(average_models(folder.path(), {.1}).size() == 1);
  fs::remove(files[2].path);
  CHECK_THROWS_WITH(average_models(folder.path(), {.1}), Catch::Contains("differences"));
}

namespace {

NamedTensors averages_in(const NamedTensors& state) {
  NamedTensors all;
  for (const auto& [name, tensor] : state) {
    if (name.starts_with("G_power")) all.emplace_back(name, tensor);
  }
  return all;
}

}  // namespace

TEST_CASE("AveragesAreTheSameOnTwoRanksAndGoOnAfterAResume") {
  const auto trained = [](const Rendezvous& r, int64_t accumulate) {
    StepOnCpu step(toy_row(), keeping_config({{"train.accumulate", accumulate}}), r);
    for (int64_t i = 0; i < 8; ++i) step.run(toy_pictures(kBatchOfToy, i), i);
    return step.state();
  };
  const TensorsByName ranks =
      result_of_ranks(2, [&](const Rendezvous& r) { return averages_in(trained(r, 1)); });
  const NamedTensors parts = trained({}, 2), averages = averages_in(parts);
  CHECK(averages.size() % 2 == 0);
  CHECK(averages.size() > 0);
  check_same_bits(ranks, TensorsByName(averages.begin(), averages.end()));
  StepOnCpu first(toy_row(), keeping_config({{"train.accumulate", 2}}));
  for (int64_t i = 0; i < 4; ++i) first.run(toy_pictures(kBatchOfToy, i), i);
  StepOnCpu second(toy_row(), keeping_config({{"train.accumulate", 2}}));
  second.load(first.state());
  for (int64_t i = 4; i < 8; ++i) second.run(toy_pictures(kBatchOfToy, i), i);
  CHECK(sha256_of(second.state()) == sha256_of(parts));
}

TEST_CASE("KeepingAveragesChangesNothingElse") {
  const auto trained = [](bool posthoc) {
    StepOnCpu step(toy_row(), toy_config({{"ema.posthoc", posthoc}}));
    for (int64_t i = 0; i < 8; ++i) step.run(toy_pictures(kBatchOfToy, i), i);
    NamedTensors all;
    for (const auto& [name, tensor] : step.state()) {
      if (!name.starts_with("G_power")) all.emplace_back(name, tensor);
    }
    return sha256_of(all);
  };
  CHECK(trained(true) == trained(false));
}

TEST_CASE("SnapshotsThatCannotBeAveragedAreRefused") {
  const TemporaryFolder empty;
  CHECK_THROWS_WITH(average_models(empty.path(), {.05}), Catch::Contains("no snapshot"));
  const RunWithSnapshots run({.05});
  std::vector<NumberedFile> files = find_averages(run.folder.path());
  const fs::path other = run.folder.path() / "averages/average-000000.900.safetensors";
  fs::copy_file(files.front().path, other, fs::copy_options::overwrite_existing);
  CHECK_THROWS_WITH(average_models(run.folder.path(), {.05}), Catch::Contains("000000.900"));
  for (size_t i = 1; i < files.size(); ++i) fs::remove(files[i].path);
  fs::remove(other);
  CHECK_THROWS_WITH(average_models(run.folder.path(), {.05}),
                    Catch::Contains("one snapshot alone"));
}

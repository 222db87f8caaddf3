// SPDX-License-Identifier: Apache-2.0
#include <torch/script.h>

#include "support/catch.h"
#include "support/step_setup.h"
#include "support/temporary_folder.h"
#include "support/tensor_checks.h"
#include "train/run/run_metrics.h"
#include "train/step/run_ranks.h"
#include "train/step/toy_recipe.h"
#include "util/error.h"
#include "util/file.h"

using namespace gantrain;

namespace {

std::unique_ptr<Generator> toy_generator() {
  return toy_row().make_generator({}, {{"weight", torch::zeros({5, 3 * 16 * 16})}}, "test");
}

DataOptions small_shapes() {
  DataOptions options;
  options.resolution = square_of(16);
  options.synth_size = 200;
  return options;
}

MetricsOptions some_metrics(int64_t images, const std::string& detector = "") {
  MetricsOptions metrics;
  metrics.images = images;
  metrics.detector = detector;
  return metrics;
}

// An Evaluation with what it borrows.
struct Measuring {
  Measuring(
      const Rendezvous& rendezvous,
      const MetricsOptions& options,
      const Evaluation::WantsStop& wants_stop = [] { return false; })
      : group(join_on_cpu(rendezvous)),
        generator(toy_generator()),
        evaluation(*group,
                   at::kCPU,
                   {*generator, open_dataset(small_shapes()), small_shapes(), 1},
                   options,
                   wants_stop) {}

  std::shared_ptr<Group> group;
  std::unique_ptr<Generator> generator;
  Evaluation evaluation;
};

// A network of means, written by TorchScript as users bring it.
void write_detector(const std::filesystem::path& file) {
  torch::jit::Module network("means");
  network.define(R"(
    def forward(self, img):
        x = img.float() / 255
        return torch.cat([x.mean([2, 3]), x.square().mean([2, 3])], 1)
  )");
  network.save(file.string());
}

// All numbers of the results, as "fid/fid".
NamedTensors numbers(const std::vector<MetricResult>& results) {
  NamedTensors all;
  for (const MetricResult& result : results) {
    for (const auto& [name, value] : result.results.items())
      all.emplace_back(result.metric + "/" + name, torch::tensor(value.get<double>(), at::kDouble));
  }
  return all;
}

}  // namespace

TEST_CASE("EachMetricGivesItsResults") {
  Measuring measuring({}, some_metrics(32));
  const auto results = measuring.evaluation.measure({"swd", "msssim"}).value();
  REQUIRE(results.size() == 2);
  CHECK(results[0].metric == "swd");
  CHECK(results[0].results["swd"].get<double>() > 0);
  CHECK(results[1].results["msssim"].get<double>() > 0);
  CHECK(measuring.evaluation.measure({})->empty());
}

TEST_CASE("AnyNumberOfRanksMeasuresWhatOneMeasures") {
  const TemporaryFolder folder;
  const auto measure = [&](const Rendezvous& r) {
    if (r.ranks.world == 1) write_detector(folder / "means.pt");
    Measuring measuring(r, some_metrics(37, folder / "means.pt"));
    return numbers(measuring.evaluation.measure({"swd", "msssim", "diversity", "fid"}).value());
  };
  const TensorsByName alone = result_of_ranks(1, measure);
  CHECK(alone.at("fid/fid").item<double>() > 0);
  for (const int64_t world : {2, 3}) {
    CAPTURE(world);
    for (const auto& [name, value] : result_of_ranks(world, measure)) {
      CAPTURE(name);
      CHECK(value.item<double>() == Approx(alone.at(name).item<double>()).epsilon(1e-6));
    }
  }
}

TEST_CASE("MetricsAreGivenUpWhereverTheyAreInterrupted") {
  int64_t asked = 0;
  const auto measure = [&asked](int64_t last) {
    asked = 0;
    Measuring measuring({}, some_metrics(200), [&asked, last] { return asked++ >= last; });
    return measuring.evaluation.measure({"swd", "msssim"});
  };
  REQUIRE(measure(1'000'000));
  const int64_t all = asked;
  CHECK(all >= 6);  // pictures of both kinds, their patches, directions, similarities
  for (int64_t last = 0; last < all; ++last) {
    CAPTURE(last);
    CHECK_FALSE(measure(last));
  }
}

TEST_CASE("WhatOneRankWantsEndsTheMetricsOfAll") {
  const TemporaryFolder folder;
  for (const int64_t last : {0, 1, 3, 5}) {
    CAPTURE(last);
    const int failed = failed_ranks(3, [&](const Rendezvous& r) {
      int64_t asked = 0;
      const auto wants_stop = [&] { return r.ranks.rank == 1 && asked++ >= last; };
      Measuring measuring(r, some_metrics(200), wants_stop);
      return measuring.evaluation.measure({"swd", "msssim"}) ? 1 : 0;
    });
    CHECK(failed == 0);
  }
}

TEST_CASE("WhatCannotBeMeasuredIsFoundOutBeforehand") {
  const TemporaryFolder folder;
  write_detector(folder / "means.pt");
  Measuring measuring({}, some_metrics(8, folder / "means.pt"));
  CHECK_NOTHROW(measuring.evaluation.check({"swd", "fid", "pr", "dc"}));
  CHECK_THROWS_WITH(measuring.evaluation.check({"fid", "is"}),
                    Catch::Contains("is needs 10 pictures"));
  CHECK_THROWS_WITH(measuring.evaluation.check({"fid", "ppl"}),
                    Catch::Contains("means.pt") && Catch::Contains("ppl"));
  Measuring more({}, some_metrics(32, folder / "means.pt"));
  CHECK_THROWS_WITH(more.evaluation.check({"fid", "is"}),
                    Catch::Contains("means.pt") && Catch::Contains("probabilities"));
  MetricsOptions another = some_metrics(8, folder / "means.pt");
  another.detector_sha256 = "0123";
  CHECK_THROWS_WITH(Measuring({}, another), Catch::Contains("means.pt: sha256 0123"));
}

TEST_CASE("WhatIsNoDetectorIsRefusedByName") {
  const TemporaryFolder folder;
  write_file(folder / "text.pt", "not TorchScript");
  try {
    Measuring({}, some_metrics(8, folder / "text.pt"));
    FAIL("a text was loaded");
  } catch (const UserError& e) {
    CHECK(e.code() == Exit::kInput);
    CHECK_THAT(e.what(), Catch::Contains("text.pt"));
  }
}

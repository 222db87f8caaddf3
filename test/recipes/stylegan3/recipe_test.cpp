// SPDX-License-Identifier: Apache-2.0
// The recipe's own phases on the fixtures' networks: losses, penalties, every parameter's gradient,
// what they move beside the weights, and three iterations of training.
#include "recipes/stylegan3/recipe.h"

#include <cmath>
#include <optional>

#include "recipes/reference_phases.h"
#include "recipes/stylegan3/reference_step.h"

using namespace gantrain;
using namespace gantrain::stylegan3;

namespace {

// Runs the phase and compares all that the fixture has of it as `in_fixture`.
PhaseResult check_phase(ReferenceStep& r, const std::string& name, const std::string& in_fixture) {
  return gantrain::check_phase(
      r.step->recipe(), name, r.pictures, r.pair.reference, in_fixture, {5e-3, 3e-3, 1e-9});
}

Tensor buffer(ReferenceStep& r, const std::string& name) {
  return r.step->recipe().players()[0]->network->named_buffers()[name];
}

}  // namespace

TEST_CASE("TheGeneratorsPhaseIsTheReferences") {
  for (const std::string name : kReferences) {
    CAPTURE(name);
    ReferenceStep r(name);
    check_phase(r, "Gmain", "Gmain");
  }
}

TEST_CASE("GradientsThroughAMovedInputAreTheReferences") {
  for (const std::string name : {"t32", "r32"}) {
    CAPTURE(name);
    ReferenceStep r(name);
    buffer(r, "synthesis.input.transform").copy_(r.io.tensors.at("in/transform"));
    check_phase(r, "Gmain", "Gmain_transform");
  }
}

// The pass for D moves the mean of w, and the input magnitudes before it uses them.
TEST_CASE("TheDiscriminatorsPhaseAndWhatItMovesAreTheReferences") {
  for (const std::string name : kReferences) {
    CAPTURE(name);
    ReferenceStep r(name);
    const PhaseResult result = check_phase(r, "Dmain", "Dmain");
    hand_back_sums(r.step->recipe(), result.out.sums);
    CHECK(scaled_error(buffer(r, "mapping.w_avg"), r["Dmain/w_avg_after"]) < 5e-5);
    for (const std::string& layer : layer_names(r.pair.G_tensors)) {
      CAPTURE(layer);
      CHECK(scaled_error(buffer(r, "synthesis." + layer + ".magnitude_ema"),
                         r["Dmain/magnitude_ema_after/" + layer]) < 5e-5);
    }
  }
}

// Mescheder et al. 2018, eq. 9: gamma/2 |grad D(x)|^2.
TEST_CASE("TheR1PhaseIsTheReferences") {
  for (const std::string name : kReferences) {
    CAPTURE(name);
    ReferenceStep r(name);
    check_phase(r, "Dreg", "Dreg");
  }
}

TEST_CASE("PhasesInTheFadeOfTheBlurAreTheReferences") {
  const Json blur = Json::parse(fixture("sg3_r32_loss").metadata.at("config"))["blur"];
  ReferenceStep r(
      "r32",
      "loss",
      {{"stylegan3.blur_sigma", blur["init_sigma"]}, {"stylegan3.blur_fade", blur["fade_kimg"]}});
  for (DeviceNumber* number : r.step->recipe().numbers())
    number->advance_to(blur["cur_nimg"].get<int64_t>());
  check_phase(r, "Gmain", "Gmain_blur");
  check_phase(r, "Dmain", "Dmain_blur");
  check_phase(r, "Dreg", "Dreg_blur");
}

TEST_CASE("TheBlurIsGoneAfterItsFade") {
  ReferenceStep r("r32", "loss", {{"stylegan3.blur_sigma", 10}, {"stylegan3.blur_fade", 25}});
  for (DeviceNumber* number : r.step->recipe().numbers()) number->advance_to(25'000);
  check_phase(r, "Gmain", "Gmain");
  check_phase(r, "Dreg", "Dreg");
}

namespace {

// Three iterations of the fixture NAME_train.
struct Training {
  explicit Training(const std::string& name)
      : r(name,
          "train",
          {{"ema.half_life", 1.25}, {"ema.rampup", 0.05}, {"stylegan3.d_interval", 16}}),
        first(r.config["cur_nimg_start"]) {
    load_into(*r.step->average().network(), r.pair.G_tensors, name);
    way.emplace(r.step, r.config["parameter_order"]);
  }

  void iterate(int64_t i) {
    r.draws.give("z", r["train/z"][i][0]);  // Dmain has its own
    r.pictures.pictures = ReferenceStep::as_pictures(r["train/real_u8"][i]);
    r.pictures.iteration = i;
    r.pictures.images_seen = first + 4 * i;
    const StepReport report = r.step.run(r.pictures);
    const std::string at = fmt::format("train/{}/", i);
    for (const PhaseReport& phase : report.phases) {
      const std::string name = phase.phase->name;
      CAPTURE(i, name);
      if (name == "Dreg") {
        CHECK(scaled_error(value_of(phase.statistics, "Loss/r1_penalty"),
                           r[at + "stat/Loss.r1_penalty"]) < 1e-3);
      } else {
        const Tensor expected = r[at + "stat/Loss." + name.substr(0, 1) + ".loss"];
        CHECK(phase.losses.at(0).item<double>() ==
              Approx(expected.mean().item<double>()).epsilon(1e-3));
      }
    }
    way->check_moved(i, r.pair.reference);
    const auto average = r.step->average().network()->named_buffers();
    CHECK(scaled_error(average["mapping.w_avg"], r[at + "G_ema/w_avg"]) < 1e-3);
    int64_t k = 0;
    for (const std::string& layer : layer_names(r.pair.G_tensors)) {
      CAPTURE(layer);
      CHECK(average["synthesis." + layer + ".magnitude_ema"].item<double>() ==
            Approx(r[at + "G_ema/magnitude_ema"][k++].item<double>()).epsilon(1e-3));
    }
  }

  ReferenceStep r;
  int64_t first;
  std::optional<WayOfNetworks> way;
};

}  // namespace

TEST_CASE("ThreeIterationsEndWhereTheReferenceEnds") {
  for (const std::string name : kReferences) {
    CAPTURE(name);
    Training training(name);
    ReferenceStep& r = training.r;
    r.before = [&](const std::string& doing) {
      if (doing.starts_with("Dmain")) r.draws.give("z", r["train/z"][r.pictures.iteration][1]);
    };
    for (int64_t i = 0; i < 3; ++i) training.iterate(i);
    for (const std::string player : {"G", "D", "G_ema"})
      CHECK(scaled_error(training.way->norms(player, false), r["train/2/paramnorm/" + player]) <
            1e-5);
    const torch::NoGradGuard no_grad;
    const auto average =
        std::dynamic_pointer_cast<stylegan3::Generator>(r.step->average().network());
    REQUIRE(average);
    const Tensor labels =
        r.pictures.labels.defined() ? r.io.tensors.at("in/c").argmax(1).narrow(0, 0, 1) : Tensor();
    const Tensor picture = average->forward(r.io.tensors.at("in/z").narrow(0, 0, 1), labels);
    CHECK(scaled_error(picture, r["train/img_ema_sample0"]) < 1e-3);
  }
}

TEST_CASE("PhasesOfStyleGan3AreFunctions") {
  const Tensor real = torch::linspace(-1, 1, 4 * 3 * 8 * 8).reshape({4, 3, 8, 8});
  const Tensor labels = torch::arange(4).remainder(2);
  for (const char* config : {"t", "r"}) {
    for (const bool reads_wait : {false, true}) {
      CAPTURE(config, reads_wait);
      std::optional<AssumeReadsWait> assumed;
      if (reads_wait) assumed.emplace();
      StepOnCpu step(stylegan3::row(),
                     step_config(stylegan3::facts(),
                                 tiny_run({{"train.batch", 4},
                                           {"stylegan3.config", config},
                                           {"stylegan3.blur_sigma", 2},
                                           {"stylegan3.blur_fade", 25},
                                           {"ada.mode", "ada"},
                                           {"ada.p", 0.5},
                                           {"precision.amp", "bf16"}})),
                     {},
                     {3, 5});
      check_phases_are_functions(*step, {real, labels, 0});
    }
  }
}

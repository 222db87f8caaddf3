// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/device.h"
#include "recipes/projected/networks_of_fixtures.h"
#include "recipes/projected/options.h"
#include "support/given_draws.h"
#include "support/phase_checks.h"
#include "util/text.h"

namespace gantrain::projected {

// The recipe with the networks of fixtures/proj_NAME, in training on the fixture's latents,
// classes, noise, pictures and draws of DiffAugment, batch 4. It computes in float64, in which no
// unit of the feature network flips by rounding: the reference's own float64 agrees with what it
// stored.
struct ReferenceStep {
  ReferenceStep(const std::string& fixture_name, const std::string& kind)
      : name(fixture_name),
        numbers(fixture("proj_" + name + "_" + kind)),
        config(Json::parse(numbers.metadata.at("config"))),
        step(row(),
             step_config(facts(), changes(config)),
             {},
             std::vector<int64_t>(config["G"]["c_dim"].get<size_t>(), 1),
             [this](const std::string& doing) {
               watch(doing);
               if (before) before(doing);
             }) {
    watch.step = &step;
    const Tensors G_tensors = NetworkFile("proj_" + name + "_G").tensors;
    for (const Player* player : step->recipe().players()) {
      load_into(*player->network,
                player->name == "G" ? G_tensors : discriminator_tensors(name),
                player->name);
    }
    load_into(*step->average().network(), G_tensors, "G");
    step->begin();
    const bool in = numbers.tensors.count("in/real_u8") != 0;
    const Tensor u8 = numbers.tensors.at(in ? "in/real_u8" : "train/real_u8");
    pictures = {as_pictures(u8).to(at::kDouble), at_or_none(numbers, "in/real_class_idx"), 0};
    const Tensor classes = at_or_none(numbers, "in/gen_class_idx");
    if (classes.defined()) draws.give_classes(classes, config["G"]["c_dim"]);
  }

  const Tensor& operator[](const std::string& key) const { return numbers.tensors.at(key); }

  // The noise of all layers, "TILES00", ...; none in the lite network.
  void give_noise(const std::string& tiles) {
    for (int64_t layer = 0; numbers.tensors.count(fmt::format("{}{:02}", tiles, layer)) != 0;
         ++layer) {
      const int64_t side = int64_t{8} << (layer / 2);
      draws.give(fmt::format("noise/{}", layer),
                 tiled_noise(numbers, tiles)(layer, square_of(side)));
    }
  }
  // The draws of DiffAugment in that call of an iteration, fakes_of(phase) or reals_of(phase).
  void give_augmentation(const std::string& where, int64_t call) {
    const auto at = [&](const char* key) { return (*this)[where + "/" + key].to(at::kDouble); };
    const auto side = static_cast<double>(pictures.pictures.size(2));
    draws.give("diffaugment/color",
               at::stack({at("brightness"), at("saturation"), at("contrast")}, 1),
               call);
    const double most = std::floor(.125 * side + .5), count = 2 * most + 1;
    draws.give("diffaugment/translation",
               (at::stack({at("translation_rows"), at("translation_cols")}, 1) + most + .5) / count,
               call);
    const auto length = static_cast<int64_t>(.2 * side + .5);
    draws.give("diffaugment/cutout",
               (at::stack({at("cutout_row"), at("cutout_col")}, 1) + .5) /
                   (side + 1 - static_cast<double>(length % 2)),
               call);
  }

  static std::map<std::string, Json> changes(const Json& config) {
    const Json &g = config["G"], &d = config["D"];
    std::map<std::string, Json> all = {{"train.dtype", "float64"},
                                       {"data.resolution", g["img_resolution"]},
                                       {"train.batch", 4},
                                       {"projected.z_dim", g["z_dim"]},
                                       {"projected.ngf", g["ngf"]},
                                       {"projected.lite", g["synthesis_kwargs"]["lite"]},
                                       {"projected.feature_widths", "8,4,8,8,12,16,16,24"},
                                       {"projected.cout", kNarrowCout},
                                       {"projected.ndf", d["ndf"]},
                                       {"projected.separable", d["separable"]},
                                       {"projected.cmap_dim", d.value("cmap_dim", 64)},
                                       {"projected.embedding", d.value("embedding_dim", 128)}};
    if (config.contains("adam_G")) {
      all["G.adam.eps"] = config["adam_G"]["eps"];
      all["D.adam.eps"] = config["adam_D"]["eps"];
      all["ema.half_life"] = config["ema"]["ema_kimg"];
    }
    if (config.contains("blur") && !config["blur"].is_null()) {
      all["projected.blur_init_sigma"] = config["blur"]["blur_init_sigma"];
      all["projected.blur_fade_kimg"] = config["blur"]["blur_fade_kimg"];
    }
    return all;
  }

  const AssumeReadsWait reads_wait;
  std::string name;
  TensorFile numbers;
  Json config;
  StepWatch watch;
  std::function<void(const std::string& doing)> before;  // of "G forward", ...
  StepOnCpu step;
  GivenDraws draws;
  GlobalBatch pictures;
};

}  // namespace gantrain::projected

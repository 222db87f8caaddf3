// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nlohmann/json.hpp>

#include "core/device.h"
#include "recipes/stylegan3/networks_of_fixtures.h"
#include "recipes/stylegan3/options.h"
#include "recipes/stylegan3/recipe.h"
#include "support/catch.h"
#include "support/given_draws.h"
#include "support/phase_checks.h"
#include "support/tensor_checks.h"
#include "util/text.h"

namespace gantrain::stylegan3 {

// The recipe with the networks of fixtures/sg3_NAME, in training on the fixture's latents, classes
// and pictures, batch 4. Reads wait, so that classes too go through the kernels of draws.
struct ReferenceStep {
  explicit ReferenceStep(const std::string& name,
                         const std::string& numbers = "loss",
                         const std::map<std::string, Json>& changes = {})
      : pair(name, numbers),
        io(fixture("sg3_" + name + "_io")),
        config(Json::parse(pair.reference.metadata.at("config"))),
        step(row(),
             step_config(facts(), with_sizes(name, config, changes)),
             {},
             std::vector<int64_t>(classes(name), 1),
             [this](const std::string& doing) {
               watch(doing);
               if (before) before(doing);
             }) {
    watch.step = &step;
    for (const Player* player : step->recipe().players()) {
      const std::string source = "sg3_" + name + "_" + player->name;
      load_into(*player->network, fixture(source).tensors, source, player->name + "/");
    }
    step->begin();
    pictures = {as_pictures(io.tensors.at("in/real_u8")), {}, 0};
    draws.give("z", io.tensors.at("in/z"));
    if (classes(name) == 0) return;
    pictures.labels = io.tensors.at("in/real_c").argmax(1);
    draws.give_classes(io.tensors.at("in/c").argmax(1), classes(name));
  }

  const Tensor& operator[](const std::string& key) const { return pair[key]; }

  static Tensor as_pictures(const Tensor& u8) { return u8.to(at::kFloat) / 127.5 - 1; }
  static int64_t classes(const std::string& name) { return name == "t16_c3" ? 3 : 0; }
  static std::map<std::string, Json> with_sizes(const std::string& name,
                                                const Json& numbers,
                                                std::map<std::string, Json> changes) {
    const Json g = Json::parse(fixture("sg3_" + name + "_G").metadata.at("config"));
    const Json d = Json::parse(fixture("sg3_" + name + "_D").metadata.at("config"));
    const bool rotates = g.value("use_radial_filters", false);
    // m <- q + beta (m - q) with beta = 2^(-batch / half-life).
    const double half_life = -4 / std::log2(g["magnitude_ema_beta"].get<double>()) / 1000;
    changes.merge(std::map<std::string, Json>{
        {"data.resolution", g["img_resolution"]},
        {"train.batch", 4},
        {"stylegan3.config", rotates ? "r" : "t"},
        {"stylegan3.z_dim", g["z_dim"]},
        {"stylegan3.w_dim", g["w_dim"]},
        {"stylegan3.num_layers", g["num_layers"]},
        {"stylegan3.channel_base", g["channel_base"].get<int64_t>() / (rotates ? 2 : 1)},
        {"stylegan3.channel_max", g["channel_max"].get<int64_t>() / (rotates ? 2 : 1)},
        {"stylegan3.d_channel_base", d["channel_base"]},
        {"stylegan3.d_channel_max", d["channel_max"]},
        {"stylegan3.magnitude_half_life", half_life},
        {"stylegan3.gamma", numbers["r1_gamma"]},
        {"stylegan3.blur_sigma", 0},
        {"stylegan3.blur_fade", 0},
        {"ada.mode", "none"}});
    return changes;
  }

  const AssumeReadsWait reads_wait;
  Pair pair;
  TensorFile io;
  Json config;
  StepWatch watch;
  std::function<void(const std::string& doing)> before;  // of "Dmain forward", ...
  StepOnCpu step;
  GivenDraws draws;
  GlobalBatch pictures;
};

}  // namespace gantrain::stylegan3

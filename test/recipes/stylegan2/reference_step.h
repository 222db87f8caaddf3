// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nlohmann/json.hpp>

#include "core/device.h"
#include "recipes/stylegan2/options.h"
#include "recipes/stylegan2/recipe.h"
#include "support/catch.h"
#include "support/given_draws.h"
#include "support/phase_checks.h"
#include "support/tensor_checks.h"
#include "util/text.h"

namespace gantrain::stylegan2 {

// The recipe with the networks of fixtures/sg2_NAME, in training on the fixture's latents, noise,
// classes and pictures, batch 8: "uncond32" or "cond32". Reads wait, so that classes too go through
// the kernels of draws.
struct ReferenceStep {
  explicit ReferenceStep(const std::string& name, const std::map<std::string, Json>& changes = {})
      : reference(fixture("sg2_" + name + "_loss")),
        config(Json::parse(reference.metadata.at("config"))),
        step(row(),
             step_config(facts(), with_sizes(name, changes)),
             {},
             std::vector<int64_t>(has_classes(name) ? kClasses : 0, 1),
             std::ref(watch)) {
    watch.step = &step;
    for (const Player* player : step->recipe().players()) {
      const std::string source = "sg2_" + name + "_" + player->name;
      load_into(*player->network, fixture(source).tensors, source, player->name + "/");
    }
    step->begin();
    pictures = {reference.tensors.at("in/real"), {}, 0};
    draws.give("z", reference.tensors.at("in/z"));
    draws.give("path", reference.tensors.at("in/pl_noise"));
    draws.give_noise(stored_noise_of(*step->recipe().players()[0]->network));
    if (!has_classes(name)) return;
    pictures.labels = reference.tensors.at("in/real_c").argmax(1);
    draws.give_classes(reference.tensors.at("in/c").argmax(1), kClasses);
  }

  const at::Tensor& operator[](const std::string& key) const { return reference.tensors.at(key); }

  static constexpr int64_t kClasses = 10;
  static bool has_classes(const std::string& name) { return name == "cond32"; }
  static std::map<std::string, Json> with_sizes(const std::string& name,
                                                std::map<std::string, Json> changes) {
    const Json loss = Json::parse(fixture("sg2_" + name + "_loss").metadata.at("config"));
    changes.merge(std::map<std::string, Json>{{"data.resolution", 32},
                                              {"train.batch", 8},
                                              {"stylegan2.z_dim", 64},
                                              {"stylegan2.w_dim", 64},
                                              {"stylegan2.channel_base", 1024},
                                              {"stylegan2.channel_max", 64},
                                              {"stylegan2.gamma", loss["r1_gamma"]},
                                              {"stylegan2.pl_weight", loss["pl_weight"]},
                                              {"stylegan2.pl_decay", loss["pl_decay"]},
                                              {"stylegan2.pl_shrink", loss["pl_batch_shrink"]},
                                              {"stylegan2.mixing", loss["style_mixing_prob"]}});
    return changes;
  }
  // From 4x4 up, two layers each above it.
  static std::vector<at::Tensor> stored_noise_of(const torch::nn::Module& G) {
    const auto buffers = G.named_buffers();
    std::vector<at::Tensor> all = {buffers["synthesis.b4.conv1.noise_const"]};
    for (int64_t r = 8; r <= 32; r *= 2) {
      for (const char* layer : {"conv0", "conv1"})
        all.push_back(buffers[fmt::format("synthesis.b{}.{}.noise_const", r, layer)]);
    }
    return all;
  }

  const AssumeReadsWait reads_wait;
  TensorFile reference;
  Json config;
  StepWatch watch;
  StepOnCpu step;
  GivenDraws draws;
  GlobalBatch pictures;
};

}  // namespace gantrain::stylegan2

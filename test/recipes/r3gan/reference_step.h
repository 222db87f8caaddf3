// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nlohmann/json.hpp>

#include "recipes/r3gan/networks_of_fixtures.h"
#include "recipes/r3gan/options.h"
#include "recipes/r3gan/recipe.h"
#include "support/catch.h"
#include "support/given_draws.h"
#include "support/phase_checks.h"
#include "util/text.h"

namespace gantrain::r3gan {

// The recipe with the networks of fixtures/r3gan_NAME, in training on the fixture's latents,
// classes and pictures, batch 4, without augmentation.
struct ReferenceStep {
  explicit ReferenceStep(const std::string& name,
                         const std::string& numbers = "loss",
                         const std::map<std::string, Json>& changes = {})
      : networks(name, numbers),
        io(fixture("r3gan_" + name + "_io")),
        config(Json::parse(networks.reference.metadata.at("config"))),
        step(row(),
             step_config(facts(), with_sizes(networks.shape, config, changes)),
             {},
             std::vector<int64_t>(static_cast<size_t>(networks.shape.c_dim), 1),
             [this](const std::string& doing) {
               watch(doing);
               if (before) before(doing);
             }) {
    watch.step = &step;
    for (const Player* player : step->recipe().players()) {
      load_into(*player->network,
                player->name == "G" ? networks.G_tensors : networks.D_tensors,
                player->name);
    }
    load_into(*step->average().network(), networks.G_tensors, "G");
    step->begin();
    pictures = {Networks::as_pictures(io.tensors.at("in/real_u8")), Networks::labels(io), 0};
    draws.give("z", io.tensors.at("in/z"));
  }

  const Tensor& operator[](const std::string& key) const { return networks[key]; }

  // "4:16,8:12" of one value for each stage.
  static std::string table(const std::vector<int64_t>& values) {
    std::vector<std::string> entries;
    for (size_t i = 0; i < values.size(); ++i)
      entries.push_back(fmt::format("{}:{}", int64_t{4} << i, values[i]));
    return join(entries, ",");
  }
  static std::map<std::string, Json> with_sizes(const Shape& shape,
                                                const Json& numbers,
                                                std::map<std::string, Json> changes) {
    changes.merge(std::map<std::string, Json>{{"data.resolution", shape.img_resolution.width},
                                              {"train.batch", 4},
                                              {"r3gan.z_dim", shape.z_dim},
                                              {"r3gan.embedding", shape.embedding},
                                              {"r3gan.width", table(shape.widths)},
                                              {"r3gan.cardinality", table(shape.cardinalities)},
                                              {"r3gan.blocks", table(shape.blocks)},
                                              {"r3gan.gamma", numbers.value("gamma", Json(1))},
                                              {"ada.mode", "none"}});
    return changes;
  }

  Networks networks;
  TensorFile io;
  Json config;
  StepWatch watch;
  std::function<void(const std::string& doing)> before;  // of "D forward", ...
  StepOnCpu step;
  GivenDraws draws;
  GlobalBatch pictures;
};

}  // namespace gantrain::r3gan

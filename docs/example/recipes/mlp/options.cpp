// SPDX-License-Identifier: Apache-2.0
#include "recipes/mlp/options.h"

namespace gantrain::mlp {

const RecipeFacts& facts() {
  static const RecipeFacts record = {
      .name = "mlp",
      .title = "MLP GAN",
      .citation = "I. Goodfellow et al.: Generative Adversarial Nets. NeurIPS 2014",
      .add_keys = [](Schema& schema) { add_keys<Options>(schema); },
      .check_resolution = [](const Size&) {},  // any size will do
      .equilibrium = [](const SettingOf&) { return nonsaturating_equilibrium(); },
  };
  return record;
}

}  // namespace gantrain::mlp

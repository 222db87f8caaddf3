// SPDX-License-Identifier: Apache-2.0
#include "bench_ddp_nets.h"

#include <algorithm>

#include "auto_values.h"
#include "resolve.h"
#include "util/error.h"
#include "util/text.h"

namespace gantrain {

namespace {

const std::vector<DdpNet>& nets() {
  // Regularisation phases would only add arithmetic to the bytes of the main ones.
  static const std::vector<DdpNet> table = {
      {"dcgan",
       "DCGAN, 64 pixels",
       "dcgan",
       {"data.resolution=64", "dcgan.channels=512", "dcgan.d_channels=64"},
       16,
       {"--channels", "512", "--d-channels", "64"}},
      {"stylegan2",
       "StyleGAN2, 16 pixels, main phases",
       "stylegan2",
       {"data.resolution=16",
        "stylegan2.automatic=off",
        "stylegan2.channel_max=432",
        "stylegan2.map_depth=2",
        "stylegan2.pl_weight=0",
        "stylegan2.gamma=0"},
       8,
       {}}};
  return table;
}

}  // namespace

std::vector<DdpNet> ddp_nets(const std::string& names) {
  std::vector<DdpNet> chosen;
  for (const std::string& word : split(names, ',')) {
    const auto at = std::find_if(
        nets().begin(), nets().end(), [&](const DdpNet& net) { return net.name == word; });
    if (at == nets().end()) fail(Exit::kUsage, "--nets {}: there are dcgan, stylegan2", names);
    chosen.push_back(*at);
  }
  return chosen;
}

Json ddp_config(const DdpNet& net, int64_t ranks, std::optional<int64_t> batch) {
  ConfigSources request;
  request.preset = net.preset;
  for (const std::string& pair : net.set) request.flags.emplace_back("--set", pair);
  request.flags.emplace_back("--batch", std::to_string(batch.value_or(net.batch) * ranks));
  Config config = resolve(request, {});
  choose_auto_values(config, {.ranks = ranks});
  return config.to_json();
}

}  // namespace gantrain

// SPDX-License-Identifier: Apache-2.0
#include "bench/bench_command.h"

#include <algorithm>
#include <cstdlib>

#include "launch/where/devices.h"
#include "launch/where/environment.h"
#include "util/error.h"
#include "util/file.h"
#include "util/log.h"
#include "util/text.h"

namespace gantrain {

void complete_peers(Peers& peers, const Options& options, bool own_threads) {
  const char* python = std::getenv("GANTRAIN_PYTHON");
  if (!options.given("--python"))
    peers.python = python == nullptr || *python == 0 ? "python3" : python;
  peers.scripts = (executable_folder() / "../scripts/peers").string();
  if (!own_threads) return;
  for (const auto& [name, value] : idle_threads(current_environment()).variables)
    peers.unset.push_back(name);
}

std::string names_of(const std::vector<RecipeFacts>& recipes, const std::string& between) {
  std::vector<std::string> names;
  for (const RecipeFacts& recipe : recipes) names.push_back(recipe.name);
  return join(names, between);
}

std::vector<RecipeFacts> networks_named(const std::string& names,
                                        const std::vector<RecipeFacts>& all) {
  std::vector<RecipeFacts> chosen;
  for (const std::string& word : split(names, ',')) {
    const auto at =
        std::ranges::find_if(all, [&](const RecipeFacts& recipe) { return recipe.name == word; });
    if (at == all.end()) fail(Exit::kUsage, "--nets {}: there are {}", names, names_of(all, ", "));
    chosen.push_back(*at);
  }
  return chosen;
}

std::vector<int64_t> rank_numbers(const std::string& text, int64_t least, int64_t most) {
  std::vector<int64_t> all;
  for (const std::string& word : split(text, ',')) {
    const auto number = parse_int(word);
    if (!number || *number < least || *number > most) {
      fail(
          Exit::kUsage, "--ranks {}: numbers from {} to {} with commas between", text, least, most);
    }
    all.push_back(*number);
  }
  return all;
}

void quieten() { set_log({Level::kWarning, Level::kInfo, {}, ""}); }

Config config_of(const std::string& preset,
                 const std::vector<std::string>& set,
                 const Pairs& flags,
                 const Site& site) {
  ConfigSources sources;
  sources.preset = preset;
  for (const std::string& pair : set) sources.flags.emplace_back("--set", pair);
  sources.flags.insert(sources.flags.end(), flags.begin(), flags.end());
  Config config = resolve(sources, {});
  choose_auto_values(config, site);
  return config;
}

}  // namespace gantrain

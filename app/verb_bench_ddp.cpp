// SPDX-License-Identifier: Apache-2.0
#include <CLI/CLI.hpp>
#include <algorithm>
#include <optional>

#include "bench_requests.h"
#include "bench_verbs.h"
#include "cli.h"
#include "config/message.h"
#include "resolve.h"
#include "trainer_library.h"
#include "util/error.h"
#include "util/log.h"
#include "util/text.h"

namespace gantrain {

namespace {

// A pair of networks to time.
struct Net {
  const char* name;
  const char* about;
  const char* preset;
  std::vector<std::string> set;
  int64_t batch;                  // of a rank
  std::vector<std::string> peer;  // arguments of scripts/peers/ddp.py for the same; empty: none
};

const std::vector<Net>& nets() {
  // Regularisation phases would only add arithmetic to the bytes of the main ones.
  static const std::vector<Net> table = {
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

std::vector<int64_t> numbers(const std::string& flag, const std::string& text) {
  std::vector<int64_t> all;
  for (const std::string& word : split(text, ',')) {
    const auto number = parse_int(word);
    if (!number || *number < 2 || *number > 64)
      fail(Exit::kUsage, "{} {}: numbers from 2 to 64 with commas between", flag, text);
    if (std::find(all.begin(), all.end(), *number) == all.end()) all.push_back(*number);
  }
  return all;
}

std::vector<const Net*> chosen_nets(const std::string& text) {
  std::vector<const Net*> chosen;
  for (const std::string& word : split(text, ',')) {
    const auto at = std::find_if(
        nets().begin(), nets().end(), [&](const Net& net) { return net.name == word; });
    if (at == nets().end()) fail(Exit::kUsage, "--nets {}: there are dcgan, stylegan2", text);
    chosen.push_back(&*at);
  }
  return chosen;
}

// What each rank trains, without the synchronisation, which the benchmark sets.
Json config_of(const Net& net, int64_t ranks, std::optional<int64_t> batch) {
  ConfigSources request;
  request.preset = net.preset;
  for (const std::string& pair : net.set) request.flags.emplace_back("--set", pair);
  request.flags.emplace_back("--batch", std::to_string(batch.value_or(net.batch) * ranks));
  return resolve(request, {}).to_json();
}

}  // namespace

int bench_ddp_verb(const std::vector<std::string>& arguments) {
  CLI::App app(
      "Times iterations in every way of synchronising gradients, on gloo ranks of one thread each, "
      "and pairs the default with PyTorch's DistributedDataParallel.",
      "gantrain bench ddp");
  std::string ranks = "2,4", names = "dcgan,stylegan2";
  BenchDdpRequest request;
  request.python = default_python();
  request.unset = own_variables();
  request.script = peer_scripts() + "/ddp.py";
  const CLI::Range counts(1, 10000);
  app.add_option("--ranks", ranks, "numbers of ranks")->take_last();
  app.add_option("--nets", names, "networks: dcgan, stylegan2")->take_last();
  std::optional<int64_t> batch;
  app.add_option("--batch", batch, "pictures of a rank; 16 and 8 if left out")->check(counts);
  app.add_option("--rounds", request.rounds, "measurements of each way, in turns")->check(counts);
  app.add_option("--steps", request.steps, "timed iterations of a measurement")->check(counts);
  app.add_option("--pairs", request.pairs, "measurements of ours and the peer's; 0: no peer")
      ->check(CLI::Range(0, 10000));
  app.add_option("--python", request.python, "that has torch 2.11, for the peer (GANTRAIN_PYTHON)")
      ->take_last();
  app.add_flag("--json", request.json, "one JSON line, last on standard output");
  if (!parse(app, arguments)) return 0;
  set_log({Level::kWarning, Level::kInfo, {}, ""});  // not of batches that differ from presets'
  for (const Net* net : chosen_nets(names)) {
    BenchNet& timed = request.nets.emplace_back(BenchNet{net->name, net->about, net->peer, {}});
    for (const int64_t count : numbers("--ranks", ranks))
      timed.worlds.push_back({count, config_of(*net, count, batch)});
  }
  return call_trainer("bench ddp", message_of(request).dump(), /*cuda=*/false);
}

}  // namespace gantrain

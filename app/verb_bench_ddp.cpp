// SPDX-License-Identifier: Apache-2.0
#include <CLI/CLI.hpp>
#include <algorithm>
#include <optional>

#include "bench_ddp_nets.h"
#include "bench_requests.h"
#include "bench_verbs.h"
#include "cli.h"
#include "config/message.h"
#include "trainer_library.h"
#include "util/error.h"
#include "util/log.h"
#include "util/text.h"
#include "verb_bench_ddp_plan.h"

namespace gantrain {

namespace {

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

}  // namespace

int bench_ddp_verb(const std::vector<std::string>& arguments) {
  CLI::App app(
      "Times iterations in every way of synchronising gradients, on gloo ranks of one thread each, "
      "and pairs the default with PyTorch's DistributedDataParallel; or predicts the step time of "
      "more ranks (--simulate).",
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
  PlanFlags plan;
  add_plan_flags(app, plan);
  if (!parse(app, arguments)) return 0;
  set_log({Level::kWarning, Level::kInfo, {}, ""});  // not of batches that differ from presets'
  if (wants_plan(app, plan)) return plan_ddp(plan, {names, batch, request.steps, request.json});
  for (const DdpNet& net : ddp_nets(names)) {
    BenchNet& timed = request.nets.emplace_back(BenchNet{net.name, net.about, net.peer, {}});
    for (const int64_t count : numbers("--ranks", ranks))
      timed.worlds.push_back({count, ddp_config(net, count, batch)});
  }
  return call_trainer("bench ddp", message_of(request).dump(), /*cuda=*/false);
}

}  // namespace gantrain

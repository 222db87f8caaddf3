// SPDX-License-Identifier: Apache-2.0
#include "command/flags.h"

#include <CLI/CLI.hpp>

#include "util/text.h"

namespace gantrain {

const std::vector<Flag>& flag_table() {
  static const std::vector<Flag> table = {
      {"What", "--data", "data.path", false},
      {"What", "--resolution", "data.resolution", false},
      {"What", "--fit", "data.fit", false},
      {"What", "--filter", "data.filter", false},
      {"What", "--cond", "data.cond", false},
      {"What", "--mirror", "data.mirror", true},
      {"What", "--kimg", "train.kimg", false},
      {"What", "--batch", "train.batch", false},
      {"What", "--micro-batch", "train.micro_batch", false},
      {"What", "--accumulate", "train.accumulate", false},
      {"What", "--lr-scale", "train.lr_scale", false},
      {"What", "--seed", "train.seed", false},
      {"What", "--deterministic", "train.deterministic", true},
      {"What", "--kernels", "train.kernels", false},
      {"Where", "--nproc,--nproc-per-node,--nproc_per_node", "launch.nproc", false},
      {"Where", "--nnodes", "launch.nnodes", false},
      {"Where", "--node-rank,--node_rank", "launch.node_rank", false},
      {"Where", "--master-addr,--master_addr", "launch.master_addr", false},
      {"Where", "--master-port,--master_port", "launch.master_port", false},
      {"Where", "--device", "launch.device", false},
      {"Where", "--backend", "dist.backend", false},
      {"Where", "--max-restarts,--max_restarts", "launch.max_restarts", false},
      {"Where", "--timeout", "dist.timeout", false},
      {"Where", "--hang-timeout", "launch.hang_timeout", false},
      {"Where", "--grace", "launch.grace", false},
      {"Where", "--threads", "launch.threads", false},
      {"How", "--ddp-mode", "dist.ddp_mode", false},
      {"How", "--ddp-scope", "dist.ddp_scope", false},
      {"How", "--find-unused", "dist.find_unused", false},
      {"How", "--graphs", "train.graphs", false},
      {"How", "--amp", "precision.amp", true, "auto"},
      {"How", "--loss-scale", "precision.loss_scale", false},
      {"Results", "--out", "run.out", false},
      {"Results", "--run-dir", "run.run_dir", false},
      {"Results", "--resume", "run.resume", false},
      {"Results", "--init-from", "run.init_from", false},
      {"Results", "--force", "run.force", false},
      {"Results", "--save-every", "save.every", false},
      {"Results", "--keep-last", "save.keep_last", false},
      {"Results", "--keep-every", "save.keep_every", false},
      {"Results", "--keep-best", "save.keep_best", false},
      {"Results", "--keep-models", "save.keep_models", false},
      {"Results", "--save-raw", "save.raw", true},
      {"Results", "--metrics", "metrics.names", false},
      {"Results", "--metrics-every", "metrics.every", false},
      {"Results", "--detector", "metrics.detector", false},
      {"Results", "--stop-on", "metrics.stop_on", false},
      {"Results", "--stop-after", "run.stop_after", false},
      {"Results", "--time-margin", "launch.time_margin", false},
  };
  return table;
}

std::vector<std::string> training_flag_names() {
  std::vector<std::string> names = split(
      "--preset,--config,--config-file,--set,--cfg-options,--smoke,--local_rank,--local-rank,"
      "--stopped-code,--dry-run,--json,--color,--quiet,--verbose,--help",
      ',');
  for (const Flag& flag : flag_table()) {
    for (const std::string& name : split(flag.names, ',')) names.push_back(name);
  }
  return names;
}

std::string flag_of(const std::string& key) {
  for (const Flag& flag : flag_table()) {
    if (key == flag.key) return split(flag.names, ',')[0];
  }
  return "--set " + key;
}

void KeyFlags::add_set(Options& options, const Said& said) {
  options.add({said.names, said, {}, "key=value, any key of gantrain help keys"}, pairs_);
  set_ = options.app().get_options().back();
}

void KeyFlags::add_flags(Options& options,
                         const Config& defaults,
                         const std::function<bool(const Flag&)>& wanted,
                         const std::string& group) {
  for (const Flag& flag : flag_table()) {
    if (!wanted(flag)) continue;
    const Key& key = defaults.key(flag.key);
    const std::string shown = split(flag.names, ',')[0];
    std::string& value = values_[shown];
    const std::string alone = flag.alone == nullptr ? "" : fmt::format("{{{}}}", flag.alone);
    CLI::App& app = options.app();
    CLI::Option* option = flag.is_switch ? app.add_flag(flag.names + alone, value, key.help)
                                         : app.add_option(flag.names, value, key.help);
    option->group(group.empty() ? flag.group : group)->take_last();
    if (group.empty() && !flag.is_switch) option->type_name(key.type.size() < 30 ? key.type : "");
    names_[option] = shown;
  }
}

std::vector<std::pair<std::string, std::string>> KeyFlags::given(Options& options) const {
  std::vector<std::pair<std::string, std::string>> all;
  auto pair = pairs_.begin();
  for (const CLI::Option* option : options.app().parse_order()) {
    if (option == set_) all.emplace_back("--set", *pair++);
    if (const auto at = names_.find(option); at != names_.end())
      all.emplace_back(at->second, values_.at(at->second));
  }
  return all;
}

}  // namespace gantrain

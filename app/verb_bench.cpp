// SPDX-License-Identifier: Apache-2.0
// gantrain bench WHAT: one row here and one file for each benchmark.
#include <cstdlib>

#include "bench_verbs.h"
#include "cli.h"
#include "launch/idle_threads.h"
#include "util/error.h"
#include "util/file.h"
#include "util/text.h"

namespace gantrain {

const std::vector<Verb>& benchmarks() {
  static const std::vector<Verb> table = {
      {"step",
       "a training step, its phases and operators, beside its floor and PyTorch",
       bench_step_verb},
      {"ops", "operators that move memory, beside the machine's copy speed", bench_ops_verb},
      {"launch",
       "from nothing to the first all-reduce of N ranks, and torchrun's",
       bench_launch_verb},
      {"data", "the loader, beside the decoder alone and Pillow", bench_data_verb},
      {"save", "writing a state and a model, beside writing as many bytes", bench_save_verb},
      {"ddp", "gradient synchronisation: ways of it, PyTorch's, and of more ranks", bench_ddp_verb},
  };
  return table;
}

std::string default_python() {
  const char* python = std::getenv("GANTRAIN_PYTHON");
  return python == nullptr || *python == 0 ? "python3" : python;
}

std::string peer_scripts() { return (executable_folder() / "../scripts/peers").string(); }

std::vector<std::string> own_variables() {
  std::vector<std::string> names;
  for (const auto& [name, value] : idle_threads(current_environment()).variables)
    names.push_back(name);
  return names;
}

int bench_verb(const std::vector<std::string>& arguments) {
  const std::string what = arguments.empty() ? "--help" : arguments.front();
  std::vector<std::string> names;
  for (const Verb& benchmark : benchmarks()) {
    if (what == benchmark.name) return benchmark.run({arguments.begin() + 1, arguments.end()});
    names.emplace_back(benchmark.name);
  }
  if (what == "--help" || what == "-h") {
    fmt::print("gantrain bench WHAT\n\n");
    for (const Verb& benchmark : benchmarks())
      fmt::print("  {:<12} {}\n", benchmark.name, benchmark.about);
    return 0;
  }
  const std::string hint = did_you_mean(what, names);
  fail(Exit::kUsage,
       "gantrain bench {}{}",
       what,
       hint.empty() ? ": there is " + join(names, ", ") : hint);
}

}  // namespace gantrain

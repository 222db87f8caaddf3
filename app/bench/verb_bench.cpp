// SPDX-License-Identifier: Apache-2.0
// gantrain bench WHAT: a row for each benchmark, and those whose command lines are short.
#include "bench/verb_bench.h"

#include <algorithm>
#include <cstdlib>

#include "bench/requests.h"
#include "config/full_schema.h"
#include "config/resolve.h"
#include "launch/where/devices.h"
#include "launch/where/environment.h"
#include "main/trainer_library.h"
#include "main/verbs.h"
#include "util/error.h"
#include "util/file.h"
#include "util/log.h"
#include "util/text.h"

namespace gantrain {

namespace {

void complete_threads(int64_t& threads, const Options& options) {
  if (!options.given("--threads")) threads = threads_per_rank({}, current_environment(), 1);
}

void quieten() { set_log({Level::kWarning, Level::kInfo, {}, ""}); }

int run_ops(BenchOpsRequest& request, Options& options) {
  complete_threads(request.threads, options);
  request.cuda = computes_on_gpu(request.device);
  check_word("--dtype", request.dtype, {"float32", "float16", "bfloat16"});
  check_word("--layout", request.layout, {"contiguous", "channels-last"});
  if (!request.cuda && request.dtype != "float32") {
    fail(Exit::kUsage,
         "--dtype {}: on a CPU the operators have kernels for float32 alone; give --device cuda",
         request.dtype);
  }
  // A GPU needs more work at a time to be busy, and more bytes than its cache holds.
  if (request.cuda && !options.given("--batch")) request.batch = 32;
  if (request.cuda && !options.given("--channels")) request.channels = 128;
  if (request.cuda && !options.given("--pixels")) request.pixels = 128;
  return call_trainer("bench ops", request, request.cuda);
}

int run_data(BenchDataRequest& request, Options& options) {
  complete_peers(request.peers, options, /*own_threads=*/false);
  quieten();
  return call_trainer("bench data", request, /*cuda=*/false);
}

int run_save(BenchSaveRequest& request, Options& options) {
  complete_threads(request.threads, options);
  quieten();
  const RecipeFacts usual = benched_recipes().front();
  ConfigSources sources;
  sources.preset = request.preset.empty() ? usual.bench.preset : request.preset;
  request.about = request.preset.empty() ? usual.title + ", 64 pixels" : request.preset;
  if (request.preset.empty()) {
    for (const char* pair : {"data.resolution=64", "train.batch=8", "train.micro_batch=8"})
      sources.flags.emplace_back("--set", pair);
  }
  for (const std::string& pair : request.set) sources.flags.emplace_back("--set", pair);
  request.config = resolve(sources, {});
  choose_auto_values(*request.config, Site{});
  return call_trainer("bench save", request, /*cuda=*/false);
}

std::vector<int64_t> rank_counts(const std::string& text) {
  std::vector<int64_t> all;
  for (const std::string& word : split(text, ',')) {
    const auto number = parse_int(word);
    if (!number || *number < 1 || *number > 256)
      fail(Exit::kUsage, "--ranks {}: numbers from 1 to 256 with commas between", text);
    all.push_back(*number);
  }
  return all;
}

int run_launch(BenchLaunchRequest& request, Options& options) {
  request.counts = rank_counts(request.ranks);
  complete_peers(request.peers, options, /*own_threads=*/false);
  request.program = (executable_folder() / "gantrain").string();
  for (const RecipeFacts& recipe : recipe_facts()) {
    if (request.arguments.empty()) request.arguments = recipe.tiny_run;
  }
  request.load = [] { trainer_function(kVerbMain, /*cuda=*/false); };
  return bench_launch(request);
}

}  // namespace

void complete_peers(Peers& peers, const Options& options, bool own_threads) {
  const char* python = std::getenv("GANTRAIN_PYTHON");
  if (!options.given("--python"))
    peers.python = python == nullptr || *python == 0 ? "python3" : python;
  peers.scripts = (executable_folder() / "../scripts/peers").string();
  if (!own_threads) return;
  for (const auto& [name, value] : idle_threads(current_environment()).variables)
    peers.unset.push_back(name);
}

std::vector<RecipeFacts> benched_recipes() {
  std::vector<RecipeFacts> all;
  for (const RecipeFacts& recipe : recipe_facts()) {
    if (!recipe.bench.preset.empty()) all.push_back(recipe);
  }
  std::sort(all.begin(), all.end(), [](const RecipeFacts& a, const RecipeFacts& b) {
    return a.bench.place < b.bench.place;
  });
  return all;
}

Verb bench_verb() {
  return verb_of_parts(
      "bench",
      "what this machine takes for what: gantrain bench ddp",
      {bench_step_verb(),
       verb_of("bench ops",
               "operators that move memory, beside the machine's copy speed",
               "Times operators that move memory: gantrain's, the same composed of LibTorch's, and "
               "what the machine needs to copy as many bytes.",
               run_ops),
       verb_of("bench launch",
               "from nothing to the first all-reduce of N ranks, and torchrun's",
               "Times from the start of the command to the first all-reduce of its ranks, beside "
               "one start of the program and one load of its library, and beside torchrun.",
               run_launch),
       verb_of("bench data",
               "the loader, beside the decoder alone and Pillow",
               "Times the loader with one thread on JPEG and PNG pictures that it makes, in a "
               "folder and in a zip, beside the decoder alone on the same bytes and beside Pillow "
               "with zipfile.",
               run_data),
       verb_of("bench save",
               "writing a state and a model, beside writing as many bytes",
               "Times the state and the model that a run writes, beside writing and flushing as "
               "many bytes to the same disk, and what training sees of it: the pause for a copy, "
               "beside a memcpy, and iterations beside the writing. StyleGAN2 of 64 pixels, or a "
               "preset.",
               run_save),
       bench_ddp_verb()});
}

}  // namespace gantrain

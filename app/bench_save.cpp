// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <filesystem>

#include "bench_common.h"
#include "bench_numbers.h"
#include "bench_save_pause.h"
#include "bench_scratch.h"
#include "core/torch.h"
#include "data/options.h"
#include "recipes.h"
#include "resolve.h"
#include "train/checkpoint.h"
#include "train/model_options.h"
#include "train/training_step.h"
#include "trainer_verbs.h"
#include "util/file.h"

namespace gantrain {

namespace fs = std::filesystem;

namespace {

// Seconds and bytes of writing a file, and of writing as many bytes without more ado.
struct Written {
  std::vector<double> seconds, floor;
  double bytes = 0;

  Json to_json(const char* name) const {
    std::vector<double> rates;
    for (const double s : seconds) rates.push_back(bytes / s);
    return {{"name", name},
            {"bytes", bytes},
            {"seconds", spread_of(seconds)},
            {"bytes_per_second", spread_of(rates)},
            {"floor", spread_of(floor)},
            {"of_floor", ratio_of(quotients(seconds, floor))}};
  }
};

Json measure(const BenchSaveRequest& request, const Rendezvous& rendezvous) {
  constexpr double kTimeout = 300;  // seconds
  const Config config = config_from_json(request.config);
  const auto data = config.read<DataOptions>("data.");
  const bool raw = config.read<ModelOptions>("save.").raw;
  const auto group = Group::join(rendezvous, BackendKind::kGloo, at::kCPU, kTimeout);
  TrainingStep step({config,
                     find_recipe(text_of(config.get("recipe"))),
                     group,
                     at::kCPU,
                     data.resolution,
                     data.channels.value_or(3)});
  const ScratchFolder folder(request.folder);
  const fs::path state = folder.path() / "state.pt", model = folder.path() / "model.safetensors",
                 plain = folder.path() / "plain";
  Written states, models;
  const auto write = [](Written& written, const fs::path& path, const std::function<void()>& work) {
    written.seconds.push_back(seconds_of(work));
    written.bytes = static_cast<double>(fs::file_size(path));
  };
  const auto write_plain = [&](Written& written, const fs::path& like) {
    const std::string content = read_file(like);
    written.floor.push_back(seconds_of([&] { write_file(plain, content); }));
  };
  for (int64_t round = 0; round < request.rounds; ++round) {
    write(states, state, [&] { save_state(state, named(step.state()), Counters{}, config); });
    write_plain(states, state);
    write(models, model, [&] { save_model(model, step, Counters{}, raw); });
    write_plain(models, model);
  }
  return {{"files", {states.to_json("state"), models.to_json("model")}},
          {"training", measure_pause({step, config, request.rounds, folder.path()})}};
}

void print_files(const Json& answer) {
  fmt::print("  {:<8} {:>10} {:>10} {:>19} {:>8} {:>10} {:>26}\n",
             "file",
             "MB",
             "seconds",
             "quartiles",
             "MB/s",
             "floor",
             "of the floor");
  for (const Json& file : answer.at("files")) {
    const Json& seconds = file.at("seconds");
    fmt::print("  {:<8} {:>10.1f} {:>10.3f} {:>8.3f} .. {:<7.3f} {:>8.0f} {:>10.3f} {:>26}\n",
               file.at("name").get<std::string>(),
               1e-6 * file.at("bytes").get<double>(),
               seconds.at("median").get<double>(),
               seconds.at("quartiles")[0].get<double>(),
               seconds.at("quartiles")[1].get<double>(),
               1e-6 * file.at("bytes_per_second").at("median").get<double>(),
               file.at("floor").at("median").get<double>(),
               ratio_text(file.at("of_floor")));
  }
  print_pause(answer.at("training"));
}

}  // namespace

int bench_save(const BenchSaveRequest& request) {
  make_writable_folder(request.folder);
  Json result = {{"bench", "save"}, {"about", request.about}, {"load", {load_average()}}};
  fmt::print("{}; floor: as many bytes written and flushed to the same disk; load {:.1f}\n",
             request.about,
             load_average());
  result.update(in_child(
      request.threads, [&](const Rendezvous& rendezvous) { return measure(request, rendezvous); }));
  result["load"].push_back(load_average());
  print_files(result);
  if (request.json) fmt::print("{}\n", result.dump());
  return 0;
}

}  // namespace gantrain

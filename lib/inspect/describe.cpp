// SPDX-License-Identifier: Apache-2.0
#include "inspect/describe.h"

#include <algorithm>
#include <cmath>

#include "core/cpu_memory.h"
#include "core/torch.h"
#include "data/options.h"
#include "launch/options.h"
#include "train/cpu_precision/cpu_precision.h"
#include "train/options.h"
#include "train/plan/plan.h"
#include "train/run/classes.h"
#include "train/save/checkpoint_writer.h"
#include "train/step/mixed_precision.h"
#include "train/step/training_step.h"
#include "util/log.h"
#include "util/text.h"

namespace gantrain {

namespace {

// Images of an iteration that is timed: large pictures are slow enough to be timed by few.
int64_t probed_batch(int64_t micro_batch, const Size& resolution) {
  return std::min(micro_batch, std::clamp<int64_t>(512 / resolution.longer(), 2, 16));
}

// Decides what a run with --amp on a CPU computes in, as the run itself would, and adds "products"
// (what was measured) and "amp" (what was decided, in one line).
void probe_precision(Json& all,
                     const Config& config,
                     PrecisionOptions precision,
                     TrainingStep& step,
                     int64_t world) {
  const std::vector<TrainedSize> sizes = trained_sizes(
      step, config.read<TrainOptions>(), world, config.read<DataOptions>().resolution);
  const auto group = Group::join({}, BackendKind::kGloo, at::kCPU, /*timeout_seconds=*/60);
  const CpuPrecision decided = decide_cpu_precision(step, precision, sizes, *group, std::nullopt);
  precision.cpu_choice = decided.choice;
  const std::string line = describe_precision(precision, at::kCPU);
  if (!line.empty()) all["amp"] = line + decided.detail;
  all["products"] = product_table(decided.measured, decided.choice);
  if (!decided.warning.empty()) warn("{}", decided.warning);
}

// What is known of a run, or of one of its stages, whose images take so long each.
Json times_of(const Spread& each, double images) {
  const Spread all = each.scaled(images);
  return {{"images_per_second", 1 / each.middle},
          {"images_per_second_range", {1 / each.high, 1 / each.low}},
          {"seconds", all.middle},
          {"seconds_range", {all.low, all.high}}};
}

// Adds the times of the whole run, and of each stage of networks that grow.
void probe_stages(
    Json& all, const Config& config, TrainingStep& step, int64_t world, Prober& prober) {
  const auto train = config.read<TrainOptions>();
  const auto end = static_cast<double>(train.kimg.images);
  const Schedule& schedule = step.recipe().schedule();
  if (schedule.empty()) {
    all.update(times_of(prober.seconds_per_image(config.read<DataOptions>().resolution,
                                                 plan_batch(train, world).micro_batch),
                        end));
    return;
  }
  Spread seconds;
  int64_t number = 0;
  all["stages"] = Json::array();
  for (const auto& [stage, plan, count, iterations] : plan_stages(train, schedule, world)) {
    if (count == 0) break;
    step.enter(number++, probed_batch(plan.micro_batch, square_of(stage.resolution)));
    const Spread each = prober.seconds_per_image(square_of(stage.resolution), plan.micro_batch);
    const auto images = static_cast<double>(count);
    seconds = seconds.plus(each.scaled(images));
    Json row = {{"resolution", stage.resolution}, {"fading", stage.fading}, {"kimg", images / 1e3}};
    row.update(times_of(each, images));
    all["stages"].push_back(row);
  }
  all.update(times_of(seconds.scaled(1 / std::max(end, 1.0)), end));
}

// The bytes of what a step keeps between iterations: weights, averages, the optimizers' moments.
int64_t lasting_bytes(const TrainingStep& step) {
  int64_t bytes = 0;
  for (const auto& [name, tensor] : named(step.state()))
    bytes += static_cast<int64_t>(tensor.nbytes());
  return bytes;
}

// What a rank and all of them need at a time.
Json describe_memory(int64_t lasting, int64_t working, int64_t world) {
  return {{"rank_bytes", lasting + working},
          {"lasting_bytes", lasting},
          {"working_bytes", working},
          {"all_bytes", world * (lasting + working)}};
}

// The configuration of a step that is timed: one rank, and no more images than that takes.
Config probe_config(const Config& config, int64_t world, bool cuda) {
  const int64_t batch = probed_batch(plan_batch(config.read<TrainOptions>(), world).micro_batch,
                                     config.read<DataOptions>().resolution);
  Config probe = config;
  probe.set("train.batch", batch, "probe");
  for (const char* key : {"train.micro_batch", "train.accumulate", "G.accumulate", "D.accumulate"})
    probe.set(key, "auto", "probe");
  const auto precision = config.read<PrecisionOptions>();
  // What it is on the device of the run. On a CPU it is measured.
  if (precision.amp == Amp::kAuto && cuda) probe.set("precision.amp", "fp16", "probe");
  return probe;
}

// The pictures of each class that the networks would be trained on; the data is opened only where
// its labels would be used.
std::vector<int64_t> class_counts_of(const Config& config,
                                     const RecipeFacts& recipe,
                                     const DataOptions& data) {
  if (!wants_labels(data, recipe, config)) return {};
  const ClassTable of_data = class_table_of(*open_dataset(data));
  return pictures_of_classes(trained_classes(of_data, data, recipe, config));
}

Json describe_player(const Player& player) {
  Json tensors = Json::array();
  int64_t parameters = 0;
  const auto trained = player.network->named_parameters();
  for (const auto& [name, tensor] : state_of(*player.network)) {
    tensors.push_back({{"name", name},
                       {"shape", tensor.sizes().vec()},
                       {"dtype", lower(c10::toString(tensor.scalar_type()))},
                       {"trained", trained.contains(name)}});
  }
  for (const at::Tensor& p : player.network->parameters()) parameters += p.numel();
  return {{"player", player.name}, {"parameters", parameters}, {"tensors", tensors}};
}

// What the run would write, and in words.
Json describe_disk(const Config& config, const TrainingStep& step) {
  const auto options = config.read<SaveOptions>();
  const auto models = config.read<ModelOptions>();
  const CheckpointWriter::Save save{{},
                                    {},
                                    state_archive(named(step.state()), Counters{}, config),
                                    model_file(step, Counters{}, models.raw)};
  const DiskNeed need = disk_need(bytes_of(save),
                                  options,
                                  config.read<TrainOptions>().kimg.images,
                                  0,
                                  models_kept(models, options));
  return {{"bytes", need.bytes()},
          {"bytes_at_end", need.bytes_left()},
          {"state_bytes", need.each.state},
          {"model_bytes", need.each.model},
          {"text", to_text(need)}};
}

void print_networks(const Json& all) {
  fmt::print("\nnetwork  tensor                                  shape                dtype\n");
  for (const Json& player : all["players"]) {
    const std::string name = player["player"];
    for (const Json& tensor : player["tensors"]) {
      fmt::print("{:<8} {:<39} {:<20} {}\n",
                 name,
                 text_of(tensor["name"]),
                 tensor["shape"].dump(),
                 text_of(tensor["dtype"]));
    }
    fmt::print("{:<8} {} parameters\n", name, player["parameters"].dump());
  }
  fmt::print("\nweights, gradients, optimizers and average: {:.0f} MB a rank, activations apart\n",
             all["state_bytes"].get<double>() / 1e6);
  fmt::print("{}\n", text_of(all["disk"]["text"]));
  std::fflush(stdout);  // what follows takes a while
}

// "41.2" or "40.1 to 42.3", and likewise the time.
std::string speed_text(const Json& times) {
  const std::string low = grouped(times["images_per_second_range"][0].get<double>());
  const std::string high = grouped(times["images_per_second_range"][1].get<double>());
  return low == high ? low : low + " to " + high;
}

std::string time_text(const Json& times) {
  const Json& range = times["seconds_range"];
  return duration_text({range[0].get<double>(), 0, range[1].get<double>()});
}

void print_times(const Json& all) {
  if (all.contains("stages")) {
    fmt::print("pixels  alpha      kimg  images/s        time\n");
    for (const Json& stage : all["stages"]) {
      fmt::print("{:>6}  {:<6}  {:>7}  {:<14}  {}\n",
                 stage["resolution"].dump(),
                 stage["fading"].get<bool>() ? "0 to 1" : "1",
                 shortest(stage["kimg"].get<double>()),
                 speed_text(stage),
                 time_text(stage));
    }
  }
  fmt::print("on this machine's CPU, one rank: {} images/s, {} for {} kimg\n",
             speed_text(all),
             time_text(all),
             all["kimg"].dump());
}

void print_memory(const Json& memory, int64_t world) {
  const auto megabytes = [&](const char* key) {
    return grouped(std::ceil(memory[key].get<double>() / 1e6));
  };
  if (memory["working_bytes"] == 0) return;  // too little to be counted
  fmt::print(
      "memory of tensors, measured here: {} MB a rank, {} MB of them for gradients and activations",
      megabytes("rank_bytes"),
      megabytes("working_bytes"));
  if (world > 1) fmt::print("; {} MB of all {} ranks", megabytes("all_bytes"), world);
  fmt::print("\n");
}

}  // namespace

void describe(const DescribedRun& run) {
  const Config& config = run.config;
  const int64_t world = run.world;
  at::set_num_threads(static_cast<int>(run.threads));
  keep_cpu_memory(config.read<LaunchOptions>().keep_mb);
  const auto data = config.read<DataOptions>();
  const int64_t channels = data.channels.value_or(3);
  const Config probe = probe_config(config, world, run.cuda);
  const auto group = Group::join({}, BackendKind::kGloo, at::kCPU, 60);
  TrainingStep step({probe,
                     run.recipe,
                     group,
                     at::kCPU,
                     data.resolution,
                     channels,
                     class_counts_of(config, run.recipe.facts, data)});
  Json all = {{"players", Json::array()}};
  double bytes = 0;
  for (const PlayerState& state : step.players()) {
    const Player& player = *state.player;
    all["players"].push_back(describe_player(player));
    const auto parameters = all["players"].back()["parameters"].get<double>();
    const int tensors = &state == &step.players().front() ? 5 : 4;  // G has an average too
    bytes +=
        parameters * tensors * static_cast<double>(state.parameters.front().second.element_size());
  }
  all["state_bytes"] = bytes;
  all["disk"] = describe_disk(config, step);
  all["kimg"] = config.get("train.kimg");
  const bool json = run.json;
  if (!json) print_networks(all);
  info("timing a few iterations on this machine's CPU");
  probe_precision(all, config, probe.read<PrecisionOptions>(), step, world);
  Prober prober(step, channels);
  probe_stages(all, config, step, world, prober);
  all["memory"] = describe_memory(lasting_bytes(step), prober.working_bytes(), world);
  all["compute"] =
      dtype_table(step.recipe().players(), prober.computed(), config.read<PrecisionOptions>().mode);
  if (json) {
    all["config"] = config.to_json();
    fmt::print("{}\n", all.dump());
  } else {
    print_dtypes(all["compute"]);
    print_products(all);
    fmt::print("\n");
    print_times(all);
    print_memory(all["memory"], world);
  }
}

}  // namespace gantrain

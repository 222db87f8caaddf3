// SPDX-License-Identifier: Apache-2.0
#include <torch/torch.h>

#include <algorithm>

#include "data/options.h"
#include "dtype_table.h"
#include "recipes.h"
#include "resolve.h"
#include "train/mixed_precision.h"
#include "train/options.h"
#include "train/step.h"
#include "trainer_verbs.h"
#include "util/text.h"
#include "util/time.h"

namespace gantrain {

namespace {

constexpr int64_t kProbeImages = 8;  // enough to time an iteration by

struct Probe {
  double images_per_second;  // on this machine's CPU, one rank
  std::vector<Computed> computed;
};

// Finds out by doing a few iterations.
Probe probe(const Config& config, Recipe& recipe, const at::Tensor& pictures) {
  const auto group = Group::join({}, BackendKind::kGloo, at::kCPU, 60);
  const BatchPlan plan{kProbeImages, 1, kProbeImages, 1};
  std::vector<PlayerState> players =
      make_players(recipe, plan, config.read<DistOptions>("dist."), group);
  int64_t turn = 1;  // iterations after which every phase has run
  for (const Phase& phase : recipe.phases()) turn = std::max(turn, phase.interval);
  StepHooks quiet;
  quiet.phase = [](const std::string&) {};
  quiet.loss = [](const std::string&, const at::Tensor&) {};
  const auto options = config.read<PrecisionOptions>("precision.");
  const ForwardPrecision precision = forward_precision(options, at::kCPU, players);
  guard_gradients(players, options, config.read<TrainOptions>("train."), {}, at::kCPU);
  quiet.precision = &precision;
  int64_t i = 0;
  const auto run_turns = [&](int64_t turns) {
    const double start = monotonic_seconds();
    for (const int64_t end = i + turns * turn; i < end; ++i)
      run_iteration(recipe, players, {pictures, {}, 0, i}, quiet);
    return monotonic_seconds() - start;
  };
  Probe found;
  quiet.computed = &found.computed;
  run_turns(1);  // the first one warms up
  quiet.computed = nullptr;
  // Long enough for a clock, whatever the size.
  const double once = run_turns(1);
  const auto more = static_cast<int64_t>(std::clamp(0.5 / once, 0.0, 50.0));
  const double seconds = once + run_turns(more);
  found.images_per_second = static_cast<double>(kProbeImages * turn * (1 + more)) / seconds;
  return found;
}

// Adds "images_per_second" and "seconds" of the whole run, and of each stage of networks that grow;
// returns what the blocks computed in, in the last one.
std::vector<Computed> probe_stages(Json& all,
                                   const Config& config,
                                   Recipe& recipe,
                                   const at::Tensor& pixels) {
  const int64_t end = config.read<TrainOptions>("train.").kimg.images;
  const auto probe_at = [&](int64_t resolution) {
    return probe(config, recipe, pixels.repeat({1, 1, resolution, resolution}));
  };
  const Schedule& schedule = recipe.schedule();
  if (schedule.empty()) {
    const Probe found = probe_at(config.read<DataOptions>("data.").resolution);
    all["images_per_second"] = found.images_per_second;
    all["seconds"] = static_cast<double>(end) / found.images_per_second;
    return found.computed;
  }
  double seconds = 0;
  std::vector<Computed> computed;
  all["stages"] = Json::array();
  for (const Stage& stage : schedule.stages()) {
    const bool last = &stage == &schedule.stages().back();
    const int64_t images = (last ? end : std::min(stage.first + stage.length, end)) - stage.first;
    if (images <= 0) break;
    recipe.enter(stage);
    const Probe found = probe_at(stage.resolution);
    const double speed = found.images_per_second;
    computed = found.computed;
    seconds += static_cast<double>(images) / speed;
    all["stages"].push_back({{"resolution", stage.resolution},
                             {"fading", stage.fading},
                             {"kimg", static_cast<double>(images) / 1e3},
                             {"images_per_second", speed},
                             {"seconds", static_cast<double>(images) / speed}});
  }
  all["images_per_second"] = static_cast<double>(end) / seconds;
  all["seconds"] = seconds;
  return computed;
}

Json describe_player(const Player& player) {
  Json tensors = Json::array();
  int64_t parameters = 0;
  for (const auto& [name, tensor] : state_of(*player.network)) {
    tensors.push_back({{"name", name},
                       {"shape", tensor.sizes().vec()},
                       {"dtype", lower(c10::toString(tensor.scalar_type()))}});
  }
  for (const at::Tensor& p : player.network->parameters()) parameters += p.numel();
  return {{"player", player.name}, {"parameters", parameters}, {"tensors", tensors}};
}

void print(const Json& all) {
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
  print_dtypes(all["compute"]);
  fmt::print("\nweights, gradients, optimizers and average: {:.0f} MB a rank, activations apart\n",
             all["state_bytes"].get<double>() / 1e6);
  if (all.contains("stages")) {
    fmt::print("\npixels  alpha      kimg  images/s  time\n");
    for (const Json& stage : all["stages"]) {
      fmt::print("{:>6}  {:<6}  {:>7}  {:>8.1f}  {}\n",
                 stage["resolution"].dump(),
                 stage["fading"].get<bool>() ? "0 to 1" : "1",
                 number(stage["kimg"].get<double>()),
                 stage["images_per_second"].get<double>(),
                 short_duration(stage["seconds"].get<double>()));
    }
  }
  fmt::print("on this machine's CPU, one rank: {:.1f} images/s, {} for {} kimg\n",
             all["images_per_second"].get<double>(),
             short_duration(all["seconds"].get<double>()),
             all["kimg"].dump());
}

}  // namespace

int describe(const Json& request) {
  Config config = config_from_json(request.at("config"));
  for (const char* player : {"G", "D"}) {
    config.set(std::string(player) + ".accumulate", "auto", "probe");
  }
  const auto precision = config.read<PrecisionOptions>("precision.");
  if (precision.amp == Amp::kAuto) {  // what it is on the device of the run
    const bool half =
        compute_type(precision, request.at("cuda").get<bool>()) == ComputeType::kFloat16;
    config.set("precision.amp", half ? "fp16" : "bf16", "probe");
  }
  at::set_num_threads(request.at("threads").get<int>());
  const auto train = config.read<TrainOptions>("train.");
  const auto data = config.read<DataOptions>("data.");
  const int64_t channels = data.channels.value_or(3);
  const at::ScalarType dtype = train.dtype == Dtype::kFloat64 ? at::kDouble : at::kFloat;
  const RecipeContext context{config,
                              static_cast<uint64_t>(train.seed),
                              data.resolution,
                              channels,
                              {},
                              at::kCPU,
                              dtype,
                              [](const std::string&, const at::Tensor&) {}};
  const std::unique_ptr<Recipe> recipe = find_recipe(text_of(config.get("recipe"))).make(context);
  Json all = {{"players", Json::array()}};
  double numbers = 0;
  for (const Player* player : recipe->players()) {
    all["players"].push_back(describe_player(*player));
    const auto parameters = all["players"].back()["parameters"].get<double>();
    numbers += parameters * (player == recipe->players().front() ? 5 : 4);  // G has an average too
  }
  all["state_bytes"] = numbers * static_cast<double>(c10::elementSize(dtype));
  all["kimg"] = config.get("train.kimg");
  const std::vector<Computed> computed =
      probe_stages(all, config, *recipe, torch::zeros({kProbeImages, channels, 1, 1}, dtype));
  all["compute"] = dtype_table(recipe->players(), computed, precision.mode);
  if (request.at("json").get<bool>()) {
    all["config"] = config.to_json();
    fmt::print("{}\n", all.dump());
  } else {
    print(all);
  }
  return 0;
}

}  // namespace gantrain

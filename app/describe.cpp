// SPDX-License-Identifier: Apache-2.0
#include <torch/torch.h>

#include <algorithm>
#include <map>
#include <numeric>

#include "data/options.h"
#include "dtype_table.h"
#include "recipes.h"
#include "resolve.h"
#include "train/mixed_precision.h"
#include "train/options.h"
#include "train/stage_plan.h"
#include "train/step.h"
#include "trainer_verbs.h"
#include "util/log.h"
#include "util/text.h"
#include "util/time.h"

namespace gantrain {

namespace {

// Trains a few iterations at each stage, for what they take and what blocks compute in.
class Prober {
 public:
  Prober(const Config& config, Recipe& recipe, int64_t channels, at::ScalarType dtype)
      : config_(config), recipe_(recipe), pixel_(torch::zeros({1, channels, 1, 1}, dtype)) {}

  // Images per second of one rank in the long run.
  double images_per_second(int64_t resolution, int64_t micro_batch);
  const std::vector<Computed>& computed() const { return computed_; }

 private:
  struct Iterations {
    int64_t first;
    int64_t count;
  };
  // Iterations of one round of all phases, those with the same phases together.
  std::vector<Iterations> kinds() const;

  const Config& config_;
  Recipe& recipe_;
  at::Tensor pixel_;
  std::vector<Computed> computed_;  // of all stages
};

std::vector<Prober::Iterations> Prober::kinds() const {
  int64_t round = 1;
  for (const Phase& phase : recipe_.phases()) round = std::lcm(round, phase.interval);
  std::map<std::vector<bool>, Iterations> of;
  for (int64_t i = 0; i < round; ++i) {
    std::vector<bool> due;
    for (const Phase& phase : recipe_.phases()) due.push_back(phase.is_due(i));
    ++of.try_emplace(due, Iterations{i, 0}).first->second.count;
  }
  std::vector<Iterations> all;
  for (const auto& [due, iterations] : of) all.push_back(iterations);
  return all;
}

double Prober::images_per_second(int64_t resolution, int64_t micro_batch) {
  // Large pictures are slow enough to be timed by few.
  const int64_t images = std::min(micro_batch, std::clamp<int64_t>(512 / resolution, 2, 16));
  const at::Tensor pictures = pixel_.expand({images, -1, resolution, resolution}).contiguous();
  const auto group = Group::join({}, BackendKind::kGloo, at::kCPU, 60);
  std::vector<PlayerState> players =
      make_players(recipe_, {images, 1, images, 1}, config_.read<DistOptions>("dist."), group);
  const auto options = config_.read<PrecisionOptions>("precision.");
  const ForwardPrecision precision = forward_precision(options, at::kCPU, players);
  guard_gradients(players, options, config_.read<TrainOptions>("train."), {}, at::kCPU);
  StepHooks quiet;
  quiet.phase = [](const std::string&) {};
  quiet.loss = [](const std::string&, const at::Tensor&) {};
  quiet.precision = &precision;
  const auto seconds_of = [&](int64_t iteration) {
    const double start = monotonic_seconds();
    run_iteration(recipe_, players, {pictures, {}, 0, iteration}, quiet);
    return monotonic_seconds() - start;
  };
  double seconds = 0;
  int64_t count = 0;
  for (const Iterations& kind : kinds()) {
    quiet.computed = &computed_;
    double once = seconds_of(kind.first);  // this one warms up, ...
    quiet.computed = nullptr;
    constexpr double kLong = 2, kEnough = 0.25;
    if (once < kLong) {  // ... which a long one hardly feels
      const auto more = static_cast<int64_t>(std::clamp(kEnough / once, 1.0, 50.0));
      once = 0;
      for (int64_t i = 0; i < more; ++i) once += seconds_of(kind.first) / static_cast<double>(more);
    }
    seconds += once * static_cast<double>(kind.count);
    count += kind.count;
  }
  return static_cast<double>(images * count) / seconds;
}

// Adds "images_per_second" and "seconds" of the whole run, and of each stage of networks that grow.
void probe_stages(Json& all, const Config& config, Recipe& recipe, int64_t world, Prober& prober) {
  const auto train = config.read<TrainOptions>("train.");
  const auto end = static_cast<double>(train.kimg.images);
  const Schedule& schedule = recipe.schedule();
  if (schedule.empty()) {
    const double speed = prober.images_per_second(config.read<DataOptions>("data.").resolution,
                                                  plan_batch(train, world).micro_batch);
    all["images_per_second"] = speed;
    all["seconds"] = end / speed;
    return;
  }
  double seconds = 0;
  all["stages"] = Json::array();
  for (const auto& [stage, plan, count, iterations] : plan_stages(train, schedule, world)) {
    if (count == 0) break;
    recipe.enter(stage);
    const double speed = prober.images_per_second(stage.resolution, plan.micro_batch);
    const auto images = static_cast<double>(count);
    seconds += images / speed;
    all["stages"].push_back({{"resolution", stage.resolution},
                             {"fading", stage.fading},
                             {"kimg", images / 1e3},
                             {"images_per_second", speed},
                             {"seconds", images / speed}});
  }
  all["images_per_second"] = end / seconds;
  all["seconds"] = seconds;
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
  std::fflush(stdout);  // what follows takes a while
}

void print_times(const Json& all) {
  if (all.contains("stages")) {
    fmt::print("pixels  alpha      kimg  images/s  time\n");
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
  const bool json = request.at("json").get<bool>();
  if (!json) print_networks(all);
  info("timing a few iterations on this machine's CPU");
  Prober prober(config, *recipe, channels, dtype);
  probe_stages(all, config, *recipe, request.at("world").get<int64_t>(), prober);
  all["compute"] = dtype_table(recipe->players(), prober.computed(), precision.mode);
  if (json) {
    all["config"] = config.to_json();
    fmt::print("{}\n", all.dump());
  } else {
    print_dtypes(all["compute"]);
    fmt::print("\n");
    print_times(all);
  }
  return 0;
}

}  // namespace gantrain

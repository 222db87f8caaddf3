// SPDX-License-Identifier: Apache-2.0
#include <torch/torch.h>

#include <algorithm>
#include <map>
#include <numeric>

#include "core/cpu_memory.h"
#include "data/options.h"
#include "dtype_table.h"
#include "launch/options.h"
#include "recipes.h"
#include "resolve.h"
#include "train/checkpoint_writer.h"
#include "train/cpu_precision.h"
#include "train/mixed_precision.h"
#include "train/options.h"
#include "train/stage_plan.h"
#include "train/training_step.h"
#include "trainer_verbs.h"
#include "util/log.h"
#include "util/text.h"
#include "util/time.h"

namespace gantrain {

namespace {

// Times iterations of each stage, and notes what blocks compute in.
class Prober {
 public:
  explicit Prober(TrainingStep& step, int64_t channels) : step_(step), channels_(channels) {}

  // Images per second of one rank in the long run, at the stage that the step is in.
  double images_per_second(const Size& resolution);
  const std::vector<Computed>& computed() const { return computed_; }

 private:
  struct Iterations {
    int64_t first;
    int64_t count;
  };
  // Iterations of one round of all phases, those with the same phases together.
  std::vector<Iterations> kinds() const;
  double seconds_of(int64_t iteration, const at::Tensor& pictures);

  TrainingStep& step_;
  int64_t channels_;
  std::vector<Computed> computed_;  // of all stages
};

std::vector<Prober::Iterations> Prober::kinds() const {
  const std::vector<Phase>& phases = step_.recipe().phases();
  int64_t round = 1;
  for (const Phase& phase : phases) round = std::lcm(round, phase.cadence.interval);
  std::map<std::vector<bool>, Iterations> of;
  for (int64_t i = 0; i < round; ++i) {
    std::vector<bool> due;
    for (const Phase& phase : phases) due.push_back(phase.is_due(i));
    ++of.try_emplace(due, Iterations{i, 0}).first->second.count;
  }
  std::vector<Iterations> all;
  for (const auto& [due, iterations] : of) all.push_back(iterations);
  return all;
}

double Prober::seconds_of(int64_t iteration, const at::Tensor& pictures) {
  const double start = monotonic_seconds();
  step_.run({pictures, {}, iteration, 0});
  return monotonic_seconds() - start;
}

double Prober::images_per_second(const Size& resolution) {
  const int64_t images = step_.plan().batch;
  const at::Tensor parameter = step_.players().front().parameters.front().second;
  const at::Tensor pictures = torch::zeros({images, channels_, resolution.height, resolution.width},
                                           parameter.options().requires_grad(false));
  double seconds = 0;
  int64_t count = 0;
  for (const Iterations& kind : kinds()) {
    step_.note_computed_into(&computed_);
    double once = seconds_of(kind.first, pictures);  // this one warms up, ...
    step_.note_computed_into(nullptr);
    constexpr double kLong = 2, kEnough = 0.25;
    if (once < kLong) {  // ... which a long one hardly feels
      const auto more = static_cast<int64_t>(std::clamp(kEnough / once, 1.0, 50.0));
      once = 0;
      for (int64_t i = 0; i < more; ++i)
        once += seconds_of(kind.first, pictures) / static_cast<double>(more);
    }
    seconds += once * static_cast<double>(kind.count);
    count += kind.count;
  }
  return static_cast<double>(images * count) / seconds;
}

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
  const std::vector<TrainedSize> sizes =
      trained_sizes(step,
                    config.read<TrainOptions>("train."),
                    world,
                    config.read<DataOptions>("data.").resolution);
  const auto group = Group::join({}, BackendKind::kGloo, at::kCPU, /*timeout_seconds=*/60);
  const CpuPrecision decided = decide_cpu_precision(step, precision, sizes, *group, std::nullopt);
  precision.cpu_choice = decided.choice;
  const std::string line = describe_precision(precision, at::kCPU);
  if (!line.empty()) all["amp"] = line + decided.detail;
  all["products"] = product_table(decided.measured, decided.choice);
  if (!decided.warning.empty()) warn("{}", decided.warning);
}

// Adds "images_per_second" and "seconds" of the whole run, and of each stage of networks that grow.
void probe_stages(
    Json& all, const Config& config, TrainingStep& step, int64_t world, Prober& prober) {
  const auto train = config.read<TrainOptions>("train.");
  const auto end = static_cast<double>(train.kimg.images);
  const Schedule& schedule = step.recipe().schedule();
  if (schedule.empty()) {
    const double speed = prober.images_per_second(config.read<DataOptions>("data.").resolution);
    all["images_per_second"] = speed;
    all["seconds"] = end / speed;
    return;
  }
  double seconds = 0;
  int64_t number = 0;
  all["stages"] = Json::array();
  for (const auto& [stage, plan, count, iterations] : plan_stages(train, schedule, world)) {
    if (count == 0) break;
    step.enter(number++, probed_batch(plan.micro_batch, square_of(stage.resolution)));
    const double speed = prober.images_per_second(square_of(stage.resolution));
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

// The configuration of a step that is timed: one rank, and no more images than that takes.
Config probe_config(const Config& config, int64_t world, bool cuda) {
  const int64_t batch =
      probed_batch(plan_batch(config.read<TrainOptions>("train."), world).micro_batch,
                   config.read<DataOptions>("data.").resolution);
  Config probe = config;
  probe.set("train.batch", batch, "probe");
  for (const char* key : {"train.micro_batch", "train.accumulate", "G.accumulate", "D.accumulate"})
    probe.set(key, "auto", "probe");
  const auto precision = config.read<PrecisionOptions>("precision.");
  // What it is on the device of the run. On a CPU it is measured.
  if (precision.amp == Amp::kAuto && cuda) probe.set("precision.amp", "fp16", "probe");
  return probe;
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
  const CheckpointWriter::Save save{
      {}, {}, state_archive(named(step.state()), Counters{}, config), model_file(step, Counters{})};
  const DiskNeed need = disk_need(bytes_of(save),
                                  config.read<SaveOptions>("save."),
                                  config.read<TrainOptions>("train.").kimg.images,
                                  0);
  return {{"bytes", need.bytes()}, {"text", to_text(need)}};
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

int describe(const DescribeRequest& request) {
  const Config config = config_from_json(request.config);
  const int64_t world = request.world;
  at::set_num_threads(static_cast<int>(request.threads));
  keep_cpu_memory(config.read<LaunchOptions>("launch.").keep_mb);
  const auto data = config.read<DataOptions>("data.");
  const int64_t channels = data.channels.value_or(3);
  const Config probe = probe_config(config, world, request.cuda);
  const auto group = Group::join({}, BackendKind::kGloo, at::kCPU, 60);
  TrainingStep step({probe,
                     find_recipe(text_of(config.get("recipe"))),
                     group,
                     at::kCPU,
                     data.resolution,
                     channels});
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
  const bool json = request.json;
  if (!json) print_networks(all);
  info("timing a few iterations on this machine's CPU");
  probe_precision(all, config, probe.read<PrecisionOptions>("precision."), step, world);
  Prober prober(step, channels);
  probe_stages(all, config, step, world, prober);
  all["compute"] = dtype_table(
      step.recipe().players(), prober.computed(), config.read<PrecisionOptions>("precision.").mode);
  if (json) {
    all["config"] = config.to_json();
    fmt::print("{}\n", all.dump());
  } else {
    print_dtypes(all["compute"]);
    print_products(all);
    fmt::print("\n");
    print_times(all);
  }
  return 0;
}

}  // namespace gantrain

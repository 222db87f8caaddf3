// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

#include "core/cpu_memory.h"
#include "core/parallel.h"
#include "core/torch.h"
#include "data/options.h"
#include "inspect/inspect.h"
#include "launch/options.h"
#include "metrics/picture_metrics.h"
#include "train/average/snapshots.h"
#include "train/cpu_precision/cpu_precision.h"
#include "train/options.h"
#include "train/plan/plan.h"
#include "train/run/training_data.h"
#include "train/save/checkpoint.h"
#include "train/step/mixed_precision.h"
#include "train/step/training_step.h"
#include "util/log.h"
#include "util/sample.h"
#include "util/system.h"
#include "util/text.h"
#include "util/wording.h"

namespace gantrain {

namespace {

// Seconds that were measured several times on a machine with other work: nine tenths of them lie
// between `low` and `high`.
struct Spread {
  double low = 0, middle = 0, high = 0;

  Spread scaled(double factor) const { return {low * factor, middle * factor, high * factor}; }
  Spread plus(const Spread& other) const {
    return {low + other.low, middle + other.middle, high + other.high};
  }
};

// Returns the type of a block's first parameter, or nothing where no parameter's name begins with
// the block's.
std::optional<at::ScalarType> parameter_type(const std::vector<Player*>& players,
                                             const std::string& block) {
  for (const Player* player : players) {
    for (const auto& item : player->network->named_parameters()) {
      if (starts_with(player->name + "." + item.key(), block + "."))
        return item.value().scalar_type();
    }
  }
  return std::nullopt;
}

std::string name_of(at::ScalarType type) {
  const std::string name = lower(c10::toString(type));
  return type == at::kHalf ? "float16" : type == at::kFloat ? "float32" : name;
}

std::string reason(const Computed& one, PrecisionMode mode) {
  if (!one.why.empty()) return one.why;
  const bool half = one.type == at::kHalf || one.type == at::kBFloat16;
  if (mode == PrecisionMode::kBlocks)
    return half ? "one of the top num_fp16_res" : "below the half-precision blocks";
  return half ? "autocast" : "no --amp";
}

Json dtype_table(const std::vector<Player*>& players,
                 const std::vector<Computed>& computed,
                 PrecisionMode mode) {
  Json table = Json::array();
  for (const Computed& one : computed) {
    const std::optional<at::ScalarType> type = parameter_type(players, one.block);
    table.push_back({{"block", one.block},
                     {"parameters", type ? name_of(*type) : "-"},
                     {"computes", name_of(one.type)},
                     {"why", reason(one, mode)}});
  }
  return table;
}

void print_dtypes(const Json& table) {
  fmt::print("\nblock                                    parameters   computes in  why\n");
  for (const Json& row : table) {
    fmt::print("{:<40} {:<12} {:<12} {}\n",
               text_of(row["block"]),
               text_of(row["parameters"]),
               text_of(row["computes"]),
               text_of(row["why"]));
  }
}

Json product_table(const std::vector<ProductTimes>& measured, const std::string& choice) {
  const ProductChoice chosen = choice_from(choice).value_or(ProductChoice());
  Json table = Json::array();
  for (const ProductTimes& times : measured) {
    const auto found = chosen.find(times.product);
    const bool lowered = found != chosen.end() && found->second;
    table.push_back({{"product", to_text(times.product)},
                     {"float32", times.float32},
                     {"bfloat16", times.bfloat16},
                     {"computes", lowered ? "bfloat16" : "float32"}});
  }
  return table;
}

void print_products(const Json& report) {
  if (report.contains("amp")) fmt::print("\namp: {}\n", text_of(report["amp"]));
  const Json& table = report["products"];
  if (table.empty()) return;
  fmt::print(
      "\nms of an iteration                                            float32    bfloat16  "
      "ratio  computes in\n");
  for (const Json& row : table) {
    const auto full = row["float32"].get<double>(), lowered = row["bfloat16"].get<double>();
    fmt::print("{:<58} {:>10.2f} {:>11.2f} {:>6.2f}  {}\n",
               text_of(row["product"]),
               full * 1e3,
               lowered * 1e3,
               lowered / full,
               text_of(row["computes"]));
  }
}

Spread spread_of_seconds(const std::vector<double>& values) {
  return {quantile(values, 0.05), quantile(values, 0.5), quantile(values, 0.95)};
}

// Times iterations of each stage, and notes what blocks compute in and what memory they take.
class Prober {
 public:
  Prober(TrainingStep& step, int64_t channels) : step_(step), channels_(channels) {}

  // Returns the seconds that one rank needs for an image in the long run, at the stage that the
  // step is in. In the run a rank computes with `micro_batch` images at a time.
  Spread seconds_per_image(const Size& resolution, int64_t micro_batch) {
    const int64_t images = step_.plan().batch;
    begin_cpu_peak();  // what came before, such as making the networks, is not the iterations'
    const Tensor parameter = step_.players().front().parameters.front().second;
    const Tensor pictures = torch::zeros({images, channels_, resolution.height, resolution.width},
                                         parameter.options().requires_grad(false));
    Spread seconds;
    int64_t count = 0;
    for (const Iterations& kind : kinds()) {
      seconds = seconds.plus(time(kind.first, pictures).scaled(static_cast<double>(kind.count)));
      count += kind.count;
    }
    count_memory(micro_batch);
    return seconds.scaled(1 / static_cast<double>(images * count));
  }
  const std::vector<Computed>& computed() const { return computed_; }
  // Returns the bytes of activations and gradients that are needed at a time in the run, in the
  // stage that needs most; 0 where they are too small to be counted.
  int64_t working_bytes() const { return working_bytes_; }

 private:
  struct Iterations {
    int64_t first;
    int64_t count;
  };
  // Iterations of one round of all phases, those with the same phases together.
  std::vector<Iterations> kinds() const {
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

  double seconds_of(int64_t iteration, const Tensor& pictures) {
    const Tensor labels = step_.blank_labels(pictures.size(0));
    const double start = monotonic_seconds();
    step_.run({pictures, labels}, {iteration, 0});
    return monotonic_seconds() - start;
  }

  Spread time(int64_t iteration, const Tensor& pictures) {
    step_.note_computed_into(&computed_);
    const double once = seconds_of(iteration, pictures);  // this one warms up, ...
    step_.note_computed_into(nullptr);
    constexpr double kLong = 2, kEnough = 0.5;
    if (once >= kLong) return spread_of_seconds({once});  // ... which a long one hardly feels
    std::vector<double> seconds;
    const auto more = static_cast<int64_t>(std::clamp(kEnough / once, 3.0, 100.0));
    for (int64_t i = 0; i < more; ++i) seconds.push_back(seconds_of(iteration, pictures));
    return spread_of_seconds(seconds);
  }

  // Between iterations only what lasts is in use: weights, averages and the optimizers' moments.
  void count_memory(int64_t micro_batch) {
    const CpuMemoryUse use = cpu_memory_use().value_or(CpuMemoryUse{});
    int64_t gradients = 0;
    for (const PlayerState& state : step_.players()) {
      int64_t bytes = 0;
      for (const auto& [name, parameter] : state.parameters)
        bytes += static_cast<int64_t>(parameter.nbytes());
      gradients = std::max(gradients, bytes);
    }
    const auto activations =
        static_cast<double>(std::max<int64_t>(use.peak - use.in_use - gradients, 0));
    const double larger =
        static_cast<double>(micro_batch) / static_cast<double>(step_.plan().micro_batch);
    working_bytes_ =
        std::max(working_bytes_, gradients + static_cast<int64_t>(activations * larger));
  }

  TrainingStep& step_;
  int64_t channels_;
  std::vector<Computed> computed_;  // of all stages
  int64_t working_bytes_ = 0;
};

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

// What the metric that needs most takes at a time beside what lasts. Of the others it is little.
int64_t metrics_bytes(const Config& config, int64_t channels) {
  const auto options = config.read<MetricsOptions>();
  const auto names = metric_names(options, config.read<SaveOptions>());
  return contains(names, "swd") ? swd_bytes(options.images, channels) : 0;
}

// What a rank and all of them need at a time. Metrics are measured between iterations.
Json describe_memory(int64_t lasting, int64_t working, int64_t metrics, int64_t world) {
  const int64_t rank = lasting + std::max(working, metrics);
  return {{"rank_bytes", rank},
          {"lasting_bytes", lasting},
          {"working_bytes", working},
          {"metrics_bytes", metrics},
          {"all_bytes", world * rank}};
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

// Adds the labels that the networks would be trained on; the data is opened only where they would
// be used.
void add_labels(const Config& config,
                const RecipeFacts& recipe,
                const DataOptions& data,
                StepSetup& setup) {
  if (!wants_labels(data, recipe, config)) return;
  const auto dataset = open_dataset(data);
  const ClassTable used = trained_classes(class_table_of(*dataset), data, recipe, config);
  setup.class_counts = pictures_of_classes(used);
  if (used.vectors()) setup.label_rows = label_rows_of(*dataset);
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
  for (const Tensor& p : player.network->parameters()) parameters += p.numel();
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
  const SnapshotWriter snapshots(step, config);
  SaveBytes each = bytes_of(save);
  each.snapshot = snapshots.bytes();
  each.first_snapshot = snapshots.bytes_of_first();
  const DiskNeed need = disk_need(each,
                                  options,
                                  config.read<TrainOptions>().kimg.images,
                                  0,
                                  models_kept(models, options),
                                  snapshots.cadence());
  return {{"bytes", need.bytes()},
          {"bytes_at_end", need.bytes_left()},
          {"state_bytes", need.each.state},
          {"model_bytes", need.each.model},
          {"snapshot_bytes", need.each.snapshot},
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
  const std::string low = short_duration(range[0]), high = short_duration(range[1]);
  return low == high ? "about " + low : low + " to " + high;
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
  if (memory["metrics_bytes"] > 0) fmt::print(" or {} MB for metrics", megabytes("metrics_bytes"));
  if (world > 1) fmt::print("; {} MB of all {}", megabytes("all_bytes"), counted(world, "rank"));
  fmt::print("\n");
}

}  // namespace

int describe(const DescribeRequest& run, const RecipeTable& recipes) {
  const Config& config = run.config;
  const RecipeRow& recipe = find_recipe(recipes, text_of(config.get("recipe")));
  const int64_t world = run.world;
  use_threads(run.threads);
  keep_cpu_memory(config.read<LaunchOptions>().keep_mb);
  const auto data = config.read<DataOptions>();
  const int64_t channels = data.channels.value_or(3);
  const Config probe = probe_config(config, world, run.cuda);
  const auto group = Group::join({}, BackendKind::kGloo, at::kCPU, 60);
  StepSetup setup{probe, recipe, group, at::kCPU, data.resolution, channels, {}};
  add_labels(config, recipe.facts, data, setup);
  TrainingStep step(setup);
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
  all["memory"] = describe_memory(
      lasting_bytes(step), prober.working_bytes(), metrics_bytes(config, channels), world);
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
  return 0;
}

}  // namespace gantrain

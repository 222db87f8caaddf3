// SPDX-License-Identifier: Apache-2.0
// How a run comes into being; the loop is in trainer.cpp.
#include <fcntl.h>
#include <sys/file.h>
#include <torch/torch.h>
#include <unistd.h>

#include "train/run_folder.h"
#include "train/trainer.h"
#include "util/error.h"
#include "util/file.h"
#include "util/log.h"
#include "util/text.h"
#include "util/time.h"

namespace gantrain {

namespace fs = std::filesystem;

namespace {

std::vector<int64_t> count_classes(const Dataset& dataset) {
  std::vector<int64_t> counts(static_cast<size_t>(dataset.classes()), 0);
  for (int64_t i = 0; i < dataset.size(); ++i) counts[static_cast<size_t>(dataset.label(i))] += 1;
  return counts;
}

}  // namespace

Trainer::Trainer(const TrainSetup& setup)
    : setup_(setup),
      train_(setup.config.read<TrainOptions>("train.")),
      ema_options_(setup.config.read<EmaOptions>("ema.")),
      save_options_(setup.config.read<SaveOptions>("save.")),
      sample_options_(setup.config.read<SampleOptions>("samples.")),
      metrics_options_(setup.config.read<MetricsOptions>("metrics.")),
      run_(setup.config.read<RunOptions>("run.")),
      data_options_(setup.config.read<DataOptions>("data.")),
      dist_(setup.config.read<DistOptions>("dist.")),
      precision_options_(setup.config.read<PrecisionOptions>("precision.")) {
  if (setup.rendezvous.rank > 0) set_log({Level::kError, Level::kWarning, {}, ""});
  plan_ = plan_batch(train_, setup.rendezvous.world);
  fractions_ = needs_fractions(train_, save_options_);
  use_kernels(train_.kernels);
  allow_tf32(precision_options_.tf32);
  at::globalContext().setDeterministicAlgorithms(train_.deterministic, /*warn_only=*/false);
  open_data();
  setup_.host.phase("rendezvous");
  group_ = Group::join(setup.rendezvous, setup.backend, setup.device, dist_.timeout.seconds);
  debug("first all-reduce {:.3f} s after the start", monotonic_seconds() - setup_.host.started);
  setup_.host.phase("set-up");
  build_networks();
  const Schedule& schedule = recipe_->schedule();
  for (size_t i = 0; i < schedule.stages().size(); ++i)  // what cannot be cut ends the run now
    plan_stage(
        train_, schedule.stages()[i].batch, plan_.world, schedule.name_of(static_cast<int64_t>(i)));
  const bool resumed = resume();
  open_run_folder();
  reporter_ = std::make_unique<Reporter>(group_, train_.kimg.images, counters_.images_seen);
  evaluation_ = std::make_unique<Evaluation>(
      *ema_, dataset_, sample_options_, metrics_options_, static_cast<uint64_t>(train_.seed));
  begin_stage(counters_.stage);
  if (writes()) write_start_files(resumed);
}

Trainer::~Trainer() {
  if (lock_ >= 0) ::close(lock_);
}

void Trainer::open_data() {
  setup_.host.phase("opening data");
  dataset_ = setup_.dataset;
  if (!dataset_)
    dataset_ = open_dataset(data_options_, [this] { return setup_.host.stop_signal() != 0; });
  const bool labelled = dataset_->classes() > 0;
  const auto wants = setup_.recipe.wants_labels;
  if (data_options_.cond == Cond::kOn && !labelled) {
    fail(Exit::kInput,
         "--cond on: {} has no labels (sub-folders, or dataset.json)",
         data_options_.path);
  }
  labels_used_ = data_options_.cond == Cond::kOn ||
                 (data_options_.cond == Cond::kAuto && labelled && wants && wants(setup_.config));
}

void Trainer::build_networks() {
  const at::ScalarType dtype = train_.dtype == Dtype::kFloat64 ? at::kDouble : at::kFloat;
  const RecipeContext context{
      setup_.config,
      static_cast<uint64_t>(train_.seed),
      data_options_.resolution,
      dataset_->channels(),
      labels_used_ ? count_classes(*dataset_) : std::vector<int64_t>{},
      setup_.device,
      dtype,
      [this](const std::string& name, const at::Tensor& v) { reporter_->record(name, v); }};
  recipe_ = setup_.recipe.make(context);
  if (train_.perturb_ranks) {
    const torch::NoGradGuard no_grad;
    for (const Player* player : recipe_->players()) {
      for (at::Tensor& p : player->network->parameters())
        p.add_(0.1 * static_cast<double>(group_->rank()));
    }
  }
  const torch::nn::Module& G = *recipe_->players().front()->network;
  std::map<std::string, at::Tensor> tensors;
  for (const auto& [name, tensor] : state_of(G)) tensors[name] = tensor;
  ema_ = setup_.recipe.make_generator(recipe_->model(), tensors, "the generator");
  move_to(*ema_->network(), setup_.device, dtype);
  load_into(*ema_->network(), tensors, "the generator");
  players_ = make_players(*recipe_, plan_, dist_, group_);
  precision_ = forward_precision(precision_options_, setup_.device, players_);
  guard_gradients(players_,
                  precision_options_,
                  train_,
                  setup_.config.read<OptimOptions>("optim."),
                  setup_.device);
  state_ = training_state(*recipe_, players_, *ema_->network());
  shared_ = std::make_unique<SharedStatistics>(
      players_, recipe_->shared(), group_, dist_.broadcast_buffers);
}

// A group of samples that normalise each other must lie in one micro-batch, or ranks and
// accumulation change the result.
void Trainer::check_batch_groups() const {
  const int64_t group = recipe_->batch_group();
  for (const PlayerState& p : players_) {
    if (p.plan.micro_batch % group == 0) continue;
    warn(
        "{}'s micro-batch of {} is not a multiple of the {} samples of a minibatch-std group: the "
        "result depends on the number of ranks",
        p.player->name,
        p.plan.micro_batch,
        group);
  }
}

// Two runs in one folder would write over each other.
void Trainer::lock_run_folder() {
  if (!writes() || run_.run_dir.empty()) return;
  make_writable_folder(run_.run_dir);
  const std::string path = run_.run_dir + "/.lock";
  lock_ = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  if (lock_ >= 0 && ::flock(lock_, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
    fail(Exit::kUsage, "{}: another run is at work there; give another --run-dir", run_.run_dir);
  }
}

bool Trainer::resume() {
  lock_run_folder();
  const bool automatic = run_.resume == "auto";
  bool loaded = false;
  if (run_.resume != "none" && writes()) {
    const fs::path where = automatic ? fs::path(run_.run_dir) : fs::path(run_.resume);
    if (!automatic || (!where.empty() && fs::is_directory(where))) {
      resumed_from_ = load_newest(where, state_, counters_, setup_.config, run_.force);
      loaded = !resumed_from_.empty();
      if (!loaded && !automatic)
        fail(Exit::kInput,
             "{}: holds no state to resume from; --resume none starts afresh",
             where.string());
    }
  }
  if (!loaded && writes() && !run_.init_from.empty())
    init_ = init_from(run_.init_from, *recipe_, *ema_->network());
  if (share_state(*group_, loaded, state_, counters_)) {
    check_stage();
    earlier_seconds_ = counters_.seconds;
    return true;
  }
  group_->broadcast_state(state_);
  return false;
}

void Trainer::open_run_folder() {
  if (writes()) {
    if (!run_.run_dir.empty()) {
      folder_ = run_.run_dir;
    } else {
      const std::string preset = text_of(setup_.config.get("preset"));
      const std::string name = fmt::format("{}-{}-b{}",
                                           preset.empty() ? setup_.recipe.name : preset,
                                           short_name(data_options_),
                                           train_.batch);
      folder_ = make_numbered_folder(run_.out, name);
    }
    make_writable_folder(folder_ / "samples");
    const int64_t aside = set_aside(folder_, counters_.images_seen);
    if (aside > 0)
      warn("{}: {} later states and models renamed superseded-*", folder_.string(), aside);
  }
  // Every rank writes its warnings there.
  std::string name = folder_.string();
  at::Tensor text = torch::zeros({4096}, at::kByte);
  std::copy(name.begin(), name.end(), text.data_ptr<uint8_t>());
  text = text.to(setup_.device);
  group_->broadcast_(text);
  text = text.cpu();
  folder_ = reinterpret_cast<const char*>(text.data_ptr<uint8_t>());
  setup_.host.run_folder(folder_.string());
  const int64_t rank = group_->rank();
  const fs::path log = folder_ / (rank == 0 ? "log.txt" : fmt::format("log-rank{}.txt", rank));
  if (rank == 0) {
    set_log({log_console_level(), Level::kInfo, log, ""});
  } else {
    set_log({Level::kError, Level::kWarning, log, ""});
  }
}

void Trainer::write_start_files(bool resumed) {
  write_file(folder_ / "config.json", setup_.config.to_json().dump(2) + "\n");
  append_line(folder_ / "command.txt", setup_.command);
  write_file(folder_ / "env.json",
             describe_environment(setup_.device.str(), plan_.world).dump(2) + "\n");
  write_status(folder_, "running");
  reporter_->open(folder_, resumed ? counters_.images_seen : 0);
  if (!setup_.defaults.empty()) warn("{}", setup_.defaults);
  const char* labels = dataset_->classes() == 0 ? ""
                       : labels_used_           ? "; labels are used"
                                                : "; labels are not used";
  info("data    {}{}", dataset_->description(), labels);
  check_batch_groups();
  std::string sizes;
  for (const PlayerState& p : players_) {
    int64_t count = 0;
    for (const auto& [name, parameter] : p.parameters) count += parameter.numel();
    sizes += fmt::format("  {} {:.2f} M", p.player->name, static_cast<double>(count) / 1e6);
  }
  info("model   {}{} parameters", setup_.recipe.name, sizes);
  const std::string precision = describe_precision(precision_options_, setup_.device);
  if (!precision.empty()) info("amp     {}", precision);
  for (const std::string& line : setup_.chosen) info("{}", line);
  if (init_) log_table(*init_);
  info("{}; {} kimg", plan_.text(), number(static_cast<double>(train_.kimg.images) / 1e3));
  if (!counters_.stage_name.empty()) info("stages  {} now", counters_.stage_name);
  const std::string_view backend = names(setup_.backend)[static_cast<size_t>(setup_.backend)];
  if (plan_.world > 1)
    info("ranks   {} over {}, ddp-mode {}", plan_.world, backend, describe_syncs(players_, dist_));
  info("run     {}          1 kimg = 1000 real images shown to D", folder_.string());
  if (resumed) {
    info("resume  at {} kimg ({})",
         number(static_cast<double>(counters_.images_seen) / 1e3),
         resumed_from_.string());
  }
}

}  // namespace gantrain

// SPDX-License-Identifier: Apache-2.0
#include "train/trainer.h"

#include <torch/torch.h>
#include <unistd.h>

#include <csignal>

#include "core/cpu_memory.h"
#include "core/device_waits.h"
#include "distributed/group_backend.h"
#include "distributed/self_check.h"
#include "report/html.h"
#include "train/algorithms.h"
#include "train/micro_batch_fit.h"
#include "train/mixed_precision.h"
#include "train/run_folder.h"
#include "train/stage_plan.h"
#include "util/error.h"
#include "util/log.h"
#include "util/text.h"
#include "util/time.h"

namespace gantrain {

namespace {

// Whether a cadence of `every` images falls between two counts.
bool crossed(int64_t before, int64_t after, int64_t every) {
  return after / every > before / every;
}

std::string kimg_text(int64_t images) { return number(static_cast<double>(images) / 1e3); }

}  // namespace

Trainer::Trainer(const TrainSetup& setup)
    : setup_(setup), options_(setup.config), config_(setup.config), data_(setup) {
  const TrainOptions& train = options_.train;
  if (setup.rendezvous.ranks.rank > 0) set_log({Level::kError, Level::kWarning, {}, ""});
  use_kernels(train.kernels);
  allow_tf32(setup.config.read<PrecisionOptions>("precision.").tf32);
  choose_algorithms(train.deterministic);
  setup_.callbacks.phase("rendezvous");
  group_ =
      Group::join(setup.rendezvous, setup.backend, setup.device, options_.dist.timeout.seconds);
  if (setup.callbacks.collectives != nullptr)
    publish_collectives(*group_, *setup.callbacks.collectives);
  debug("first all-reduce {:.3f} s after the start",
        monotonic_seconds() - setup_.callbacks.started);
  setup_.callbacks.phase("set-up");
  step_ = std::make_unique<TrainingStep>(StepSetup{setup.config,
                                                   setup.recipe,
                                                   group_,
                                                   setup.device,
                                                   data_.resolution(),
                                                   data_.dataset()->channels(),
                                                   data_.class_counts(),
                                                   setup.callbacks.phase});
  plan_stages(train, schedule(), group_->world());  // what cannot be cut ends the run now
  if (writes() && !options_.run.run_dir.empty()) lock_ = lock_run_folder(options_.run.run_dir);
  RunStart start = load_or_begin(setup, options_.run, *step_, *group_);
  counters_ = start.counters;
  earlier_seconds_ = counters_.seconds;
  open_run_folder(setup, options_.run, *group_, start);
  folder_ = start.folder;
  if (writes() && lock_ < 0) lock_ = lock_run_folder(folder_);
  memory_ = memory_of(setup.device);
  reporter_ = std::make_unique<Reporter>(group_, train.kimg.images, counters_.images_seen, memory_);
  evaluation_ = std::make_unique<Evaluation>(step_->average(),
                                             data_.dataset(),
                                             options_.samples,
                                             options_.metrics,
                                             static_cast<uint64_t>(train.seed),
                                             [this] { return goes_on_measuring(); });
  setup_.callbacks.phase("choosing types");
  config_ = decide_precision(setup, train, *step_, *group_, start);
  begin_stage(counters_.stage);
  start.counters = counters_;
  if (!writes()) return;
  reporter_->open(folder_, start.resumed ? counters_.images_seen : 0);
  write_start(setup, config_, start, *step_, data_);
}

Trainer::~Trainer() {
  if (lock_ >= 0) ::close(lock_);
}

// Called on all ranks when a run begins or resumes, and before the first iteration of a stage.
void Trainer::begin_stage(int64_t number) {
  step_->enter(number);
  int64_t resolution = data_.resolution();
  if (!schedule().empty()) {
    resolution = schedule().stages()[static_cast<size_t>(number)].resolution;
    if (number != counters_.stage) counters_.micro_batch = 0;
    counters_.stage = number;
    counters_.stage_name = schedule().name_of(number);
  }
  fit_batch(resolution);
  data_.begin(resolution, step_->plan().batch, counters_.images_seen);
  is_first_iteration_ = true;
}

// Cuts the batch of the stage by the memory of the device, where nobody has said how.
void Trainer::fit_batch(int64_t resolution) {
  const bool given = options_.train.micro_batch || options_.train.accumulate;
  if (memory_ && !given) {
    setup_.callbacks.phase("fitting the micro-batch");
    const FitRequest request{resolution, counters_.images_seen, counters_.micro_batch};
    const std::string line = fit_micro_batch(*step_, *group_, *memory_, request);
    counters_.micro_batch = step_->plan().micro_batch;
    info("memory  {}", line);
  }
  setup_.callbacks.micro_batch(step_->plan().micro_batch);
}

// Enters the stage that is due, a pure function of the images seen: no rank needs to ask another.
void Trainer::enter_due_stage() {
  if (schedule().empty()) return;
  const int64_t due = schedule().stage_at(counters_.images_seen);
  if (due == counters_.stage) return;
  setup_.callbacks.phase("stage switch");
  begin_stage(due);
  if (setup_.config.get("schedule.reset_optimizers").get<bool>()) step_->reset_optimizers();
  check_ranks();
  if (!writes()) return;
  warn_of_split_groups(*step_);
  const Stage& stage = schedule().stages()[static_cast<size_t>(due)];
  info("{} over {} kimg; {}, learning rates x {}{}",
       counters_.stage_name,
       kimg_text(stage.length),
       step_->plan().text(),
       number(stage.lr_factor),
       group_->world() > 1 ? "; ddp-mode " + step_->describe_reductions() : "");
}

// For stats.jsonl.
void Trainer::count_stage() {
  if (schedule().empty()) return;
  const Stage& stage = schedule().stages()[static_cast<size_t>(counters_.stage)];
  reporter_->count("Progress/resolution", static_cast<double>(stage.resolution));
  reporter_->count("Progress/alpha", schedule().alpha_at(counters_.images_seen));
}

Exit Trainer::run() {
  session_start_ = monotonic_seconds();
  if (counters_.images_seen == 0) {
    on_rank_0([this] {
      reporter_->grid("reals.png", "Samples/reals", evaluation_->real_grid(), 0);
      sample("fakes_init.png");
      save_model_now();
      if (options_.metrics.at_start) measure();
    });
  }
  check_ranks();
  reporter_->start();
  while (counters_.images_seen < options_.train.kimg.images && !granted_.stop) iterate();
  return granted_.stop ? stop() : finish();
}

// Loads a batch and trains on it. Nothing of this waits for a GPU but the first iteration of a
// session or stage, in which what is made only once may come from the host.
void Trainer::train_on_a_batch() {
  const WaitsAreErrors watched(setup_.device.type(),
                               options_.train.sync_debug && !is_first_iteration_);
  is_first_iteration_ = false;
  RankBatch batch = data_.next();
  reporter_->time("Timing/data_wait", data_.waited());
  batch.iteration = counters_.iteration;
  batch.images_seen = counters_.images_seen;
  const StepReport report = step_->run(batch, poll_requests());
  reporter_->record(report);
  granted_ = report.asked;
}

void Trainer::iterate() {
  enter_due_stage();
  count_stage();
  const int64_t before = counters_.images_seen;
  train_on_a_batch();
  counters_.images_seen += step_->plan().batch;
  counters_.iteration += 1;
  counters_.seconds = earlier_seconds_ + monotonic_seconds() - session_start_;
  setup_.callbacks.progress(counters_.images_seen, counters_.iteration);
  predict_time();
  end_of_iteration(before);
}

// Says once, after a few iterations of the session, how long the run will take.
void Trainer::predict_time() {
  const std::optional<double> each = prediction_.after_iteration();
  if (!each || !writes()) return;
  const auto batch = static_cast<double>(step_->plan().batch);
  const double left =
      static_cast<double>(options_.train.kimg.images - counters_.images_seen) / batch;
  if (left <= 0) return;
  info("speed   {:.3g} images/s{}: about {} to go",
       batch / *each,
       schedule().empty() ? "" : ", if all stages were as fast as this one",
       short_duration(left * *each));
}

RankRequests Trainer::poll_requests() {
  const double limit = options_.run.stop_after.seconds;
  const bool late =
      limit > 0 && writes() && monotonic_seconds() - setup_.callbacks.started >= limit;
  if (late) stop_reason_ = "--stop-after";
  if (late || setup_.callbacks.stop_signal() != 0) asked_.stop = true;
  return asked_;
}

void Trainer::end_of_iteration(int64_t before) {
  const int64_t now = counters_.images_seen;
  const bool last = now >= options_.train.kimg.images || granted_.stop;
  reporter_->iteration(counters_);
  const bool saves = crossed(before, now, options_.save.every.images) || granted_.save || last;
  if (saves || crossed(before, now, options_.train.tick.images)) tick();
  const bool samples = crossed(before, now, options_.samples.every.images);
  const bool measures = crossed(before, now, options_.metrics.every.images);
  if (samples || saves || measures) {
    on_rank_0([&] {
      if (samples) sample("fakes" + name_now() + ".png");
      if (saves) save();
      if (measures) measure();  // late, because it may take long: what was trained is safe by then
      if (saves || measures) write_report(folder_);
    });
  }
  if (granted_.save) asked_.save = false;
}

// Runs what only rank 0 does while the others give signs of life.
void Trainer::on_rank_0(const std::function<void()>& work) {
  group_->on_rank_0(work, [this] { setup_.callbacks.phase("waiting for rank 0"); });
}

void Trainer::tick() {
  setup_.callbacks.phase("tick");
  counters_.tick += 1;
  step_->settle();
  reporter_->tick(counters_);
  if (options_.dist.check_every > 0 && counters_.tick % options_.dist.check_every == 0)
    check_ranks();
  if (!writes()) return;
  for (const std::string& warning : step_->recipe().warnings()) warn("{}", warning);
  if (take_request(folder_, "STOP")) {
    stop_reason_ = "STOP";
    asked_.stop = true;
  }
  if (take_request(folder_, "SAVE")) asked_.save = true;
}

void Trainer::check_ranks() {
  setup_.callbacks.phase("comparing ranks");
  check_equal(*group_, step_->state(), options_.dist.broadcast_buffers != BufferSync::kOff);
}

void Trainer::save_model_now() {
  save_model(folder_ / ("model-" + name_now() + ".safetensors"), *step_, counters_);
}

void Trainer::save() {
  setup_.callbacks.phase("saving");
  save_state(folder_ / ("state-" + name_now() + ".pt"), named(step_->state()), counters_, config_);
  save_model_now();
  prune_states(folder_, options_.save.keep_last, options_.save.keep_every.images);
}

void Trainer::sample(const std::string& file) {
  setup_.callbacks.phase("samples");
  evaluation_->write_samples(*reporter_, file, schedule(), counters_);
  sampled_at_ = counters_.images_seen;
}

// A sign of life in the middle of the metrics; they are given up when a stop is asked for.
bool Trainer::goes_on_measuring() const {
  setup_.callbacks.phase("metrics");
  return setup_.callbacks.stop_signal() == 0;
}

void Trainer::measure() {
  setup_.callbacks.phase("metrics");
  evaluation_->write_metrics(
      *reporter_, "model-" + name_now() + ".safetensors", schedule(), counters_);
  measured_at_ = counters_.images_seen;
}

Exit Trainer::finish() {
  on_rank_0([this] {
    if (sampled_at_ != counters_.images_seen) sample("fakes" + name_now() + ".png");
    if (!std::filesystem::exists(folder_ / ("state-" + name_now() + ".pt"))) save();
    if (measured_at_ != counters_.images_seen) measure();
    reporter_->finish();
    write_report(folder_);
    write_status(folder_, fmt::format("done {} kimg", kimg_text(counters_.images_seen)));
    info("done    {} kimg in {}",
         kimg_text(counters_.images_seen),
         short_duration(counters_.seconds));
    if (const std::string memory = cpu_memory_text(); !memory.empty()) info("memory  {}", memory);
    info("next    {}", generate_command(folder_.string()));
  });
  return leave(Exit::kDone);
}

Exit Trainer::stop() {
  const int signal = setup_.callbacks.stop_signal();
  on_rank_0([&] {
    if (sampled_at_ != counters_.images_seen) sample("fakes" + name_now() + ".png");
    reporter_->finish();
    const std::string why = signal != 0 ? fmt::format("signal {}", signal) : stop_reason_;
    const std::string at = kimg_text(counters_.images_seen);
    write_status(folder_, fmt::format("stopped {} kimg ({}), resumable", at, why));
    info("stopped {} kimg ({}), saved {}",
         at,
         why,
         (folder_ / ("state-" + name_now() + ".pt")).string());
    info("next    {}", resume_command(setup_.command, folder_.string()));
  });
  return leave(signal == SIGINT ? Exit::kInterrupted : Exit::kStopped);
}

// Ends the run on all ranks together.
Exit Trainer::leave(Exit code) {
  setup_.callbacks.phase("end");
  group_->barrier();
  return code;
}

std::string Trainer::name_now() const {
  // Between two whole kimg (a stop, SAVE) three more digits tell a name from the last one.
  const bool between = counters_.images_seen % 1000 >= step_->plan().batch;
  return kimg_name(counters_.images_seen,
                   between || needs_fractions(options_.train, options_.save));
}

Exit train(const TrainSetup& setup) { return Trainer(setup).run(); }

}  // namespace gantrain

// SPDX-License-Identifier: Apache-2.0
#include "train/run/trainer.h"

#include <csignal>
#include <memory>
#include <optional>

#include "config/config.h"
#include "core/cpu_memory.h"
#include "core/device.h"
#include "core/torch.h"
#include "ops/device_kernels.h"
#include "page/run_page.h"
#include "train/average/snapshots.h"
#include "train/memory/device_memory.h"
#include "train/options.h"
#include "train/plan/plan.h"
#include "train/run/elastic.h"
#include "train/run/reporter.h"
#include "train/run/run_metrics.h"
#include "train/run/run_requests.h"
#include "train/run/run_start.h"
#include "train/run/slow_ranks.h"
#include "train/save/checkpoint.h"
#include "train/save/run_folder.h"
#include "train/step/mixed_precision.h"
#include "train/step/players.h"
#include "util/error.h"
#include "util/file.h"
#include "util/log.h"
#include "util/system.h"
#include "util/text.h"

namespace gantrain {

namespace {

// The sections of a configuration that control a run.
struct RunConfig {
  const Config& config;
  TrainOptions train = config.read<TrainOptions>();
  SaveOptions save = config.read<SaveOptions>();
  SampleOptions samples = config.read<SampleOptions>();
  MetricsOptions metrics = config.read<MetricsOptions>();
  RunOptions run = config.read<RunOptions>();
  DistOptions dist = config.read<DistOptions>();
  ModelOptions models = config.read<ModelOptions>();
  std::optional<int64_t> models_kept = gantrain::models_kept(models, save);
};

// One rank's training run, from the first broadcast to the last save: cadences, files and requests.
// All ranks make the same collective calls; rank 0 writes the files.
class Trainer {
 public:
  explicit Trainer(const TrainSetup& setup)
      : setup_(setup),
        options_{setup.config},
        config_(setup.config),
        data_(setup),
        generation_(setup) {
    const TrainOptions& train = options_.train;
    if (setup.rendezvous.ranks.rank > 0) set_log({Level::kError, Level::kWarning, {}, ""});
    use_kernels(train.kernels);
    allow_tf32(setup.config.read<PrecisionOptions>().tf32);
    choose_algorithms(train.deterministic);
    setup_.callbacks.phase("rendezvous");
    group_ = generation_.join(options_.dist.timeout.seconds);
    requests_.emplace(setup_.callbacks, options_.run.stop_after.seconds, writes());
    if (setup.callbacks.trace != nullptr) trace_collectives(*group_, *setup.callbacks.trace);
    debug("first all-reduce {:.3f} s after the start",
          monotonic_seconds() - setup_.callbacks.started);
    setup_.callbacks.phase("set-up");
    generation_.check_start(*data_.dataset(), *group_);
    if (generation_.is_first()) preflight(options_.dist, *group_, setup.device);
    step_ = std::make_unique<TrainingStep>(StepSetup{setup.config,
                                                     setup.recipe,
                                                     group_,
                                                     setup.device,
                                                     data_.resolution(),
                                                     data_.dataset()->channels(),
                                                     data_.class_counts(),
                                                     setup.callbacks.phase,
                                                     data_.dataset()->depth(),
                                                     data_.label_rows()});
    snapshots_ = std::make_unique<SnapshotWriter>(*step_, setup.config);
    check_stages(train, setup.config, schedule(), group_->world());
    metrics_ = make_metrics();  // a file that is no detector ends the run now
    if (writes() && !options_.run.run_dir.empty()) lock_.take(options_.run.run_dir);
    RunStart start = generation_.begin(options_.run, *step_, *group_, data_.used_classes());
    counters_ = start.counters;
    earlier_seconds_ = counters_.seconds;
    Manifest manifest;
    on_rank_0([&] { manifest = generation_.manifest(start, *data_.dataset(), options_.run); });
    open_run_folder(setup, options_.run, *group_, start);
    folder_ = start.folder;
    if (writes()) requests_->look_in(folder_);
    if (writes()) lock_.take(folder_);
    memory_ = memory_of(setup.device);
    reporter_ =
        std::make_unique<Reporter>(group_, train.kimg.images, counters_.images_seen, memory_);
    stragglers_.emplace(group_, step_->recipe().phases(), counters_.images_seen);
    setup_.callbacks.phase("choosing types");
    config_ = decide_precision(setup, train, *step_, *group_, start);
    counters_.cpu_choice = start.precision.choice;
    make_grids(start);
    begin_stage(counters_.stage);
    start.counters = counters_;
    if (metrics_->detector() != nullptr) start.more["detector"] = metrics_->describe_detector();
    if (!writes()) return;
    set_rows_aside(folder_, counters_.images_seen);
    reporter_->open(folder_, start.resumed ? counters_.images_seen : 0);
    if (start.went_on) {
      generation_.say_ranks(*step_, counters_);
    } else {
      write_start(setup, config_, start, *step_, data_);
    }
    metrics_->open(folder_, counters_, !start.went_on);
    data_record_ = std::make_unique<DataRecord>(folder_, data_.dataset(), std::move(manifest));
  }

  Exit run() {
    session_start_ = monotonic_seconds();
    on_rank_0([this] {
      const CheckpointWriter::Save save = save_of_now();
      if (generation_.is_first()) {
        const RunLength length{options_.train.kimg.images, counters_.images_seen};
        check_disk(folder_, save, *snapshots_, options_.save, length, options_.models_kept);
      }
      writer_.reserve(save);
      complete_save(save);
      if (generation_.lost_a_save(folder_, step_->plan().batch)) this->save();
      snapshots_->complete(folder_, counters_, data_.used_classes());
    });
    if (counters_.images_seen == 0) {
      on_rank_0([this] {
        grids_->write_reals(*reporter_);
        sample("fakes_init.png");
        save_model_now(model_path_now());
      });
    }
    const bool begins = generation_.is_first() || counters_.images_seen == 0;
    if (begins && metrics_->owes(folder_, counters_)) measure();
    check_ranks();
    motion_.emplace(step_->players());
    reporter_->start();
    if (const auto before = generation_.unfinished()) end_of_iteration(*before);
    while (!is_over()) {
      iterate();
      if (!metrics_->collapse().empty()) end_collapsed();
      if (!is_over() && generation_.ends(granted_, counters_)) return leave(Exit::kDone);
    }
    return granted_.stop ? stop() : finish();
  }

 private:
  bool writes() const { return group_->rank() == 0; }

  bool is_over() const {
    return counters_.images_seen >= options_.train.kimg.images || granted_.stop;
  }

  void make_grids(const RunStart& start) {
    SampleOptions samples = options_.samples;
    const auto classes = static_cast<int64_t>(data_.class_counts().size());
    samples.rows = grid_rows(setup_.config, classes, start.resumed ? folder_ : fs::path());
    if (samples.rows != options_.samples.rows)
      config_.set("samples.rows", samples.rows, "auto: one row for each class");
    const auto seed = static_cast<uint64_t>(options_.train.seed);
    grids_ = std::make_unique<SampleGrids>(
        step_->average(), data_.dataset(), data_.resolution(), samples, seed);
  }

  const Schedule& schedule() const { return step_->recipe().schedule(); }

  // Called on all ranks when a run begins or resumes, and before the first iteration of a stage.
  void begin_stage(int64_t number) {
    step_->enter(number);
    Size resolution = data_.resolution();
    if (!schedule().empty()) {
      resolution = square_of(schedule().stages()[static_cast<size_t>(number)].resolution);
      if (number != counters_.stage) counters_.micro_batch = 0;
      counters_.stage = number;
      counters_.stage_name = schedule().name_of(number);
    }
    fit_batch(resolution);
    const BatchPlan& plan = step_->plan();
    data_.begin(resolution, plan.batch, counters_.images_seen, plan.dealt());
    is_first_iteration_ = true;
  }

  // Cuts the batch of the stage by the memory of the device, where nobody has said how.
  void fit_batch(const Size& resolution) {
    const bool given = options_.train.micro_batch || options_.train.accumulate;
    setup_.callbacks.micro_batch(step_->plan().micro_batch);  // for a fit that runs out of memory
    if (!memory_ || given) return;
    setup_.callbacks.phase("fitting the micro-batch");
    const int64_t later = generation_.still_to_take(*step_);
    const FitRequest request{resolution, counters_.images_seen, counters_.micro_batch, later};
    info("memory  {}", fit_micro_batch(*step_, *group_, *memory_, request));
    counters_.micro_batch = step_->plan().micro_batch;
    setup_.callbacks.micro_batch(counters_.micro_batch);
  }

  // Enters the stage that is due, a pure function of the images seen: no rank needs to ask another.
  void enter_due_stage() {
    if (schedule().empty()) return;
    const int64_t due = schedule().stage_at(counters_.images_seen);
    if (due == counters_.stage) return;
    setup_.callbacks.phase("stage switch");
    begin_stage(due);
    if (setup_.config.get("schedule.reset_optimizers").get<bool>()) step_->reset_optimizers();
    check_ranks();
    if (!writes()) return;
    warn_of_split_groups(*step_);
    reporter_->say_stage(*step_, counters_);
  }

  // Loads a batch and trains on it. Nothing of this waits for a GPU but the first iteration of a
  // session or stage, in which what is made only once may come from the host.
  void train_on_a_batch() {
    const WaitsAreErrors watched(setup_.device.type(),
                                 options_.train.sync_debug && !is_first_iteration_);
    is_first_iteration_ = false;
    const double start = monotonic_seconds();
    const Batch batch = data_.next();
    reporter_->time("Timing/data_wait", data_.waited());
    RankRequests asked = requests_->poll();
    asked.regroup = generation_.is_wanted();
    chores_.note_affordable(asked, start, counters_.iteration);
    const StepReport report =
        step_->run(batch, {counters_.iteration, counters_.images_seen}, asked);
    stragglers_->add(report, data_.waited(), monotonic_seconds() - start);
    reporter_->record(report);
    granted_ = report.asked;
  }

  void iterate() {
    enter_due_stage();
    reporter_->count_stage(schedule(), counters_);
    const int64_t before = counters_.images_seen;
    train_on_a_batch();
    counters_.images_seen += step_->plan().batch;
    counters_.iteration += 1;
    counters_.seconds = earlier_seconds_ + monotonic_seconds() - session_start_;
    setup_.callbacks.progress(counters_.images_seen, counters_.iteration);
    generation_.foretell(*reporter_, counters_, step_->plan().batch, !schedule().empty());
    generation_.keep(*step_, counters_, before, *reporter_);
    end_of_iteration(before);
  }

  void end_of_iteration(int64_t before) {
    reporter_->iteration(counters_);
    bool saves = granted_.save || is_over() || takes(Chores::kSave, before, options_.save.every);
    const bool ticks = saves || takes(Chores::kTick, before, options_.train.tick);
    if (ticks) chores_.run(Chores::kTick, [this] { tick(); });
    saves = saves || !metrics_->collapse().empty();
    const bool samples = takes(Chores::kSample, before, options_.samples.every);
    if (samples || saves) {
      on_rank_0([&] {
        if (saves) chores_.run(Chores::kSave, [this] { save(); });
        if (samples) chores_.run(Chores::kSample, [this] { sample(); });
      });
    }
    if (snapshots_->is_due(before, counters_.images_seen))
      on_rank_0([this] { snapshots_->write(folder_, counters_, data_.used_classes()); });
    if (ticks && writes()) page_.write_if_due(folder_, monotonic_seconds());
    writer_.check();
    snapshots_->check();
    // Late, because it may take long: what was trained is safe by then. No stop waits for it.
    if (!granted_.stop && metrics_->is_due(before, counters_)) measure();
    if (granted_.save) requests_->saved();
    generation_.finish(counters_, saves);
  }

  // Whether what is due once in so many images is done now.
  bool takes(Chores::Kind kind, int64_t before, const Kimg& every) {
    return crossed(before, counters_.images_seen, every.images) &&
           chores_.takes(kind, granted_, counters_.iteration);
  }

  // Runs what only rank 0 does while the others give signs of life.
  void on_rank_0(const std::function<void()>& work) {
    group_->on_rank_0(work, [this] { setup_.callbacks.phase("waiting for rank 0"); });
  }

  void tick() {
    setup_.callbacks.phase("tick");
    counters_.tick += 1;
    step_->settle();
    metrics_->watch_collapse(*reporter_, drawn_now(), counters_);
    for (const auto& [name, value] : motion_->since_last(step_->players()))
      reporter_->record(name, value);
    stragglers_->compare(*reporter_, counters_.images_seen);
    reporter_->tick(counters_);
    const int64_t every = options_.dist.check_every;
    if (every > 0 && counters_.tick % every == 0 &&
        chores_.takes(Chores::kCheck, granted_, counters_.iteration))
      chores_.run(Chores::kCheck, [this] { check_ranks(); });
    if (!writes()) return;
    for (const std::string& warning : step_->recipe().warnings()) warn("{}", warning);
  }

  void check_ranks() {
    setup_.callbacks.phase("comparing ranks");
    check_equal(*group_, step_->state(), options_.dist.broadcast_buffers != BufferSync::kOff);
  }

  void save_model_now(const fs::path& path, std::function<void()> afterwards = {}) {
    CheckpointWriter::Save save = save_of_now();  // all of it, for which the writer has memory
    save.state_path.clear();
    save.model_path = path;
    writer_.save(std::move(save), std::move(afterwards));
  }

  CheckpointWriter::Save save_of_now() const {
    const ClassTable& classes = data_.used_classes();
    return {.state_path = state_path_now(),
            .model_path = model_path_now(),
            .state = state_archive(named(step_->state()), counters_, config_, classes),
            .model = model_file(*step_, counters_, options_.models.raw, classes)};
  }

  void save() {
    setup_.callbacks.phase("saving");
    writer_.save(save_of_now(), [this, state = state_path_now()] { end_save(state); });
  }

  // Called by the writer's thread when both files are on the disk.
  void end_save(const fs::path& state) const {
    const SaveOptions& keep = options_.save;
    info("saved   {}", state.filename().string());
    const int64_t best = KeepBest::images_in(folder_);
    prune_states(folder_, keep.keep_last, keep.keep_every.images, best);
    if (options_.models_kept) prune_models(folder_, *options_.models_kept, keep.keep_every.images);
  }

  void sample(std::string file = "") {
    if (sampled_at_ == counters_.images_seen) return;
    if (file.empty()) file = "fakes" + name_now() + ".png";
    setup_.callbacks.phase("samples");
    grids_->write(*reporter_, file, drawn_now(), counters_.images_seen);
    sampled_at_ = counters_.images_seen;
  }

  // On rank 0, for a run that ends before its time.
  void end_early(const std::string& status) {
    finish_saving();
    sample();
    reporter_->finish();
    write_status(folder_, status);
  }

  // How the average's pictures are made at present.
  SynthesisOptions drawn_now() const {
    if (schedule().empty()) return {};
    return options_at(schedule(), counters_.stage, counters_.images_seen);
  }

  std::unique_ptr<RunMetrics> make_metrics() {
    // Rank 0 decides for all, and alone warns of a folder that is refused.
    const std::string cache = group_->rank() == 0 ? cache_folder("metrics").string() : "";
    const EvaluationSubject subject{.generator = step_->average(),
                                    .dataset = data_.dataset(),
                                    .data = setup_.config.read<DataOptions>(),
                                    .seed = static_cast<uint64_t>(options_.train.seed),
                                    .cache = shared_text(cache, *group_, setup_.device)};
    // Between pieces of work: a sign of life, and an ear for a stop.
    const auto wants_stop = [this] {
      setup_.callbacks.phase("metrics");
      return requests_->poll().stop;
    };
    return std::make_unique<RunMetrics>(RunMetrics::Site{*group_,
                                                         setup_.device,
                                                         setup_.callbacks.phase,
                                                         wants_stop,
                                                         !setup_.config.given("metrics.every")},
                                        subject,
                                        options_.metrics,
                                        options_.save,
                                        options_.train.kimg);
  }

  void measure() {  // on all ranks together
    const KeepBest::SaveModel save = [this](const fs::path& path,
                                            std::function<void()> afterwards) {
      save_model_now(path, std::move(afterwards));
    };
    requests_->measuring(true);
    const RunMetrics::Subject now{model_path_now().filename(), save, drawn_now()};
    gives_metrics_up_ = !metrics_->measure(*reporter_, now, counters_);
    requests_->measuring(false);
    measured_at_ = counters_.images_seen;
    if (writes()) page_.write(folder_);
  }

  fs::path state_path_now() const { return folder_ / ("state-" + name_now() + ".pt"); }
  fs::path model_path_now() const { return folder_ / ("model-" + name_now() + ".safetensors"); }

  std::string name_now() const {
    // Between two whole kimg (a stop, SAVE) three more digits tell a name from the last one.
    const bool between = counters_.images_seen % 1000 >= step_->plan().batch;
    return kimg_name(counters_.images_seen,
                     between || needs_fractions(options_.train, options_.save));
  }

  void finish_saving() {
    setup_.callbacks.phase("saving");
    writer_.wait();
    snapshots_->wait();
  }

  Exit finish() {
    on_rank_0([this] {
      sample();
      finish_saving();
      if (!fs::exists(state_path_now())) save();
      finish_saving();
    });
    const bool measures = options_.metrics.at_end && measured_at_ != counters_.images_seen;
    if (measures && !gives_metrics_up_) measure();
    if (gives_metrics_up_) return stop();  // the next session measures
    on_rank_0([this] {
      finish_saving();
      reporter_->finish();
      const std::string at = kimg_text(counters_.images_seen);
      write_status(folder_, fmt::format("done {} kimg", at));
      info("done    {} kimg in {}", at, short_duration(counters_.seconds));
      if (const std::string memory = cpu_memory_text(); !memory.empty()) info("memory  {}", memory);
      info("next    {}", generate_command(folder_.string()));
      page_.write(folder_);
    });
    return leave(Exit::kDone);
  }

  Exit stop() {
    const int signal = setup_.callbacks.stop_signal();
    on_rank_0([&] {
      const std::string why = requests_->stop_reason(), at = kimg_text(counters_.images_seen);
      end_early(fmt::format("stopped {} kimg ({}), resumable", at, why));
      info("stopped {} kimg ({}), saved {}", at, why, state_path_now().string());
      info("next    {}", resume_command(setup_.command, folder_.string()));
      page_.write(folder_);
    });
    return leave(signal == SIGINT ? Exit::kInterrupted : Exit::kStopped);
  }

  // The state of now was saved at the tick that found it.
  [[noreturn]] void end_collapsed() {
    const std::string why = metrics_->collapse(), at = kimg_text(counters_.images_seen);
    on_rank_0([&] { end_early(fmt::format("ended {} kimg ({}), state saved", at, why)); });
    fail(Exit::kDiverged,
         "{}, at {} kimg (--stop-on collapse); resume from an earlier state with a lower learning "
         "rate, or give another --seed",
         why,
         at);
  }

  // Ends the run on all ranks together.
  Exit leave(Exit code) {
    setup_.callbacks.phase("end");
    group_->barrier();
    return code;
  }

  const TrainSetup& setup_;
  const RunConfig options_;
  Config config_;  // with what was decided as the run began
  TrainingData data_;
  FolderLock lock_;  // outlives all that writes into the folder
  std::shared_ptr<Group> group_;
  Generation generation_;
  std::shared_ptr<DeviceMemory> memory_;  // null on a CPU
  std::unique_ptr<TrainingStep> step_;
  std::unique_ptr<Reporter> reporter_;
  std::optional<Motion> motion_;  // since run() began
  std::optional<Stragglers> stragglers_;
  std::unique_ptr<SampleGrids> grids_;
  std::unique_ptr<RunMetrics> metrics_;
  fs::path folder_;
  Counters counters_;
  std::unique_ptr<DataRecord> data_record_;  // of the run folder, on rank 0
  std::optional<RunRequests> requests_;
  Chores chores_{setup_.config};
  RankRequests granted_;            // of any rank, known to all since the last iteration
  bool is_first_iteration_ = true;  // of the session or stage
  bool gives_metrics_up_ = false;   // the last ones, for a stop
  CheckpointWriter writer_{setup_.callbacks.saves};  // of rank 0
  std::unique_ptr<SnapshotWriter> snapshots_;
  PageWriter page_;                             // of rank 0
  int64_t sampled_at_ = -1, measured_at_ = -1;  // images seen at the last grid, and metrics
  double session_start_ = 0;                    // monotonic seconds
  double earlier_seconds_ = 0;                  // trained in sessions before this one
};

}  // namespace

Exit train(const TrainSetup& setup) {
  const auto run = [](const TrainSetup& now) { return Trainer(now).run(); };
  return setup.elastic == nullptr ? run(setup) : train_elastically(setup, run);
}

}  // namespace gantrain

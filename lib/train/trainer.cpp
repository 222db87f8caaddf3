// SPDX-License-Identifier: Apache-2.0
#include "train/trainer.h"

#include <torch/torch.h>

#include <csignal>

#include "distributed/self_check.h"
#include "report/html.h"
#include "train/ema.h"
#include "train/run_folder.h"
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

Exit Trainer::run() {
  session_start_ = monotonic_seconds();
  if (counters_.images_seen == 0 && writes()) {
    reporter_->grid("reals.png", "Samples/reals", evaluation_->real_grid(), 0);
    sample("fakes_init.png");
    save_model(folder_ / ("model-" + name_now() + ".safetensors"),
               *recipe_,
               players_,
               *ema_->network(),
               counters_);
    if (metrics_options_.at_start) measure();
  }
  check_ranks();
  shared_->begin();
  reporter_->start();
  while (counters_.images_seen < train_.kimg.images && !granted_.stop) iterate();
  return granted_.stop ? stop() : finish();
}

RankBatch Trainer::next_batch() {
  setup_.host.phase("loading data");
  RealBatch loaded = loader_->next();
  reporter_->time("Timing/data_wait", loaded.waited);
  RankBatch batch;
  batch.real =
      loaded.images.to(setup_.device).to(state_.front().second.scalar_type()).div_(127.5).sub_(1);
  if (labels_used_) batch.labels = loaded.labels.to(setup_.device);
  batch.rank = group_->rank();
  batch.iteration = counters_.iteration;
  batch.images_seen = counters_.images_seen;
  return batch;
}

void Trainer::report_gradients(const Player& player, const GradientReport& report) {
  const std::string prefix = "AMP/" + player.name;
  if (report.scale) reporter_->count(prefix + "/scale", *report.scale);
  if (report.norm) reporter_->count("Gradients/" + player.name + "/norm", *report.norm);
  // Added up over the tick.
  reporter_->add(prefix + "/skipped", report.finite ? 0 : 1);
}

void Trainer::iterate() {
  enter_due_stage();
  StepHooks hooks;
  hooks.phase = setup_.host.phase;
  hooks.loss = [this](const std::string& name, const at::Tensor& loss) {
    reporter_->record(name, loss);
  };
  hooks.traffic = [this] { return group_->traffic(); };
  hooks.spent = [this](const std::string& phase, const PhaseTraffic& spent) {
    if (plan_.world == 1) return;
    reporter_->count("Comm/" + phase + "/bytes", static_cast<double>(spent.traffic.bytes));
    reporter_->count("Comm/" + phase + "/collectives",
                     static_cast<double>(spent.traffic.collectives));
    reporter_->count("Comm/" + phase + "/buckets", static_cast<double>(spent.buckets));
  };
  hooks.precision = &precision_;
  hooks.gradients = [this](const Player& p, const GradientReport& r) { report_gradients(p, r); };
  count_stage();
  run_iteration(*recipe_, players_, next_batch(), hooks);
  const int64_t before = counters_.images_seen;
  setup_.host.phase("shared statistics");
  const double start = monotonic_seconds();
  granted_ = shared_->reduce(poll_requests(), counters_.iteration);
  reporter_->time("Timing/comm", monotonic_seconds() - start);
  // After the statistics were averaged: the average copies them.
  update_ema(*ema_->network(),
             *recipe_->players().front()->network,
             ema_beta(ema_options_, before, plan_.batch));
  counters_.images_seen += plan_.batch;
  counters_.iteration += 1;
  counters_.seconds = earlier_seconds_ + monotonic_seconds() - session_start_;
  setup_.host.progress(counters_.images_seen, counters_.iteration);
  predict_time();
  end_of_iteration(before);
}

// Once, after a few iterations of the session: how long all of it will take.
void Trainer::predict_time() {
  constexpr int64_t kWarmUp = 1, kMeasured = 3;
  iterations_here_ += 1;
  if (iterations_here_ == kWarmUp) warm_at_ = monotonic_seconds();
  if (iterations_here_ != kWarmUp + kMeasured || !writes()) return;
  const double each = (monotonic_seconds() - warm_at_) / kMeasured;
  const double left = static_cast<double>(train_.kimg.images - counters_.images_seen) /
                      static_cast<double>(plan_.batch);
  if (left > 0)
    info("speed   {:.3g} images/s{}: about {} to go",
         static_cast<double>(plan_.batch) / each,
         recipe_->schedule().empty() ? "" : ", if all stages were as fast as this one",
         short_duration(left * each));
}

RankRequests Trainer::poll_requests() {
  const double limit = run_.stop_after.seconds;
  const bool late = limit > 0 && writes() && monotonic_seconds() - setup_.host.started >= limit;
  if (late) stop_reason_ = "--stop-after";
  if (late || setup_.host.stop_signal() != 0) asked_.stop = true;
  return asked_;
}

void Trainer::end_of_iteration(int64_t before) {
  const int64_t now = counters_.images_seen;
  const bool last = now >= train_.kimg.images || granted_.stop;
  reporter_->iteration(counters_);
  const bool saves = crossed(before, now, save_options_.every.images) || granted_.save || last;
  if (saves || crossed(before, now, train_.tick.images)) tick();
  if (crossed(before, now, sample_options_.every.images) && writes()) {
    sample("fakes" + name_now() + ".png");
  }
  if (crossed(before, now, metrics_options_.every.images) && writes()) measure();
  if (saves) save();
  if (granted_.save) asked_.save = false;
}

void Trainer::tick() {
  setup_.host.phase("tick");
  counters_.tick += 1;
  reporter_->tick(counters_);
  if (dist_.check_every > 0 && counters_.tick % dist_.check_every == 0) check_ranks();
  if (!writes()) return;
  if (take_request(folder_, "STOP")) {
    stop_reason_ = "STOP";
    asked_.stop = true;
  }
  if (take_request(folder_, "SAVE")) asked_.save = true;
}

void Trainer::check_ranks() {
  setup_.host.phase("comparing ranks");
  check_equal(*group_, state_, dist_.broadcast_buffers != BufferSync::kOff);
}

void Trainer::save() {
  setup_.host.phase("saving");
  if (writes()) {
    const std::string name = name_now();
    save_state(folder_ / ("state-" + name + ".pt"), state_, counters_, setup_.config);
    save_model(folder_ / ("model-" + name + ".safetensors"),
               *recipe_,
               players_,
               *ema_->network(),
               counters_);
    prune_states(folder_, save_options_.keep_last, save_options_.keep_every.images);
    write_report(folder_);
  }
}

void Trainer::sample(const std::string& file) {
  setup_.host.phase("samples");
  draw_as_now();
  const Image grid = evaluation_->fake_grid();
  reporter_->grid(file, "Samples/fakes", grid, counters_.images_seen);
  reporter_->grid("latest.png", "Samples/latest", grid, counters_.images_seen);
  sampled_at_ = counters_.images_seen;
}

void Trainer::measure() {
  setup_.host.phase("metrics");
  draw_as_now();
  for (const Json& line : evaluation_->measure()) {
    std::string text;
    for (const auto& [name, value] : line["results"].items()) {
      text += fmt::format("  {} {:.4g}", name, value.is_number() ? value.get<double>() : 0.0);
    }
    info("metric{}  at {} kimg", text, kimg_text(counters_.images_seen));
    reporter_->metric(line, "model-" + name_now() + ".safetensors", counters_.images_seen);
  }
  measured_at_ = counters_.images_seen;
}

Exit Trainer::finish() {
  if (writes()) {
    if (sampled_at_ != counters_.images_seen) sample("fakes" + name_now() + ".png");
    if (measured_at_ != counters_.images_seen) measure();
    if (!std::filesystem::exists(folder_ / ("state-" + name_now() + ".pt"))) save();
    reporter_->finish();
    write_report(folder_);
    write_status(folder_, fmt::format("done {} kimg", kimg_text(counters_.images_seen)));
    info("done    {} kimg in {}",
         kimg_text(counters_.images_seen),
         short_duration(counters_.seconds));
    info("next    {}", generate_command(folder_.string()));
  }
  setup_.host.phase("end");
  group_->barrier();
  return Exit::kDone;
}

Exit Trainer::stop() {
  const int signal = setup_.host.stop_signal();
  if (writes()) {
    if (sampled_at_ != counters_.images_seen) sample("fakes" + name_now() + ".png");
    reporter_->finish();
    const std::string why = signal != 0 ? fmt::format("signal {}", signal) : stop_reason_;
    write_status(
        folder_,
        fmt::format("stopped {} kimg ({}), resumable", kimg_text(counters_.images_seen), why));
    info("stopped {} kimg ({}), saved {}",
         kimg_text(counters_.images_seen),
         why,
         (folder_ / ("state-" + name_now() + ".pt")).string());
    info("next    {}", resume_command(setup_.command, folder_.string()));
  }
  setup_.host.phase("end");
  group_->barrier();
  return signal == SIGINT ? Exit::kInterrupted : Exit::kStopped;
}

std::string Trainer::name_now() const {
  // Between two whole kimg (a stop, SAVE) three more digits keep it apart from the last name.
  const bool between = counters_.images_seen % 1000 >= plan_.batch;
  return kimg_name(counters_.images_seen, fractions_ || between);
}

Exit train(const TrainSetup& setup) { return Trainer(setup).run(); }

}  // namespace gantrain

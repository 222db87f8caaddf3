// SPDX-License-Identifier: Apache-2.0
// Growing: what changes when a stage of the schedule begins. A recipe whose networks do not grow
// has one stage for ever.
#include "gan/synthesis_options.h"
#include "train/trainer.h"
#include "util/error.h"
#include "util/log.h"
#include "util/text.h"

namespace gantrain {

// Networks, batch, learning rates, reducers and data of that stage. Called when a run begins or is
// gone on with, and at each switch: on all ranks before the same iteration.
void Trainer::begin_stage(int64_t number) {
  DataOptions data = data_options_;
  const Schedule& schedule = recipe_->schedule();
  if (!schedule.empty()) {
    const Stage& stage = schedule.stages()[static_cast<size_t>(number)];
    counters_.stage = number;
    counters_.stage_name = schedule.name_of(number);
    data.resolution = stage.resolution;
    plan_ = plan_stage(train_, stage.batch, group_->world(), counters_.stage_name);
    recipe_->enter(stage);
    for (PlayerState& p : players_) {
      p.plan = plan_player(plan_, p.player->name, p.player->options.accumulate);
      p.optimizer->scale_rate(stage.lr_factor);
    }
    rebuild_syncs(players_, dist_, group_);
  }
  loader_.reset();  // its threads end before the next one's begin
  loader_ = std::make_unique<Loader>(dataset_,
                                     data,
                                     static_cast<uint64_t>(train_.seed),
                                     Slice{group_->rank(), group_->world()},
                                     counters_.images_seen,
                                     plan_.batch);
}

// Before an iteration: a pure function of the images seen, so no rank needs to ask another.
void Trainer::enter_due_stage() {
  const Schedule& schedule = recipe_->schedule();
  if (schedule.empty()) return;
  const int64_t due = schedule.stage_at(counters_.images_seen);
  if (due == counters_.stage) return;
  setup_.host.phase("stage switch");
  begin_stage(due);
  if (setup_.config.get("schedule.reset_optimizers").get<bool>()) {
    for (PlayerState& p : players_) p.optimizer->reset();
  }
  check_ranks();
  if (!writes()) return;
  check_batch_groups();
  const Stage& stage = schedule.stages()[static_cast<size_t>(due)];
  info("{} over {} kimg; {}, learning rates x {}{}",
       counters_.stage_name,
       number(static_cast<double>(stage.length) / 1e3),
       plan_.text(),
       number(stage.lr_factor),
       plan_.world > 1 ? "; ddp-mode " + describe_syncs(players_, dist_) : "");
}

// A state's counters against this run's schedule, which --force may have changed.
void Trainer::check_stage() const {
  const Schedule& schedule = recipe_->schedule();
  if (schedule.empty()) return;
  const int64_t seen = counters_.images_seen;
  const int64_t saved = counters_.stage;
  const int64_t due = schedule.stage_at(seen);
  const auto& stages = schedule.stages();
  // Trained last before `seen`: the stage due, or one before it that a batch has gone to the end
  // of, or over.
  const bool exists = saved >= 0 && saved < static_cast<int64_t>(stages.size());
  const bool fits = exists && saved <= due &&
                    schedule.stage_at(std::max<int64_t>(
                        seen - stages[static_cast<size_t>(saved)].batch, 0)) == saved;
  if (fits || (seen == 0 && saved == 0)) return;
  fail(Exit::kInput,
       "{}: saved at {} kimg in its stage {}, which does not fit this schedule: there that is {}; "
       "give the schedule.* that the state was trained with",
       resumed_from_.empty() ? "the state" : resumed_from_.string(),
       number(static_cast<double>(seen) / 1e3),
       saved + 1,
       schedule.name_of(due));
}

// For stats.jsonl.
void Trainer::count_stage() {
  const Schedule& schedule = recipe_->schedule();
  if (schedule.empty()) return;
  const Stage& stage = schedule.stages()[static_cast<size_t>(counters_.stage)];
  reporter_->count("Progress/resolution", static_cast<double>(stage.resolution));
  reporter_->count("Progress/alpha", schedule.alpha_at(counters_.images_seen));
}

void Trainer::draw_as_now() {
  const Schedule& schedule = recipe_->schedule();
  if (schedule.empty()) return;
  evaluation_->draw(drawing_at(schedule, counters_.stage, counters_.images_seen));
}

}  // namespace gantrain

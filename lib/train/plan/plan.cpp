// SPDX-License-Identifier: Apache-2.0
#include "train/plan/plan.h"

#include <algorithm>
#include <cmath>

#include "util/error.h"
#include "util/system.h"
#include "util/wording.h"

namespace gantrain {

std::string BatchPlan::text() const {
  const std::string ranks = fmt::format("batch {} = {}", batch, counted(world, "rank"));
  if (accumulate == 1) return fmt::format("{} x {}", ranks, micro_batch);
  return fmt::format("{} x {} accumulated x {}", ranks, accumulate, micro_batch);
}

BatchPlan plan_batch(const TrainOptions& o, int64_t world) {
  if (o.batch % world != 0) {
    const int64_t below = o.batch / world * world;
    const std::string nearest = below > 0 ? fmt::format("--batch {} or {}", below, below + world)
                                          : fmt::format("--batch {}", world);
    fail(Exit::kUsage,
         "train.batch = {} cannot be divided among {}; use {}",
         o.batch,
         counted(world, "rank"),
         nearest);
  }
  const int64_t of_rank = o.batch / world;
  const int64_t accumulate = o.accumulate.value_or(o.micro_batch ? of_rank / *o.micro_batch : 1);
  if (accumulate < 1 || of_rank % accumulate != 0) {
    const char* key = o.accumulate ? "train.accumulate" : "train.micro_batch";
    fail(Exit::kUsage,
         "{} = {} does not divide what a rank has of the batch: {} (train.batch = {}, {})",
         key,
         o.accumulate ? *o.accumulate : *o.micro_batch,
         counted(of_rank, "image"),
         o.batch,
         counted(world, "rank"));
  }
  const BatchPlan plan{o.batch, world, of_rank / accumulate, accumulate};
  if (o.micro_batch && plan.micro_batch != *o.micro_batch) {
    fail(Exit::kUsage,
         "train.micro_batch = {} is not train.batch / ranks / train.accumulate = {} / {} / {} = "
         "{}; give two of the three",
         *o.micro_batch,
         o.batch,
         world,
         accumulate,
         plan.micro_batch);
  }
  return plan;
}

BatchPlan plan_stage(const TrainOptions& options,
                     int64_t batch,
                     int64_t world,
                     const std::string& stage) {
  TrainOptions of_stage = options;
  of_stage.batch = batch;
  if (of_stage.micro_batch && !of_stage.accumulate)
    of_stage.micro_batch = std::min(*of_stage.micro_batch, std::max<int64_t>(batch / world, 1));
  try {
    return plan_batch(of_stage, world);
  } catch (const UserError& e) {
    fail(e.code(), "{}: {}", stage, e.what());
  }
}

BatchPlan plan_player(const BatchPlan& plan,
                      const std::string& player,
                      std::optional<int64_t> accumulate) {
  if (!accumulate) return plan;
  const int64_t of_rank = plan.batch / plan.world;
  if (of_rank % *accumulate != 0) {
    fail(Exit::kUsage,
         "{}.accumulate = {} does not divide what a rank has of the batch: {} (train.batch = {}, "
         "{})",
         player,
         *accumulate,
         counted(of_rank, "image"),
         plan.batch,
         counted(plan.world, "rank"));
  }
  return {plan.batch, plan.world, of_rank / *accumulate, *accumulate};
}

std::string kimg_name(int64_t images, bool fractions) {
  if (fractions) return fmt::format("{:06}.{:03}", images / 1000, images % 1000);
  return fmt::format("{:06}", images / 1000);
}

bool needs_fractions(const TrainOptions& train, const SaveOptions& save) {
  return train.kimg.images % 1000 != 0 || save.every.images % 1000 != 0;
}

std::vector<StagePlan> plan_stages(const TrainOptions& options,
                                   const Schedule& schedule,
                                   int64_t world) {
  const int64_t end = options.kimg.images;
  std::vector<StagePlan> plans;
  for (size_t i = 0; i < schedule.stages().size(); ++i) {
    const Stage& stage = schedule.stages()[i];
    const bool last = i + 1 == schedule.stages().size();
    const int64_t from = std::min(stage.first, end);
    const int64_t to = last ? end : std::min(stage.first + stage.length, end);
    const std::string name = schedule.name_of(static_cast<int64_t>(i));
    plans.push_back({stage,
                     plan_stage(options, stage.batch, world, name),
                     to - from,
                     schedule.iterations_to(to) - schedule.iterations_to(from)});
  }
  return plans;
}

std::string batch_text(const BatchPlan& plan, const Config& config) {
  std::string text = plan.text();
  for (const Key& key : config.schema()) {
    if (!ends_with(key.path, ".accumulate") || key.path == "train.accumulate") continue;
    const Json& value = config.get(key.path);
    if (!value.is_number()) continue;
    const std::string player = key.path.substr(0, key.path.find('.'));
    const BatchPlan own = plan_player(plan, player, value.get<int64_t>());
    if (own.accumulate == plan.accumulate) continue;
    text += fmt::format("; {}: {} accumulated x {}", player, own.accumulate, own.micro_batch);
  }
  return text;
}

std::string obeyed_text(double seconds_an_iteration) {
  // What appears as an iteration has begun waits for its end, and for that of the next one. One of
  // the two may have penalties that others do not have, and take twice as long.
  const double within = kLookEvery + 3 * seconds_an_iteration;
  if (within <= 1) return "";
  return "; SAVE and STOP are obeyed within " + short_duration(std::ceil(within));
}

MemoryLine line_through(const MeasuredPeak& few, const MeasuredPeak& many) {
  const auto rise = static_cast<double>(std::max<int64_t>(many.bytes - few.bytes, 0));
  const double each = rise / static_cast<double>(many.images - few.images);
  const auto top = static_cast<double>(std::max(few.bytes, many.bytes));
  return {top - each * static_cast<double>(many.images), each};
}

int64_t largest_micro_batch(const RankShare& share, const MemoryLine& line, double budget) {
  int64_t any = 0;
  for (int64_t images = share.images; images >= 1; --images) {
    if (share.images % images != 0 || line.at(images) > budget) continue;
    if (images % share.group == 0) return images;
    any = std::max(any, images);
  }
  return any;
}

int64_t smaller_micro_batch(int64_t micro_batch) {
  for (int64_t parts = 2; parts <= micro_batch; ++parts) {
    if (micro_batch % parts == 0) return micro_batch / parts;
  }
  return 0;
}

namespace {
constexpr int64_t kMostOften = 20;          // times in a run
constexpr int64_t kLongestPause = 200'000;  // images, where time allows
}  // namespace

MetricCadence::MetricCadence(std::optional<Kimg> every, Kimg run, bool adapts)
    : adapts_(adapts || !every),
      images_(every ? every->images
                    : std::clamp<int64_t>(run.images / kMostOften, 1, kLongestPause)) {}

double share_after_one_more(const MetricTimes& times) {
  const double run = times.run + times.last;
  return run > 0 ? (times.metrics + times.last) / run : 0;
}

bool MetricCadence::affords(const MetricTimes& times) const {
  return !adapts_ || share_after_one_more(times) < kLargestShare;
}

}  // namespace gantrain

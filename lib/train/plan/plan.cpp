// SPDX-License-Identifier: Apache-2.0
#include "train/plan/plan.h"

#include <algorithm>
#include <cmath>

#include "gan/recipe_facts.h"
#include "util/error.h"
#include "util/system.h"
#include "util/wording.h"

namespace gantrain {

namespace {

int64_t divided_up(int64_t a, int64_t b) { return (a + b - 1) / b; }

// The smallest number of parts, a divisor of `whole`, of which none is larger than `most`.
int64_t parts_up_to(int64_t whole, int64_t most) {
  for (int64_t parts = 1; parts < whole; ++parts) {
    if (whole % parts == 0 && whole / parts <= most) return parts;
  }
  return whole;
}

// Into how many units a batch of so many groups is cut for W ranks: as even as can be, and then as
// few.
int64_t units_of(int64_t groups, int64_t world) {
  int64_t best = groups;
  const auto most = [&](int64_t units) { return divided_up(units, world) * (groups / units); };
  for (int64_t units = groups; units >= world; --units) {
    if (groups % units == 0 && most(units) <= most(best)) best = units;
  }
  return best;
}

// How a part of `whole` images, a unit or the least share, is cut.
int64_t uneven_parts(int64_t whole,
                     std::optional<int64_t> micro_batch,
                     std::optional<int64_t> accumulate,
                     bool exactly) {
  if (accumulate) {
    const int64_t asked = std::min(*accumulate, whole);
    return exactly ? parts_up_to(whole, whole / asked) : asked;
  }
  if (!micro_batch) return 1;
  return exactly ? parts_up_to(whole, *micro_batch)
                 : std::min(divided_up(whole + 1, *micro_batch), whole);
}

BatchPlan uneven_plan(const TrainOptions& o, int64_t world) {
  const int64_t groups = o.together > 1 && o.batch % o.together == 0 ? o.batch / o.together : 0;
  if (groups >= world) {
    const int64_t units = units_of(groups, world), whole = o.batch / units;
    const int64_t parts = uneven_parts(whole, o.micro_batch, o.accumulate, /*exactly=*/true);
    return {o.batch, world, whole / parts, parts, units};
  }
  const int64_t parts =
      uneven_parts(o.batch / world, o.micro_batch, o.accumulate, /*exactly=*/false);
  return {o.batch, world, divided_up(divided_up(o.batch, world), parts), parts, o.batch};
}

}  // namespace

int64_t BatchPlan::share(int64_t rank) const {
  return divided_up(dealt() - rank, world) * (batch / dealt());
}

int64_t BatchPlan::parts(int64_t rank) const {
  const bool grouped = !equal() && units != batch;
  return grouped ? divided_up(units - rank, world) * accumulate : accumulate;
}

MicroBatch BatchPlan::micro_batch_of(int64_t rank, int64_t part) const {
  if (equal() || units == batch) {
    const int64_t count = divided_up(share(rank) - part, accumulate);
    return {part * world + rank, accumulate * world, count};
  }
  const int64_t mine = divided_up(units - rank, world);
  const int64_t unit = rank + part % mine * world;
  return {part / mine * units + unit, accumulate * units, micro_batch};
}

std::string BatchPlan::text() const {
  const std::string ranks = fmt::format("batch {} = {}", batch, counted(world, "rank"));
  if (!equal()) {
    const bool grouped = units != batch;
    const std::string cut = accumulate == 1 ? "" : fmt::format(", {} accumulated each", accumulate);
    return fmt::format("{} x {} to {}{}{}",
                       ranks,
                       share(world - 1),
                       share(0),
                       grouped ? fmt::format(", in {} units of {}", units, batch / units) : "",
                       cut);
  }
  if (accumulate == 1) return fmt::format("{} x {}", ranks, micro_batch);
  return fmt::format("{} x {} accumulated x {}", ranks, accumulate, micro_batch);
}

BatchPlan plan_batch(const TrainOptions& o, int64_t world, const BatchNeed& need) {
  if (o.uneven && o.batch >= world) {
    if (o.batch % world != 0) return uneven_plan(o, world);
    const int64_t share = o.batch / world;
    const int64_t parts = uneven_parts(share, o.micro_batch, o.accumulate, /*exactly=*/true);
    return {o.batch, world, share / parts, parts, 0, /*uneven=*/true};
  }
  if (o.batch < world) {
    fail(Exit::kUsage,
         "train.batch = {} cannot be divided among {}: {}; a larger --batch is another training",
         o.batch,
         counted(world, "rank"),
         feeds_text(o.batch, need.group, need.of_node));
  }
  if (o.batch % world != 0) {
    const int64_t below = o.batch / world * world;
    fail(Exit::kUsage,
         "train.batch = {} cannot be divided among {}; use --batch {} or {}",
         o.batch,
         counted(world, "rank"),
         below,
         below + world);
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
  if (!plan.equal()) {
    const bool grouped = plan.units != plan.batch;
    const int64_t least = grouped ? plan.batch / plan.units : plan.share(plan.world - 1);
    const int64_t parts = uneven_parts(least, std::nullopt, accumulate, grouped);
    const int64_t most = grouped ? least : plan.share(0);
    return {plan.batch, plan.world, divided_up(most, parts), parts, plan.units};
  }
  const int64_t of_rank = plan.batch / plan.world;
  if (plan.uneven) {
    const int64_t parts = uneven_parts(of_rank, std::nullopt, accumulate, /*exactly=*/true);
    return {plan.batch, plan.world, of_rank / parts, parts, 0, /*uneven=*/true};
  }
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

namespace {

// The plans of the players that have an accumulation of their own: {player, plan}.
std::vector<std::pair<std::string, BatchPlan>> own_plans(const BatchPlan& plan,
                                                         const Config& config) {
  std::vector<std::pair<std::string, BatchPlan>> plans;
  for (const Key& key : config.schema()) {
    if (!ends_with(key.path, ".accumulate") || key.path == "train.accumulate") continue;
    const Json& value = config.get(key.path);
    if (!value.is_number()) continue;
    const std::string player = key.path.substr(0, key.path.find('.'));
    plans.emplace_back(player, plan_player(plan, player, value.get<int64_t>()));
  }
  return plans;
}

}  // namespace

void check_stages(const TrainOptions& options,
                  const Config& config,
                  const Schedule& schedule,
                  int64_t world) {
  int64_t number = 0;
  for (const StagePlan& stage : plan_stages(options, schedule, world)) {
    try {
      if (stage.images > 0) own_plans(stage.plan, config);
    } catch (const UserError& e) {
      fail(e.code(), "{}: {}", schedule.name_of(number), e.what());
    }
    ++number;
  }
}

std::string batch_text(const BatchPlan& plan, const Config& config) {
  std::string text = plan.text();
  for (const auto& [player, own] : own_plans(plan, config)) {
    if (own.accumulate == plan.accumulate) continue;
    text += fmt::format("; {}: {} accumulated x {}", player, own.accumulate, own.micro_batch);
  }
  return text;
}

std::string split_groups_text(const std::string& player, int64_t micro_batch, int64_t group) {
  if (micro_batch % group == 0) return "";
  int64_t whole = std::min(group, micro_batch);
  while (micro_batch % whole != 0) --whole;
  return fmt::format(
      "{}'s micro-batch of {} is not a multiple of the {} samples of a minibatch-std group: {}",
      player,
      micro_batch,
      group,
      whole == 1
          ? "each picture is a group of its own, which does not tell D how alike pictures are"
          : fmt::format("groups have {}, and the result depends on the number of ranks", whole));
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

bool RankShare::has_cut(int64_t micro_batch) const {
  const int64_t parts = divided_up(images, micro_batch);
  if (!uneven) return images % micro_batch == 0;
  return parts < images && divided_up(images, parts) == micro_batch;
}

RankShare share_to_cut(const BatchPlan& plan, int64_t group) {
  if (plan.equal()) return {plan.share(0), group};
  if (plan.units != plan.batch) return {plan.batch / plan.units, group};
  return {plan.share(0), 1, true};
}

int64_t largest_micro_batch(const RankShare& share, const MemoryLine& line, double budget) {
  int64_t any = 0;
  for (int64_t images = share.images; images >= 1; --images) {
    if (!share.has_cut(images) || line.at(images) > budget) continue;
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

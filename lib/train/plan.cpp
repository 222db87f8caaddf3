// SPDX-License-Identifier: Apache-2.0
#include "train/plan.h"

#include "util/error.h"

namespace gantrain {

std::string BatchPlan::text() const {
  const std::string ranks =
      fmt::format("batch {} = {} rank{}", batch, world, world == 1 ? "" : "s");
  if (accumulate == 1) return fmt::format("{} x {}", ranks, micro_batch);
  return fmt::format("{} x {} accumulated x {}", ranks, accumulate, micro_batch);
}

BatchPlan plan_batch(const TrainOptions& o, int64_t world) {
  if (o.batch % world != 0) {
    const int64_t below = o.batch / world * world;
    const std::string nearest = below > 0 ? fmt::format("--batch {} or {}", below, below + world)
                                          : fmt::format("--batch {}", world);
    fail(Exit::kUsage,
         "train.batch = {} cannot be divided among {} ranks; use {}",
         o.batch,
         world,
         nearest);
  }
  const int64_t of_rank = o.batch / world;
  const int64_t accumulate = o.accumulate.value_or(o.micro_batch ? of_rank / *o.micro_batch : 1);
  if (accumulate < 1 || of_rank % accumulate != 0) {
    const char* key = o.accumulate ? "train.accumulate" : "train.micro_batch";
    fail(Exit::kUsage,
         "{} = {} does not divide the {} images of a rank (train.batch = {}, {} ranks)",
         key,
         o.accumulate ? *o.accumulate : *o.micro_batch,
         of_rank,
         o.batch,
         world);
  }
  const BatchPlan plan{o.batch, world, of_rank / accumulate, accumulate};
  if (o.micro_batch && plan.micro_batch != *o.micro_batch) {
    fail(Exit::kUsage,
         "train.micro_batch = {} is not train.batch / ranks / train.accumulate = {} / {} / {} = "
         "{}; give two "
         "of the three",
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
         "{}.accumulate = {} does not divide the {} images of a rank (train.batch = {}, {} ranks)",
         player,
         *accumulate,
         of_rank,
         plan.batch,
         plan.world);
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

}  // namespace gantrain

// SPDX-License-Identifier: Apache-2.0
#include "train/cpu_precision/cpu_precision.h"

#include <algorithm>
#include <limits>

#include "core/torch.h"
#include "distributed/agreement.h"
#include "train/plan/plan.h"
#include "train/step/mixed_precision.h"
#include "util/text.h"
#include "util/time.h"

namespace gantrain {

namespace {

constexpr double kBudget = 2;  // seconds, for all products of a run

ForwardPrecision choosing(const ForwardPrecision& base, const ProductChoice& choice) {
  ForwardPrecision precision{std::nullopt, base.keep_float32};
  precision.choice = std::make_shared<ProductChoice>(choice);
  return precision;
}

// A few black pictures: shapes and times do not depend on what is in them. The samples of a group
// that normalise each other stay together.
Batch few_pictures(const TrainingStep& step, const TrainedSize& size) {
  const int64_t count =
      std::min(size.micro_batch, std::max(step.recipe().batch_group(), int64_t{2}));
  const at::TensorOptions like = step.players().front().parameters.front().second.options();
  Batch batch;
  batch.real = torch::zeros({count, step.channels(), size.resolution.height, size.resolution.width},
                            like.requires_grad(false));
  if (step.conditional()) batch.labels = torch::zeros({count}, at::kLong);
  return batch;
}

int64_t images_seen_at(const TrainingStep& step, const TrainedSize& size) {
  const std::vector<Stage>& stages = step.recipe().schedule().stages();
  return stages.empty() ? 0 : stages[static_cast<size_t>(size.stage)].first;
}

// Forward and backward passes of all main phases, in seconds of an iteration.
double seconds_of_passes(TrainingStep& step, const Batch& batch, int64_t images_seen) {
  double seconds = 0;
  step.rehearse(batch, images_seen, /*gradients=*/true, [&](const Phase& phase, const auto& work) {
    const double start = monotonic_seconds();
    work();
    seconds += (monotonic_seconds() - start) / static_cast<double>(phase.cadence.interval);
  });
  return seconds;
}

// The same number of calls on every rank: layers may exchange statistics in them. Large networks
// take so long that one round is enough.
double measured_ratio(TrainingStep& step, const TrainedSize& size) {
  const ForwardPrecision lowered = step.precision();
  const Batch batch = few_pictures(step, size);
  const int64_t images_seen = images_seen_at(step, size);
  const ForwardPrecision full{std::nullopt, lowered.keep_float32};
  double all = 0;
  for (const auto& [product, uses] : record_products(step, {size}))
    all += operations(product, uses);
  constexpr double kLarge = 2e10;
  const int rounds = all > kLarge ? 1 : 4;
  double in_float32 = std::numeric_limits<double>::infinity(), in_bfloat16 = in_float32;
  for (int i = 0; i < rounds; ++i) {
    step.use_precision(full);
    in_float32 = std::min(in_float32, seconds_of_passes(step, batch, images_seen));
    step.use_precision(lowered);
    in_bfloat16 = std::min(in_bfloat16, seconds_of_passes(step, batch, images_seen));
  }
  return in_bfloat16 / in_float32;
}

std::string warning_of(double ratio) {
  if (ratio <= 1) return "";
  return fmt::format(
      "--amp=bf16: here it takes {:.2f} x the time of float32 (forward and backward passes of a "
      "few samples); plain --amp uses bfloat16 only where it is faster",
      ratio);
}

// On rank 0 alone.
void measure(const ProductRecord& record, const PrecisionMeter& meter, CpuPrecision& decided) {
  if (!meter.able) {
    decided.detail = "; this processor has no instructions for bfloat16 (AVX512-BF16, AMX)";
    decided.choice = to_text(ProductChoice());
    return;
  }
  decided.measured = time_products(record, kBudget, meter.time);
  ProductChoice choice;
  for (const auto& [product, uses] : record) choice[product] = false;
  for (const auto& [product, lowered] : choose_types(decided.measured)) choice[product] = lowered;
  const ChosenSums sums = sum_times(decided.measured, choice);
  decided.choice = to_text(choice);
  decided.detail = fmt::format("; together {:.2f} x their time in float32",
                               sums.float32 > 0 ? sums.chosen / sums.float32 : 1);
}

}  // namespace

PrecisionMeter::PrecisionMeter() : ratio(measured_ratio) {}

std::vector<TrainedSize> trained_sizes(const TrainingStep& step,
                                       const TrainOptions& train,
                                       int64_t world,
                                       const Size& resolution,
                                       int64_t images_seen) {
  const Schedule& schedule = step.recipe().schedule();
  if (schedule.empty()) {
    const BatchPlan plan = plan_batch(train, world);
    return {{0, plan.batch, plan.micro_batch, resolution}};
  }
  std::vector<TrainedSize> sizes;
  const int64_t due = schedule.stage_at(images_seen);
  int64_t number = 0;
  for (const StagePlan& row : plan_stages(train, schedule, world)) {
    if (row.images > 0 && number >= due)
      sizes.push_back(
          {number, row.plan.batch, row.plan.micro_batch, square_of(row.stage.resolution)});
    ++number;
  }
  return sizes;
}

ProductRecord record_products(TrainingStep& step, const std::vector<TrainedSize>& sizes) {
  step.use_precision(choosing(step.precision(), {}));
  ProductRecord all;
  for (const TrainedSize& size : sizes) {
    step.enter(size.stage, size.batch);
    const Batch batch = few_pictures(step, size);
    ProductRecord record;
    const auto counting = [&record](const Phase& phase, const auto& work) {
      const ProductRecording counted(record, 1 / static_cast<double>(phase.cadence.interval));
      work();
    };
    step.rehearse(batch, images_seen_at(step, size), /*gradients=*/false, counting);
    for (auto [product, uses] : record) {
      uses.samples = std::max(uses.samples * size.micro_batch / batch.real.size(0), int64_t{1});
      const auto [at, is_new] = all.try_emplace(product, uses);
      if (!is_new && at->second.samples < uses.samples) at->second = uses;
    }
  }
  return all;
}

CpuPrecision decide_cpu_precision(TrainingStep& step,
                                  const PrecisionOptions& options,
                                  const std::vector<TrainedSize>& sizes,
                                  Group& group,
                                  const std::optional<std::string>& resumed,
                                  const PrecisionMeter& meter) {
  CpuPrecision decided;
  decided.choice = options.cpu_choice;
  const at::Device device = step.players().front().parameters.front().second.device();
  if (!device.is_cpu()) return decided;
  const bool begins = !resumed.has_value(), trains = !sizes.empty();
  if (options.amp == Amp::kBf16 && begins && trains && options.mode == PrecisionMode::kAutocast) {
    decided.warning = warning_of(meter.ratio(step, sizes.back()));
    return decided;
  }
  if (!chooses_by_product(options, /*on_gpu=*/false)) return decided;
  if (options.cpu_choice == "auto" && !begins) {
    decided.choice = resumed->empty() ? "bfloat16" : *resumed;
    decided.detail = ", as this run began";
  }
  if (decided.choice == "auto" && trains) {
    const ProductRecord record = record_products(step, sizes);
    group.on_rank_0([&] { measure(record, meter, decided); }, [] {});
    decided.choice = shared_text(decided.choice, group, device);
  }
  PrecisionOptions now = options;
  now.cpu_choice = decided.choice;
  step.use_precision(forward_precision(now, device, step.players()));
  return decided;
}

}  // namespace gantrain

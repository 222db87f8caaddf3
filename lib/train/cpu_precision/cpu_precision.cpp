// SPDX-License-Identifier: Apache-2.0
#include "train/cpu_precision/cpu_precision.h"

#include <ATen/cpu/Utils.h>

#include <algorithm>
#include <limits>

#include "core/torch.h"
#include "distributed/group.h"
#include "ops/autocast.h"
#include "train/plan/plan.h"
#include "train/step/mixed_precision.h"
#include "util/system.h"
#include "util/text.h"

namespace gantrain {

namespace {

constexpr double kFaster = 0.9;          // of the time in float32
constexpr double kWorthwhile = 0.9;      // of the sum of all times in float32
constexpr double kOperations = 5e8;      // of a timed forward call, where a few samples have more
constexpr int64_t kFewestRows = 8;       // of a timed picture
constexpr int64_t kRounds = 6;           // in which each product is timed
constexpr double kClearly[] = {0.7, 1};  // outside of these, two rounds are enough

// The output's pixels of one sample.
double pixels(const Product& p) {
  if (p.kind == Product::Kind::kLinear) return 1;
  if (p.kind == Product::Kind::kConvTranspose2d)
    return static_cast<double>(p.input[1] * p.input[2]);  // each is multiplied with all weights
  const int64_t rows = (p.input[1] + 2 * p.padding[0] - p.weight[2]) / p.stride + 1;
  const int64_t columns = (p.input[2] + 2 * p.padding[1] - p.weight[3]) / p.stride + 1;
  return static_cast<double>(rows * columns);
}

// Part of a product that takes less time: fewer samples, and then fewer rows.
struct Cut {
  Product product;
  int64_t samples = 1;
  double whole = 1;  // how many such parts the whole has
};

Cut cut_of(const Product& product, const ProductUses& uses) {
  const double sample = operations(product, {1});
  Cut cut{product,
          std::clamp(static_cast<int64_t>(kOperations / sample), int64_t{1}, uses.samples)};
  int64_t& rows = cut.product.input[1];
  if (sample > kOperations && product.kind != Product::Kind::kLinear) {
    const auto enough = static_cast<int64_t>(static_cast<double>(rows) * kOperations / sample);
    rows = std::min(rows, std::max({enough, kFewestRows, product.weight[2]}));
  }
  cut.whole = operations(product, uses) / operations(cut.product, {cut.samples});
  return cut;
}

Tensor computed(const Product& p, const Tensor& x, const Tensor& w) {
  const ConvPlace place{p.stride, p.padding, p.groups};
  switch (p.kind) {
    case Product::Kind::kConv2d:
      return autocast_conv2d(x, w, {}, place);
    case Product::Kind::kConvTranspose2d:
      return autocast_conv_transpose2d(x, w, {}, place);
    case Product::Kind::kLinear:
      return autocast_linear(x, w);
  }
  TORCH_CHECK(false, "no such product");
}

// Values in [-1, 1] that take nothing from LibTorch's random generator.
Tensor values(at::IntArrayRef size) {
  const int64_t count = c10::multiply_integers(size);
  return at::linspace(-1, 1, count, at::kFloat).reshape(size).requires_grad_(true);
}

struct Operands {
  Tensor x, w;
};

Operands operands_of(const Cut& cut) {
  const Product& p = cut.product;
  if (p.kind == Product::Kind::kLinear)
    return {values({cut.samples, p.input[0]}), values({p.weight[0], p.weight[1]})};
  return {values({cut.samples, p.input[0], p.input[1], p.input[2]}), values(p.weight)};
}

template <class Body>
double seconds_of(const Body& body) {
  const double start = monotonic_seconds();
  body();
  return monotonic_seconds() - start;
}

// One call forward and backward; in seconds of an iteration.
double seconds_of_call(const Cut& cut, const Operands& o, const ProductUses& uses) {
  Tensor y;
  double seconds = uses.forward * seconds_of([&] { y = computed(cut.product, o.x, o.w); });
  const Tensor dy = at::ones_like(y);
  const auto gradient = [&](const Tensor& by) {
    return seconds_of([&] { torch::autograd::grad({y}, {by}, {dy}, /*retain_graph=*/true); });
  };
  if (uses.input_gradient > 0) seconds += uses.input_gradient * gradient(o.x);
  if (uses.weight_gradient > 0) seconds += uses.weight_gradient * gradient(o.w);
  return seconds * cut.whole;
}

// The least of two calls, because at the first one oneDNN makes its kernels and memory is touched.
double seconds_in(bool lowered, const Cut& cut, const Operands& o, const ProductUses& uses) {
  ForwardPrecision precision;
  precision.choice = std::make_shared<ProductChoice>(ProductChoice{{cut.product, lowered}});
  const AutocastScope pass(precision, at::kCPU);
  const double first = seconds_of_call(cut, o, uses);
  return std::min(first, seconds_of_call(cut, o, uses));
}

bool is_clear(const ProductTimes& times) {
  const double ratio = times.bfloat16 / times.float32;
  return ratio < kClearly[0] || ratio > kClearly[1];
}

constexpr double kBudget = 2;  // seconds, for all products of a run

ForwardPrecision choosing(const ForwardPrecision& base, const ProductChoice& choice) {
  ForwardPrecision precision{std::nullopt, base.keep_float32};
  precision.choice = std::make_shared<ProductChoice>(choice);
  return precision;
}

// A few black pictures: shapes and times do not depend on what is in them. The samples of a group
// that normalise each other stay together.
Batch few_pictures(const TrainingStep& step, const TrainedSize& size) {
  const int64_t count = std::min(size.micro_batch, std::max(step.batch_group(), int64_t{2}));
  const at::TensorOptions like = step.players().front().parameters.front().second.options();
  Batch batch;
  batch.real = torch::zeros({count, step.channels(), size.resolution.height, size.resolution.width},
                            like.requires_grad(false));
  batch.labels = step.blank_labels(count);
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
    seconds += seconds_of(work) / static_cast<double>(phase.cadence.interval);
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

bool multiplies_bfloat16() {
  const auto able = at::cpu::get_cpu_capabilities();
  for (const char* name : {"avx512_bf16", "amx_bf16"}) {
    const auto found = able.find(name);
    if (found != able.end() && found->second.isBool() && found->second.toBool()) return true;
  }
  return false;
}

double operations(const Product& p, const ProductUses& uses) {
  const double weights = static_cast<double>(p.weight[0] * p.weight[1] * p.weight[2] * p.weight[3]);
  return 2 * static_cast<double>(uses.samples) * weights * pixels(p);
}

ChosenSums sum_times(const std::vector<ProductTimes>& measured, const ProductChoice& choice) {
  ChosenSums sums;
  for (const ProductTimes& times : measured) {
    const auto found = choice.find(times.product);
    const bool lowered = found != choice.end() && found->second;
    sums.float32 += times.float32;
    sums.chosen += lowered ? times.bfloat16 : times.float32;
  }
  return sums;
}

ProductChoice choose_types(const std::vector<ProductTimes>& measured) {
  ProductChoice choice;
  for (const ProductTimes& times : measured)
    choice[times.product] = times.bfloat16 <= kFaster * times.float32;
  const ChosenSums sums = sum_times(measured, choice);
  if (sums.chosen <= kWorthwhile * sums.float32) return choice;
  for (auto& [product, lowered] : choice) lowered = false;
  return choice;
}

ProductTimes time_once(const Product& product, const ProductUses& uses) {
  const Cut cut = cut_of(product, uses);
  const Operands o = operands_of(cut);
  ProductTimes times{product};
  times.float32 = seconds_in(false, cut, o, uses);
  times.bfloat16 = seconds_in(true, cut, o, uses);
  return times;
}

std::vector<ProductTimes> time_products(const ProductRecord& record,
                                        double budget,
                                        const TimeOnce& once) {
  std::vector<std::pair<Product, ProductUses>> products(record.begin(), record.end());
  const auto work = [](const auto& item) {
    const ProductUses& uses = item.second;
    return operations(item.first, uses) *
           (uses.forward + uses.input_gradient + uses.weight_gradient);
  };
  std::stable_sort(products.begin(), products.end(), [&work](const auto& a, const auto& b) {
    return work(a) > work(b);
  });
  std::vector<ProductTimes> all;
  const double start = monotonic_seconds();
  for (int64_t round = 0; round < kRounds; ++round) {
    const double limit = round == 0 ? 2 * budget : budget;
    for (size_t i = 0; i < products.size(); ++i) {
      if (monotonic_seconds() - start > limit) return all;
      if (round > 1 && is_clear(all[i])) continue;
      const ProductTimes times = once(products[i].first, products[i].second);
      if (round == 0) {
        all.push_back(times);
      } else {
        all[i].float32 = std::min(all[i].float32, times.float32);
        all[i].bfloat16 = std::min(all[i].bfloat16, times.bfloat16);
      }
    }
  }
  return all;
}

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
    if (number >= due)  // those behind train.kimg, too: a longer run keeps the choice
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

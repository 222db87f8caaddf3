// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <map>
#include <numeric>

#include "core/cpu_memory.h"
#include "core/torch.h"
#include "inspect/describe.h"
#include "util/sample.h"
#include "util/text.h"
#include "util/time.h"

namespace gantrain {

namespace {

// Returns the type of a block's first parameter, or nothing where no parameter's name begins with
// the block's.
std::optional<at::ScalarType> parameter_type(const std::vector<Player*>& players,
                                             const std::string& block) {
  for (const Player* player : players) {
    for (const auto& item : player->network->named_parameters()) {
      if (starts_with(player->name + "." + item.key(), block + "."))
        return item.value().scalar_type();
    }
  }
  return std::nullopt;
}

std::string name_of(at::ScalarType type) {
  const std::string name = lower(c10::toString(type));
  return type == at::kHalf ? "float16" : type == at::kFloat ? "float32" : name;
}

std::string reason(const Computed& one, PrecisionMode mode) {
  if (!one.why.empty()) return one.why;
  const bool half = one.type == at::kHalf || one.type == at::kBFloat16;
  if (mode == PrecisionMode::kBlocks)
    return half ? "one of the top num_fp16_res" : "below the half-precision blocks";
  return half ? "autocast" : "no --amp";
}

}  // namespace

Json dtype_table(const std::vector<Player*>& players,
                 const std::vector<Computed>& computed,
                 PrecisionMode mode) {
  Json table = Json::array();
  for (const Computed& one : computed) {
    const std::optional<at::ScalarType> type = parameter_type(players, one.block);
    table.push_back({{"block", one.block},
                     {"parameters", type ? name_of(*type) : "-"},
                     {"computes", name_of(one.type)},
                     {"why", reason(one, mode)}});
  }
  return table;
}

void print_dtypes(const Json& table) {
  fmt::print("\n{:<40} {:<12} {:<12} why\n", "block", "parameters", "computes in");
  for (const Json& row : table) {
    fmt::print("{:<40} {:<12} {:<12} {}\n",
               text_of(row["block"]),
               text_of(row["parameters"]),
               text_of(row["computes"]),
               text_of(row["why"]));
  }
}

Json product_table(const std::vector<ProductTimes>& measured, const std::string& choice) {
  const ProductChoice chosen = choice_from(choice).value_or(ProductChoice());
  Json table = Json::array();
  for (const ProductTimes& times : measured) {
    const auto found = chosen.find(times.product);
    const bool lowered = found != chosen.end() && found->second;
    table.push_back({{"product", to_text(times.product)},
                     {"float32", times.float32},
                     {"bfloat16", times.bfloat16},
                     {"computes", lowered ? "bfloat16" : "float32"}});
  }
  return table;
}

void print_products(const Json& report) {
  if (report.contains("amp")) fmt::print("\namp: {}\n", text_of(report["amp"]));
  const Json& table = report["products"];
  if (table.empty()) return;
  fmt::print("\n{:<58} {:>10} {:>11} {:>6}  computes in\n",
             "ms of an iteration",
             "float32",
             "bfloat16",
             "ratio");
  for (const Json& row : table) {
    const auto full = row["float32"].get<double>(), lowered = row["bfloat16"].get<double>();
    fmt::print("{:<58} {:>10.2f} {:>11.2f} {:>6.2f}  {}\n",
               text_of(row["product"]),
               full * 1e3,
               lowered * 1e3,
               lowered / full,
               text_of(row["computes"]));
  }
}

Spread spread_of_seconds(const std::vector<double>& values) {
  return {quantile(values, 0.05), quantile(values, 0.5), quantile(values, 0.95)};
}

std::string duration_text(const Spread& seconds) {
  const std::string low = short_duration(seconds.low), high = short_duration(seconds.high);
  return low == high ? "about " + low : low + " to " + high;
}

std::vector<Prober::Iterations> Prober::kinds() const {
  const std::vector<Phase>& phases = step_.recipe().phases();
  int64_t round = 1;
  for (const Phase& phase : phases) round = std::lcm(round, phase.cadence.interval);
  std::map<std::vector<bool>, Iterations> of;
  for (int64_t i = 0; i < round; ++i) {
    std::vector<bool> due;
    for (const Phase& phase : phases) due.push_back(phase.is_due(i));
    ++of.try_emplace(due, Iterations{i, 0}).first->second.count;
  }
  std::vector<Iterations> all;
  for (const auto& [due, iterations] : of) all.push_back(iterations);
  return all;
}

double Prober::seconds_of(int64_t iteration, const at::Tensor& pictures) {
  const at::Tensor labels =  // all of the first class
      step_.conditional() ? at::zeros({pictures.size(0)}, at::kLong) : at::Tensor();
  const double start = monotonic_seconds();
  step_.run({pictures, labels}, {iteration, 0});
  return monotonic_seconds() - start;
}

Spread Prober::time(int64_t iteration, const at::Tensor& pictures) {
  step_.note_computed_into(&computed_);
  const double once = seconds_of(iteration, pictures);  // this one warms up, ...
  step_.note_computed_into(nullptr);
  constexpr double kLong = 2, kEnough = 0.5;
  if (once >= kLong) return spread_of_seconds({once});  // ... which a long one hardly feels
  std::vector<double> seconds;
  const auto more = static_cast<int64_t>(std::clamp(kEnough / once, 3.0, 100.0));
  for (int64_t i = 0; i < more; ++i) seconds.push_back(seconds_of(iteration, pictures));
  return spread_of_seconds(seconds);
}

// Between iterations only what lasts is in use: weights, averages and the optimizers' moments.
void Prober::count_memory(int64_t peak_before, int64_t micro_batch) {
  const CpuMemoryUse use = cpu_memory_use().value_or(CpuMemoryUse{});
  if (use.peak <= peak_before) return;  // an earlier stage needed as much
  int64_t gradients = 0;
  for (const PlayerState& state : step_.players()) {
    int64_t bytes = 0;
    for (const auto& [name, parameter] : state.parameters)
      bytes += static_cast<int64_t>(parameter.nbytes());
    gradients = std::max(gradients, bytes);
  }
  const auto activations =
      static_cast<double>(std::max<int64_t>(use.peak - use.in_use - gradients, 0));
  const double larger =
      static_cast<double>(micro_batch) / static_cast<double>(step_.plan().micro_batch);
  working_bytes_ = std::max(working_bytes_, gradients + static_cast<int64_t>(activations * larger));
}

Spread Prober::seconds_per_image(const Size& resolution, int64_t micro_batch) {
  const int64_t images = step_.plan().batch;
  const int64_t peak_before = cpu_memory_use().value_or(CpuMemoryUse{}).peak;
  const at::Tensor parameter = step_.players().front().parameters.front().second;
  const at::Tensor pictures = torch::zeros({images, channels_, resolution.height, resolution.width},
                                           parameter.options().requires_grad(false));
  Spread seconds;
  int64_t count = 0;
  for (const Iterations& kind : kinds()) {
    seconds = seconds.plus(time(kind.first, pictures).scaled(static_cast<double>(kind.count)));
    count += kind.count;
  }
  count_memory(peak_before, micro_batch);
  return seconds.scaled(1 / static_cast<double>(images * count));
}

}  // namespace gantrain

// SPDX-License-Identifier: Apache-2.0
#include "prober.h"

#include <cmath>
#include <map>
#include <numeric>

#include "core/cpu_memory.h"
#include "core/torch.h"
#include "util/time.h"

namespace gantrain {

Spread spread_of(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const auto at = [&](double share) {
    const double place = share * static_cast<double>(values.size() - 1);
    const auto below = static_cast<size_t>(place);
    const size_t above = std::min(below + 1, values.size() - 1);
    return std::lerp(values[below], values[above], place - static_cast<double>(below));
  };
  return {at(0.05), at(0.5), at(0.95)};
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
  step_.run({pictures, labels, iteration, 0});
  return monotonic_seconds() - start;
}

Spread Prober::time(int64_t iteration, const at::Tensor& pictures) {
  step_.note_computed_into(&computed_);
  const double once = seconds_of(iteration, pictures);  // this one warms up, ...
  step_.note_computed_into(nullptr);
  constexpr double kLong = 2, kEnough = 0.5;
  if (once >= kLong) return spread_of({once});  // ... which a long one hardly feels
  std::vector<double> seconds;
  const auto more = static_cast<int64_t>(std::clamp(kEnough / once, 3.0, 100.0));
  for (int64_t i = 0; i < more; ++i) seconds.push_back(seconds_of(iteration, pictures));
  return spread_of(std::move(seconds));
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

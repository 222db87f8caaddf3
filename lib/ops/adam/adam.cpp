// SPDX-License-Identifier: Apache-2.0
#include "ops/adam/adam.h"

#include <algorithm>
#include <atomic>
#include <cmath>

#include "core/parallel.h"
#include "core/torch.h"
#include "ops/vector/cpu_kernels.h"

namespace gantrain {

namespace {
constexpr int64_t kPiece = 1 << 14;  // numbers: 64 KiB of each array
constexpr int64_t kGrain = 1 << 15;  // numbers that are worth a thread
}  // namespace

FlatPieces::FlatPieces(const std::vector<Tensor>& tensors) {
  for (size_t i = 0; i < tensors.size(); ++i) {
    const int64_t numbers = tensors[i].numel();
    for (int64_t at = 0; at < numbers; at += kPiece) {
      const int64_t count = std::min(kPiece, numbers - at);
      pieces_.push_back({i, at, count, numbers_});
      numbers_ += count;
    }
  }
}

void FlatPieces::for_each(const std::function<void(const FlatPiece&)>& work) const {
  parallel_for(0, numbers_, kGrain, [&](int64_t begin, int64_t end) {
    auto piece = std::lower_bound(
        pieces_.begin(), pieces_.end(), begin, [](const FlatPiece& p, int64_t number) {
          return p.before < number;
        });
    for (; piece != pieces_.end() && piece->before < end; ++piece) work(*piece);
  });
}

bool are_flat(const std::vector<Tensor>& tensors) {
  return std::all_of(tensors.begin(), tensors.end(), [](const Tensor& t) {
    return t.is_cpu() && t.scalar_type() == at::kFloat && t.is_non_overlapping_and_dense();
  });
}

bool have_equal_layout(const std::vector<Tensor>& a, const std::vector<Tensor>& b) {
  if (a.size() != b.size()) return false;
  for (size_t i = 0; i < a.size(); ++i) {
    const bool both_in_order = a[i].is_contiguous() && b[i].is_contiguous();
    if (a[i].sizes() != b[i].sizes() || (!both_in_order && a[i].strides() != b[i].strides()))
      return false;
  }
  return true;
}

std::optional<bool> all_finite(const std::vector<Tensor>& tensors) {
  if (!are_flat(tensors)) return std::nullopt;
  std::vector<const float*> data;
  for (const Tensor& tensor : tensors) data.push_back(tensor.const_data_ptr<float>());
  std::atomic<bool> finite = true;
  const UpdateKernels& kernels = cpu_kernels().update;
  FlatPieces(tensors).for_each([&](const FlatPiece& piece) {
    if (!finite.load(std::memory_order_relaxed)) return;
    if (!kernels.all_finite(data[piece.tensor] + piece.offset, piece.count))
      finite.store(false, std::memory_order_relaxed);
  });
  return finite.load();
}

namespace {

// The numbers of step t, as the paper's sec. 2 has them at its end: the corrections of both moments
// as one factor of the rate, and eps with them.
AdamNumbers numbers_of(const AdamSettings& s, double t) {
  const double root = std::sqrt(1 - std::pow(s.beta2, t));
  return {s.beta1, s.beta2, s.lr * root / (1 - std::pow(s.beta1, t)), s.eps * root};
}

// Returns the gradients with each one's numbers in the order of its parameter's: LibTorch's fused
// kernels, too, read memory in order and look at no strides. Only one that came in another order is
// copied.
std::vector<Tensor> laid_out_like(const std::vector<Tensor>& parameters,
                                  const std::vector<Tensor>& gradients) {
  std::vector<Tensor> all;
  for (size_t i = 0; i < gradients.size(); ++i) {
    const Tensor& g = gradients[i];
    all.push_back(have_equal_layout({parameters[i]}, {g}) ? g
                                                          : at::empty_like(parameters[i]).copy_(g));
  }
  return all;
}

void adam_step_on_cpu_(const std::vector<Tensor>& parameters,
                       const std::vector<Tensor>& gradients,
                       const std::vector<Tensor>& first_moments,
                       const std::vector<Tensor>& second_moments,
                       const std::vector<Tensor>& steps,
                       const AdamSettings& s) {
  std::vector<AdamNumbers> numbers;
  std::vector<AdamArrays> arrays;
  for (size_t i = 0; i < parameters.size(); ++i) {
    numbers.push_back(numbers_of(s, read_free(steps[i].add_(1))));
    arrays.push_back({parameters[i].mutable_data_ptr<float>(),
                      gradients[i].const_data_ptr<float>(),
                      first_moments[i].mutable_data_ptr<float>(),
                      second_moments[i].mutable_data_ptr<float>()});
    parameters[i].unsafeGetTensorImpl()->bump_version();  // as every operator in place does
  }
  const UpdateKernels& kernels = cpu_kernels().update;
  FlatPieces(parameters).for_each([&](const FlatPiece& piece) {
    AdamArrays at = arrays[piece.tensor];
    at.parameter += piece.offset;
    at.gradient += piece.offset;
    at.first_moment += piece.offset;
    at.second_moment += piece.offset;
    kernels.adam(at, piece.count, numbers[piece.tensor]);
  });
}

void lerp_on_cpu_(const std::vector<Tensor>& averages,
                  const std::vector<Tensor>& values,
                  double weight) {
  std::vector<float*> to;
  std::vector<const float*> from;
  for (size_t i = 0; i < averages.size(); ++i) {
    to.push_back(averages[i].mutable_data_ptr<float>());
    from.push_back(values[i].const_data_ptr<float>());
    averages[i].unsafeGetTensorImpl()->bump_version();
  }
  const UpdateKernels& kernels = cpu_kernels().update;
  FlatPieces(averages).for_each([&](const FlatPiece& piece) {
    kernels.lerp(
        to[piece.tensor] + piece.offset, from[piece.tensor] + piece.offset, piece.count, weight);
  });
}

}  // namespace

void adam_step_(std::vector<Tensor>& parameters,
                const std::vector<Tensor>& given_gradients,
                std::vector<Tensor>& first_moments,
                std::vector<Tensor>& second_moments,
                std::vector<Tensor>& steps,
                const AdamSettings& s,
                const Tensor& found) {
  if (parameters.empty()) return;
  const std::vector<Tensor> gradients = laid_out_like(parameters, given_gradients);
  if (!s.lr_on_device.defined() && are_flat(parameters) && are_flat(gradients) &&
      are_flat(first_moments) && are_flat(second_moments) &&
      have_equal_layout(parameters, first_moments) &&
      have_equal_layout(parameters, second_moments)) {
    const bool left_out = found.defined() && read_free(found) != 0;
    if (left_out) return;
    adam_step_on_cpu_(parameters, gradients, first_moments, second_moments, steps, s);
    return;
  }
  if (found.defined()) {
    at::_foreach_add_(steps, (found.reshape({}) == 0).to(steps.front().scalar_type()));
  } else {
    at::_foreach_add_(steps, 1);
  }
  const auto found_inf = found.defined() ? std::optional<Tensor>(found) : std::nullopt;
  const auto fused = [&](const auto& lr) {
    at::_fused_adam_(parameters,
                     gradients,
                     first_moments,
                     second_moments,
                     /*max_exp_avg_sqs=*/{},
                     steps,
                     lr,
                     s.beta1,
                     s.beta2,
                     /*weight_decay=*/0,
                     s.eps,
                     /*amsgrad=*/false,
                     /*maximize=*/false,
                     /*grad_scale=*/std::nullopt,
                     found_inf);
  };
  if (s.lr_on_device.defined()) {
    fused(s.lr_on_device);
  } else {
    fused(s.lr);
  }
}

void lerp_(std::vector<Tensor>& averages,
           const std::vector<Tensor>& values,
           const DeviceNumber& weight) {
  if (averages.empty()) return;
  if (!weight.moves() || reads_are_free(averages.front().device())) {
    if (are_flat(averages) && are_flat(values) && have_equal_layout(averages, values)) {
      lerp_on_cpu_(averages, values, weight.host());
      return;
    }
    at::_foreach_lerp_(averages, values, weight.host());
    return;
  }
  std::vector<Tensor> steps = at::_foreach_sub(values, averages);
  at::_foreach_mul_(steps, weight.value());
  at::_foreach_add_(averages, steps);
}

}  // namespace gantrain

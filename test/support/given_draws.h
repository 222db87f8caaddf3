// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <map>
#include <string>
#include <utility>

#include "core/torch.h"
#include "ops/device_kernels.h"
#include "util/hash.h"

namespace gantrain {

// While one of these lives, draws on the CPU (ops/draws/draws.h) whose purpose was given hand out
// the given numbers instead of random ones, in every phase. So a recipe's own phases run on the
// latents and the noise of a fixture. For tests that compute in one thread at a time. Not to be
// nested.
class GivenDraws {
 public:
  GivenDraws() : before_(device_kernels(at::kCPU)), kernels_(before_) {
    TORCH_CHECK(alive() == nullptr, "GivenDraws inside GivenDraws");
    alive() = this;
    kernels_.draw = [](const DrawNumbers& how) { return alive()->draw(how); };
    set_device_kernels(at::kCPU, kernels_);
  }
  ~GivenDraws() {
    set_device_kernels(at::kCPU, before_);
    alive() = nullptr;
  }
  GivenDraws(const GivenDraws&) = delete;
  GivenDraws& operator=(const GivenDraws&) = delete;

  // values[n] is what global sample n draws; the size behind N must be that of the draw. With N = 1
  // every sample draws values[0].
  void give(const std::string& purpose, const at::Tensor& values) {
    give(purpose, values, kAnyPhase);
  }
  // The same in draws whose key has that phase alone, which go before those of any phase.
  void give(const std::string& purpose, const at::Tensor& values, int64_t phase) {
    given_[{hash64(purpose), phase}] = values.flatten(1);
  }
  // drawn_classes() of as many pictures in each of `classes` classes gives these labels, int64 [N].
  // That holds where draws go through the kernels, which is under AssumeReadsWait.
  void give_classes(const at::Tensor& labels, int64_t classes) {
    // Of a number of 64 bits the share of 2^64 decides; its upper half is enough.
    const at::Tensor upper =
        ((labels.to(at::kDouble) + 0.5) / static_cast<double>(classes) * std::exp2(32))
            .to(at::kLong);
    give("labels", at::stack({upper, at::zeros_like(upper)}, 1));
  }
  // The noise that each layer of a synthesis network has stored, for every sample. `stored` counts
  // layers from 4x4 up.
  void give_noise(const std::vector<at::Tensor>& stored) {
    for (size_t i = 0; i < stored.size(); ++i)
      give("noise/" + std::to_string(i), stored[i].reshape({1, -1}));
  }

 private:
  static GivenDraws*& alive() {
    static GivenDraws* present = nullptr;
    return present;
  }

  at::Tensor draw(const DrawNumbers& how) const {
    auto at = given_.find({how.purpose, how.phase});
    if (at == given_.end()) at = given_.find({how.purpose, kAnyPhase});
    if (at == given_.end()) return before_.draw(how);
    const at::Tensor& values = at->second;
    TORCH_CHECK(values.size(1) == how.each,
                "drawn: ",
                how.each,
                " numbers a sample, given: ",
                values.size(1));
    const auto type = how.distribution == Distribution::kBits ? at::kLong : at::kFloat;
    const Samples& s = how.samples;
    const at::Tensor rows = values.size(0) == 1
                                ? at::zeros({s.count}, at::kLong)
                                : at::arange(s.count, at::kLong) * s.stride + s.first;
    return values.index_select(0, rows).to(type);
  }

  const DeviceKernels& before_;
  DeviceKernels kernels_;
  static constexpr int64_t kAnyPhase = -1;

  // By hash64 of the purpose and the phase, [N, numbers a sample].
  std::map<std::pair<uint64_t, int64_t>, at::Tensor> given_;
};

}  // namespace gantrain

// SPDX-License-Identifier: Apache-2.0
// Convolutions and draws on the device.
#include "ops/convolution/convolution.h"

#include <catch2/catch.hpp>

#include "core/random.h"
#include "core/torch.h"
#include "device.h"
#include "device_checks.h"
#include "ops/draws/draws.h"

using namespace gantrain;
using at::Tensor;

namespace {

using Tensors = std::vector<Tensor>;

// Libraries may convolve in transformed domains, whose errors are a few times those of plain sums.
constexpr double kSumRoundings = 20, kFloat32SumRoundings = 1024;

Tensor numbers(at::IntArrayRef sizes) { return torch::randn(sizes, at::kDouble); }

}  // namespace

TEST_CASE("KernelConvolutionsInEveryTypeAndLayoutAreThoseOfFloat64") {
  const auto device = device_or_skip();
  if (!device) return;
  for (const Form& form : all_forms()) {
    torch::manual_seed(3);
    Shapes shapes(5);
    for (int i = 0; i < 8; ++i) {
      const bool transposed = i % 2 == 1;
      const int64_t in = 8 * shapes.between(1, 3), out = 8 * shapes.between(1, 3);
      const int64_t kernel = i % 4 < 2 ? 3 : 1, side = shapes.between(4, 12);
      const ConvPlace place{.stride = i % 3 == 0 ? 2 : 1, .padding = {kernel / 2, kernel / 2}};
      const Tensor x = numbers({shapes.between(1, 4), in, side, side});
      const Tensor w =
          transposed ? numbers({in, out, kernel, kernel}) : numbers({out, in, kernel, kernel});
      const OperatorCall call{{x, w}, 2, [=](const Tensors& t) {
                                return transposed ? conv_transpose2d(t[0], t[1], {}, place)
                                                  : conv2d(t[0], t[1], {}, place);
                              }};
      const double allowed =
          allowed_error(form.type, form.type == at::kFloat ? kFloat32SumRoundings : kSumRoundings);
      CAPTURE(text_of(form), i, x.sizes(), w.sizes());
      CHECK(largest_error(call, form, *device) < allowed);
    }
  }
}

TEST_CASE("KernelDrawsAreTheStreamsOfTheHost") {
  const auto device = device_or_skip();
  if (!device) return;
  Shapes shapes(9);
  for (int i = 0; i < 20; ++i) {
    const int64_t seed = shapes.between(0, 1'000'000), iteration = shapes.between(0, 1'000'000);
    const int64_t phase = shapes.between(0, 3), each = shapes.between(1, 700);
    const Samples samples{shapes.between(0, 9), shapes.between(1, 5), shapes.between(1, 6)};
    DrawKey key = make_draw_key(static_cast<uint64_t>(seed), 0, phase, *device);
    set_iteration_(key, iteration);
    const Stream stream(static_cast<uint64_t>(seed),
                        "test",
                        static_cast<uint64_t>(iteration),
                        static_cast<uint64_t>(phase));
    CAPTURE(seed, iteration, phase, each, samples.first, samples.stride, samples.count);
    CHECK(torch::equal(uniform(key, "test", samples, {each}).cpu(),
                       uniform(stream, samples, {each})));
    CHECK(torch::allclose(
        normal(key, "test", samples, {each}).cpu(), normal(stream, samples, {each}), 1e-6, 1e-6));
    const Tensor shares = torch::tensor({1, 5, 6, 16}, at::kLong);
    CHECK(torch::equal(
        drawn_classes(key, "class", samples, shares.to(*device), 16).cpu(),
        drawn_classes(
            make_draw_key(static_cast<uint64_t>(seed), iteration, phase, c10::Device(at::kCPU)),
            "class",
            samples,
            shares,
            16)));
  }
}

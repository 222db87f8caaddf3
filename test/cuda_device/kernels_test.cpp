// SPDX-License-Identifier: Apache-2.0
// The public operators on the device, with their derivatives, against what they mean in float64;
// convolutions and draws.
#include "augment/augment.h"
#include "core/random.h"
#include "core/torch.h"
#include "device_checks.h"
#include "ops/autocast.h"
#include "ops/bias_act/bias_act.h"
#include "ops/convolution/convolution.h"
#include "ops/draws/draws.h"
#include "ops/filtered_lrelu/filtered_lrelu.h"
#include "ops/modulation/modulation.h"
#include "ops/norms/norms.h"
#include "ops/upfirdn2d/upfirdn2d.h"
#include "support/catch.h"

using namespace gantrain;
using at::Tensor;

namespace {

using Tensors = std::vector<Tensor>;

// How many roundings of its type a result may be away.
struct Roundings {
  double half, float32;
};
// A handful: of the inputs' products, of what is saved, and of first derivatives that second ones
// are computed from. Sums in float32 have more.
constexpr Roundings kFew{8, 256};
// Libraries may convolve in transformed domains, whose errors are a few times those of plain sums.
constexpr Roundings kOfSums{20, 1024};

double allowed(const Form& form, const Roundings& roundings) {
  return allowed_error(form.type, form.type == at::kFloat ? roundings.float32 : roundings.half);
}

// Values that reach this clamp in float32 are so few that none lies within a rounding of it; in a
// half type some would.
std::optional<double> clamp_for(const Form& form) {
  return form.type == at::kFloat ? std::optional<double>(0.9) : std::nullopt;
}

Tensor maps(at::IntArrayRef sizes) { return torch::randn(sizes, at::kDouble); }

// Filters and noise: float32, but float64 in the reference.
Tensor beside(const Tensor& t, const Tensor& x) {
  return t.defined() ? t.to(x.device(), x.scalar_type() == at::kDouble ? at::kDouble : at::kFloat)
                     : t;
}

// Tries `count` random calls in all types and layouts.
void check(int count,
           const std::function<OperatorCall(Shapes& shapes, const Form& form, int number)>& make,
           const Roundings& roundings = kFew) {
  const auto device = device_or_skip();
  if (!device) return;
  for (const Form& form : all_forms()) {
    torch::manual_seed(7);
    Shapes shapes(11);
    for (int i = 0; i < count; ++i) {
      const OperatorCall call = make(shapes, form, i);
      CAPTURE(text_of(form), i, call.inputs.front().sizes());
      CHECK(largest_error(call, form, *device) < allowed(form, roundings));
    }
  }
}

// Moves x so that |u| >= 0.1 everywhere, where u = factor * x + what x does not change: at a kink a
// rounding would choose the slope.
Tensor away_from_the_kink(const Tensor& x, const Tensor& u, const Tensor& factor) {
  return torch::where(u.abs() < 0.1, x + torch::copysign(torch::full_like(u, 0.2), u) / factor, x);
}

}  // namespace

TEST_CASE("KernelUpFirDnIsWhatItMeansInFloat64") {
  check(16, [](Shapes& shapes, const Form&, int number) {
    const bool usual = number % 2 == 0;  // four taps, up or down by two, or neither
    const std::vector<int64_t> size = shapes.maps();
    UpFirDn how;
    Tensor f = setup_filter(std::vector<double>{1, 3, 3, 1});
    if (usual) {
      if (number % 3 == 0) how.up = {2, 2};
      if (number % 3 == 1) how.down = {2, 2};
      how.padding = {2, 1, 2, 1};
    } else {
      how.up = {shapes.between(1, 3), shapes.between(1, 3)};
      how.down = {shapes.between(1, 3), shapes.between(1, 3)};
      how.padding = {shapes.between(9, 11), shapes.between(-1, 5), 9, shapes.between(-1, 3)};
      f = number % 4 == 1 ? torch::randn({shapes.between(1, 9)})
                          : torch::randn({shapes.between(1, 7), shapes.between(1, 7)});
    }
    how.flip_filter = shapes.between(0, 1) == 1;
    how.gain = 1.5;
    const auto run = [f, how](const Tensors& in) {
      return upfirdn2d(in[0], beside(f, in[0]), how);
    };
    return OperatorCall{{maps(size)}, 1, run};
  });
}

// The gradients of a map and of its filtered copy are added where the filter stores them.
TEST_CASE("KernelUpFirDnBesideItsMapIsWhatItMeansInFloat64") {
  check(12, [](Shapes& shapes, const Form&, int number) {
    std::vector<int64_t> size = shapes.maps();
    UpFirDn how;
    how.padding = number % 2 == 0 ? Padding2d{1, 1, 1, 1} : Padding2d{2, 1, 2, 1};
    if (number % 2 == 0) how.down = {2, 2};
    const Tensor f = setup_filter(std::vector<double>{1, 3, 3, 1});
    const auto run = [=](const Tensors& in) {
      const Filtered both = upfirdn2d_beside(in[0], beside(f, in[0]), how);
      const bool alike = both.x.sizes() == both.filtered.sizes();
      return alike ? both.x * 0.5 + both.filtered
                   : torch::cat({both.x.flatten(), both.filtered.flatten()});
    };
    return OperatorCall{{maps(size)}, 1, run};
  });
}

TEST_CASE("KernelFilteredLreluIsWhatItMeansInFloat64") {
  check(6, [](Shapes& shapes, const Form&, int number) {
    const std::vector<int64_t> size = {
        1, shapes.between(1, 9), shapes.between(12, 18), shapes.between(12, 18)};
    // StyleGAN3's layers, which strips compute, then filters and pads that tiles do.
    constexpr int64_t kLayers[][3] = {
        {2, 2, 9}, {4, 2, -2}, {2, 4, 40}, {2, 2, 8}, {1, 2, 3}, {3, 1, 5}};
    const auto& [up, down, before] = kLayers[number];
    FilteredLrelu how;
    how.up = up;
    how.down = down;
    how.padding = {before, before + 3, before, before + 2};
    const int64_t up_taps = 6 * up, down_taps = 6 * down;
    const Tensor u = torch::rand({up_taps}) + 0.1;
    const Tensor d =
        number == 3 ? torch::rand({down_taps, down_taps}) : torch::rand({down_taps}) + 0.1;
    const auto run = [=](const Tensors& in) {
      FilteredLrelu step = how;
      step.up_filter = beside(u / u.sum(), in[0]);
      step.down_filter = beside(d / d.sum(), in[0]);
      return filtered_lrelu(in[0], in[1], step);
    };
    return OperatorCall{{maps(size), maps({size[1]})}, 2, run};
  });
}

TEST_CASE("KernelBiasActIsWhatItMeansInFloat64") {
  const auto count = static_cast<int>(names(Activation{}).size());
  check(2 * count, [count](Shapes& shapes, const Form& form, int number) {
    const std::vector<int64_t> size = shapes.maps();
    BiasAct how;
    how.act = static_cast<Activation>(number % count);
    if (number >= count) how.clamp = clamp_for(form);
    if (number % 3 == 1) how.gain = 0.7;
    return OperatorCall{{maps(size), maps({size[1]})}, 2, [how](const Tensors& in) {
                          return bias_act(in[0], in[1], how);
                        }};
  });
}

namespace {

// A call of the epilogue of a modulated convolution, with the terms that `number` chooses. x is
// input `first`; after the maps come the terms.
struct ActCall {
  OperatorCall call;
  std::function<ModulatedAct(const Tensors& in)> terms;
  BiasAct how;
};

ActCall act_call(Shapes& shapes, const Form& form, int number, size_t first = 0) {
  const std::vector<int64_t> size = shapes.maps();
  const bool d = number % 2 == 0, bias = number % 3 != 0, noisy = number % 4 < 2;
  const double scale = number % 2 == 0 ? 1 : 0.7;
  const Tensor noise =
      noisy ? torch::randn({number % 8 < 4 ? 1 : size[0], 1, size[2], size[3]}) : Tensor();
  ActCall made{{{}, first + 1, {}}, {}, {}};
  Tensors& inputs = made.call.inputs;
  for (size_t i = 0; i <= first; ++i) inputs.push_back(maps(size));
  if (d) inputs.push_back(maps({size[0], size[1]}).abs() + 0.3);
  if (noisy) inputs.push_back(number % 5 == 0 ? maps({size[1]}) : maps({}));
  if (bias) inputs.push_back(maps({size[1]}));
  made.terms = [=](const Tensors& in) {
    ModulatedAct terms;
    size_t next = first + 1;
    terms.scale = scale;
    if (d) terms.d = in[next++];
    if (noisy) terms.noise = beside(noise, in[0]);
    if (noisy) terms.strength = in[next++];
    if (bias) terms.bias = in[next++];
    return terms;
  };
  const Tensor u = modulated_act(inputs[first], made.terms(inputs), {.gain = 1});
  const Tensor factor =
      d ? scale * inputs[first + 1].unsqueeze(-1).unsqueeze(-1) : torch::full_like(u, scale);
  inputs[first] = away_from_the_kink(inputs[first], u, factor);
  made.how.act = number % 7 == 0 ? Activation::kLinear : Activation::kLrelu;
  made.how.clamp = clamp_for(form);
  return made;
}

}  // namespace

TEST_CASE("KernelModulatedActIsWhatItMeansInFloat64") {
  check(16, [](Shapes& shapes, const Form& form, int number) {
    ActCall made = act_call(shapes, form, number);
    made.call.f = [terms = made.terms, how = made.how](const Tensors& in) {
      return modulated_act(in[0], terms(in), how);
    };
    return made.call;
  });
}

TEST_CASE("KernelModulatedActBesideIsWhatItMeansInFloat64") {
  check(16, [](Shapes& shapes, const Form& form, int number) {
    ActCall made = act_call(shapes, form, number, /*first=*/1);
    made.call.f = [terms = made.terms, how = made.how](const Tensors& in) {
      return modulated_act_beside(in[0], in[1], terms(in), how);
    };
    return made.call;
  });
}

TEST_CASE("KernelModulatedActForTheNextLayerIsWhatItMeansInFloat64") {
  check(16, [](Shapes& shapes, const Form& form, int number) {
    ActCall made = act_call(shapes, form, number);
    const Tensor& x = made.call.inputs.front();
    made.call.inputs.push_back(maps({x.size(0), x.size(1)}).abs() + 0.3);
    const at::ScalarType type = form.type;
    made.call.f = [=, terms = made.terms, how = made.how, keep_x = number % 3 == 0](
                      const Tensors& in) {
      const Tensor& styles = in.back();
      const StyledMaps maps = modulated_act_for(in[0], terms(in), how, {styles, type, keep_x});
      const Tensor scaled =
          maps.scaled.defined() ? maps.scaled : channels_scaled(maps.x, styles_for(type, styles));
      return keep_x ? torch::cat({maps.x, scaled}, 1) : scaled;
    };
    return made.call;
  });
}

TEST_CASE("KernelMinibatchStdIsWhatItMeansInFloat64") {
  check(10, [](Shapes& shapes, const Form&, int number) {
    std::vector<int64_t> size = shapes.maps();
    const int64_t group = shapes.between(2, 4), channels = number % 3 == 0 ? 2 : 1;
    size[0] = group * shapes.between(1, 3);
    size[1] = (size[1] + 1) / 2 * 2;
    return OperatorCall{
        {maps(size)}, 1, [=](const Tensors& in) { return minibatch_std(in[0], group, channels); }};
  });
}

TEST_CASE("KernelPixelNormIsWhatItMeansInFloat64") {
  check(10, [](Shapes& shapes, const Form&, int) {
    return OperatorCall{
        {maps(shapes.maps())}, 1, [](const Tensors& in) { return pixel_norm(in[0]); }};
  });
}

TEST_CASE("KernelAdainIsWhatItMeansInFloat64") {
  check(10, [](Shapes& shapes, const Form&, int) {
    std::vector<int64_t> size = shapes.maps();
    size[2] += 3;  // a plane of one pixel has no deviation
    return OperatorCall{{maps(size), maps({size[0], 2 * size[1]})}, 2, [](const Tensors& in) {
                          return adain(in[0], in[1]);
                        }};
  });
}

TEST_CASE("KernelConvolutionsInEveryTypeAndLayoutAreThoseOfFloat64") {
  const auto make = [](Shapes& shapes, const Form&, int number) {
    const bool transposed = number % 2 == 1;
    const int64_t in = 8 * shapes.between(1, 3), out = 8 * shapes.between(1, 3);
    const int64_t kernel = number % 4 < 2 ? 3 : 1, side = shapes.between(4, 12);
    const ConvPlace place{.stride = number % 3 == 0 ? 2 : 1, .padding = {kernel / 2, kernel / 2}};
    const Tensor x = maps({shapes.between(1, 4), in, side, side});
    const Tensor w = transposed ? maps({in, out, kernel, kernel}) : maps({out, in, kernel, kernel});
    return OperatorCall{{x, w}, 2, [=](const Tensors& t) {
                          return transposed ? conv_transpose2d(t[0], t[1], {}, place)
                                            : conv2d(t[0], t[1], {}, place);
                        }};
  };
  check(8, make, kOfSums);
}

// A weight in float32 is scaled, cast and laid out in one pass.
TEST_CASE("KernelWeightsOfConvolutionsAreWhatTheyMeanInFloat64") {
  const auto make = [](Shapes& shapes, const Form&, int number) {
    const int64_t kernel = number % 2 == 0 ? 3 : 1, channels = 8 * shapes.between(1, 3);
    const ConvPlace place{.padding = {kernel / 2, kernel / 2}};
    const Tensor x = maps({2, channels, 6, 7});
    const Tensor w = maps({8 * shapes.between(1, 3), channels, kernel, kernel});
    return OperatorCall{{x, w}, 1, [=](const Tensors& in) {
                          const Tensor weight = convolution_weight(in[1], 0.37, in[0]);
                          return conv2d(in[0], weight, {}, place);
                        }};
  };
  check(6, make, kOfSums);
}

TEST_CASE("KernelProductsOfEachSampleAreWhatTheyMeanInFloat64") {
  const auto make = [](Shapes& shapes, const Form&, int) {
    const std::vector<int64_t> size = shapes.maps();
    return OperatorCall{{maps(size), maps({size[0], 3, size[1]})}, 1, [](const Tensors& in) {
                          return sample_products(in[0], in[1].to(in[0].scalar_type()));
                        }};
  };
  check(8, make, kOfSums);
}

TEST_CASE("KernelSquareSumsAreWhatTheyMeanInFloat64") {
  check(8, [](Shapes& shapes, const Form&, int) {
    return OperatorCall{
        {maps(shapes.maps())}, 0, [](const Tensors& in) { return square_sums(in[0]); }};
  });
}

TEST_CASE("KernelDenseLayersWithFactorsAreWhatTheyMeanInFloat64") {
  check(8, [](Shapes& shapes, const Form&, int number) {
    const int64_t in = shapes.between(1, 40), out = shapes.between(1, 40);
    const LinearFactors factors{number % 2 == 0 ? 1 : 0.1, number % 3 == 0 ? 1 : 0.01};
    return OperatorCall{{maps({shapes.between(1, 9), in}), maps({out, in}), maps({out})},
                        0,
                        [=](const Tensors& t) { return scaled_linear(t[0], t[1], t[2], factors); }};
  });
}

// Two layers, the epilogue of the first of which multiplies by the styles of the second.
TEST_CASE("KernelModulatedLayersAreWhatTheyMeanInFloat64") {
  const auto make = [](Shapes& shapes, const Form& form, int number) {
    const int64_t samples = shapes.between(1, 3), channels = 8 * shapes.between(1, 2);
    const int64_t side = shapes.between(4, 8);
    const auto styles = [&] { return maps({samples, channels}).abs() + 0.5; };
    const auto weight = [&] { return maps({channels, channels, 3, 3}); };
    OperatorCall call{
        {maps({samples, channels, side, side}), weight(), styles(), weight(), styles()}, 1, {}};
    const bool up = number % 2 == 0;
    const Tensor f = setup_filter(std::vector<double>{1, 3, 3, 1});
    call.f = [=, type = form.type](const Tensors& in) {
      const BiasAct linear{.act = Activation::kLinear, .gain = 0.5};
      const Tensor filter = beside(f, in[0]);
      const NextConv next{in[4], type, /*keep_x=*/false};
      const ModulatedConv how{.up = up ? 2 : 1, .padding = 1, .fused = number % 3 == 0};
      const StyledMaps between =
          modulated_layer({in[0], {}, in[2]}, in[1], filter, how, {}, linear, next);
      return modulated_layer(
                 between, in[3], filter, {.padding = 1, .fused = how.fused}, {}, linear, {})
          .x;
    };
    return call;
  };
  check(8, make, kOfSums);
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

// Matrices drawn in one kernel, pictures resampled in one, and its adjoint.
TEST_CASE("KernelAugmentationIsWhatItMeansInFloat64") {
  const auto device = device_or_skip();
  if (!device) return;
  torch::manual_seed(7);
  for (const Layout layout : {Layout::kContiguous, Layout::kChannelsLast, Layout::kStrided}) {
    for (const auto& [p, size] : {std::pair{1e-9, std::vector<int64_t>{3, 3, 24, 24}},
                                  {.5, {8, 3, 32, 20}},
                                  {1., {300, 1, 5, 9}},
                                  {1., {4, 4, 17, 70}}}) {
      const auto run = [p = p, count = size[0]](const Tensors& in) {
        StreamDraws draws(make_draw_key(3, 5, 0, in[0].device()), {0, 1, count});
        const Tensor strength = torch::full({}, p, in[0].options().dtype(at::kDouble));
        return augment(in[0], strength, augment_pipe("bgc"), draws);
      };
      const Form form{at::kFloat, layout};
      CAPTURE(text_of(form), p, size);
      CHECK(largest_error({{maps(size)}, 1, run}, form, *device) < 2e-4);
    }
  }
}

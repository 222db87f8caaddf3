// SPDX-License-Identifier: Apache-2.0
#include <catch2/catch.hpp>

#include "core/tensors.h"
#include "nn/progressive.h"
#include "nn/tensorflow_layout.h"
#include "ops/kernels.h"
#include "ops/minibatch_std/minibatch_std.h"
#include "ops/norms/norms.h"
#include "ops/resample.h"
#include "support/covered_fixture.h"
#include "support/float32_checks.h"

using namespace gantrain;

namespace {

// One layer of fixtures/pg_sg1_ops: its inputs in our layouts, and its gradients in the official.
class Layer {
 public:
  Layer(CoveredFixture& reference, const std::string& name) : reference_(reference), name_(name) {}

  at::Tensor input(const std::string& key, TfLayout layout = TfLayout::kSame) {
    inputs_.push_back(
        {key,
         layout,
         from_tensorflow(reference_[name_ + "/" + key], layout).clone().requires_grad_(true)});
    return inputs_.back().value;
  }
  // A weight that is scaled where it is used.
  at::Tensor weight(TfLayout layout, double gain, const char* key = "var/weight", double lr = 1) {
    const at::Tensor w = input(key, layout);
    Equalised layer({w.sizes().vec(), 0, gain, lr});
    layer.weight = w;
    return layer.w();
  }
  void check(const at::Tensor& y) {
    CAPTURE(name_);
    CHECK(scaled_error(y.detach(), reference_[name_ + "/y"]) < 1e-5);
    std::vector<at::Tensor> leaves;
    for (const Input& input : inputs_) leaves.push_back(input.value);
    const auto gradients = torch::autograd::grad({(y * reference_[name_ + "/dy"]).sum()}, leaves);
    for (size_t i = 0; i < inputs_.size(); ++i) {
      CAPTURE(inputs_[i].key);
      CHECK(scaled_error(to_tensorflow(gradients[i], inputs_[i].layout),
                         reference_[name_ + "/d_" + inputs_[i].key]) < 1e-5);
    }
  }

 private:
  struct Input {
    std::string key;
    TfLayout layout;
    at::Tensor value;
  };
  CoveredFixture& reference_;
  std::string name_;
  std::vector<Input> inputs_;
};

void check_resampling(CoveredFixture& reference) {
  for (const auto& [name, layout] : {std::pair("pg_up_fused", TfLayout::kTransposedConv),
                                     std::pair("pg_up_unfused", TfLayout::kConv),
                                     std::pair("sg_up_fused", TfLayout::kMirroredConv),
                                     std::pair("sg_up_unfused", TfLayout::kConv)}) {
    Layer layer(reference, name);
    layer.check(conv2d_up(layer.input("x"), layer.weight(layout, kHeGain)));
  }
  for (const char* name :
       {"pg_down_fused", "pg_down_unfused", "sg_down_fused", "sg_down_unfused"}) {
    Layer layer(reference, name);
    layer.check(conv2d_down(layer.input("x"), layer.weight(TfLayout::kConv, kHeGain)));
  }
  Layer blurred(reference, "sg_blur2d");
  blurred.check(blur(blurred.input("x")));
}

void check_normalisation(CoveredFixture& reference) {
  Layer pixels(reference, "pg_pixel_norm");
  pixels.check(pixel_norm(pixels.input("x")));
  Layer instances(reference, "sg_instance_norm");
  instances.check(instance_norm(instances.input("x")));
  Layer batch(reference, "pg_minibatch_stddev");
  batch.check(minibatch_std(batch.input("x"), 4));
  Layer two(reference, "sg_minibatch_stddev_nf2");
  two.check(minibatch_std(two.input("x"), 4, 2));
}

void check_dense(CoveredFixture& reference) {
  Layer plain(reference, "pg_dense_wscale");
  const at::Tensor x = plain.input("x").flatten(1);
  plain.check(torch::linear(x, plain.weight(TfLayout::kDense, 1), plain.input("var/bias")));
  Layer slow(reference, "sg_dense_lrmul");
  const at::Tensor w = slow.weight(TfLayout::kDense, kHeGain, "var/weight", 0.01);
  slow.check(lrelu(torch::matmul(slow.input("x"), w.t()), slow.input("var/bias") * 0.01));
  Layer style(reference, "sg_style_mod");
  const at::Tensor affine = style.weight(TfLayout::kDense, 1, "var/StyleMod/weight");
  style.check(modulate(style.input("x"),
                       torch::linear(style.input("w"), affine, style.input("var/StyleMod/bias"))));
  Layer noise(reference, "sg_apply_noise");
  noise.check(noise.input("x") +
              noise.input("noise") * noise.input("var/Noise/weight").reshape({-1, 1, 1}));
}

}  // namespace

TEST_CASE("EveryLayerOfTheOfficialNetworksIsMatched") {
  CoveredFixture reference("pg_sg1_ops");
  check_resampling(reference);
  check_normalisation(reference);
  check_dense(reference);
  CHECK(reference.unused() == std::vector<std::string>());
}

TEST_CASE("ANewLayerKeepsTheVariance") {
  for (const double lr : {1.0, 0.01}) {
    auto layer = std::make_shared<Equalised>(dense_shape(400, 300, 1, lr));
    torch::nn::Module network;
    network.register_module("layer", layer);
    initialise_equalised(network, "G", 3);
    const at::Tensor y = dense(torch::randn({200, 400}), *layer);
    CHECK(y.std().item<double>() == Approx(1).epsilon(0.02));
    CHECK(layer->weight.std().item<double>() == Approx(1 / lr).epsilon(0.02));
  }
}

TEST_CASE("ASlowLayerStartsAsTheSameAndMovesLessForTheSameStep") {
  Equalised fast(dense_shape(8, 4)), slow(dense_shape(8, 4, kHeGain, 0.01));
  const torch::NoGradGuard no_grad;
  fast.weight.normal_();
  slow.weight.copy_(fast.weight / 0.01);
  CHECK(torch::allclose(slow.w(), fast.w()));
  const at::Tensor before_fast = fast.w().clone(), before_slow = slow.w().clone();
  for (const Equalised* layer : {&fast, &slow}) {  // as a step of Adam: the same for every weight
    layer->weight.add_(0.5);
    layer->bias.add_(0.5);
  }
  CHECK(torch::allclose((slow.w() - before_slow) / 0.01, fast.w() - before_fast, 1e-3, 1e-4));
  CHECK(torch::allclose(slow.b() / 0.01, fast.b()));
}

TEST_CASE("InitialWeightsDependOnNamesAndSeedAlone") {
  const auto digest = [](uint64_t seed, const char* player) {
    torch::nn::Module network;
    network.register_module("a", std::make_shared<Equalised>(conv_shape(2, 3, 3)));
    network.register_module("b", std::make_shared<Equalised>(conv_shape(2, 3, 3)));
    initialise_equalised(network, player, seed);
    const auto parameters = network.named_parameters();
    CHECK_FALSE(torch::equal(parameters["a.weight"], parameters["b.weight"]));
    CHECK(parameters["a.bias"].abs().max().item<float>() == 0);
    return sha256_of(state_of(network));
  };
  CHECK(digest(1, "G") == digest(1, "G"));
  CHECK(digest(1, "G") != digest(2, "G"));
  CHECK(digest(1, "G") != digest(1, "D"));
}

TEST_CASE("AConvolutionsFactorInTheActivationChangesNothing") {
  // In float64 the weight is multiplied, in float32 the convolution's result.
  for (const double lr : {1.0, 0.5}) {
    const auto f = [&](const Tensors& in) {
      Equalised layer({{4, 3, 3, 3}, 4, kHeGain, lr});
      layer.weight = in[1];
      layer.bias = in[2];
      return conv_lrelu(in[0], layer);
    };
    torch::manual_seed(9);
    const Tensors inputs = {torch::randn({2, 3, 6, 5}, at::kDouble),
                            torch::randn({4, 3, 3, 3}, at::kDouble),
                            torch::randn({4}, at::kDouble)};
    CHECK(float32_error(f, inputs, /*order=*/2) < 1e-5);
    Tensors plain;
    for (const at::Tensor& x : inputs) plain.push_back(x.to(at::kFloat));
    const at::Tensor fused = f(plain);
    const WithKernels ref(KernelSet::kRef);
    CHECK(scaled_error(fused, f(plain)) < 1e-6);
  }
}

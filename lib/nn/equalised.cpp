// SPDX-License-Identifier: Apache-2.0
#include "nn/equalised.h"

#include "core/tensors.h"
#include "core/torch.h"
#include "ops/autocast.h"
#include "ops/bias_act.h"
#include "ops/modulated_act.h"

namespace gantrain {

using at::Tensor;

Equalised::Equalised(const Shape& shape) : lr(shape.lr) {
  weight = register_parameter("weight", torch::zeros(shape.weight));
  if (shape.bias > 0) bias = register_parameter("bias", torch::zeros({shape.bias}));
  const int64_t fan_in = weight.numel() / weight.size(0);
  scale = shape.gain / std::sqrt(static_cast<double>(fan_in));
}

Tensor Equalised::w() const { return weight * (scale * lr); }

Tensor Equalised::b() const { return lr == 1 ? bias : bias * lr; }

Equalised::Shape dense_shape(int64_t in, int64_t out, double gain, double lr) {
  return {{out, in}, out, gain, lr};
}

Equalised::Shape conv_shape(int64_t in, int64_t out, int64_t k, double gain) {
  return {{out, in, k, k}, out, gain, 1};
}

Tensor dense(const Tensor& x, const Equalised& layer) {
  return autocast_linear(x.flatten(1), layer.w(), layer.b());
}

namespace {

Tensor same_size(const Tensor& x, const Equalised& layer, const Tensor& bias) {
  const int64_t padding = layer.weight.size(2) / 2;
  return autocast_conv2d(x, layer.w(), bias, {.padding = {padding, padding}});
}

}  // namespace

Tensor conv_without_bias(const Tensor& x, const Equalised& layer) {
  return same_size(x, layer, {});
}

Tensor conv(const Tensor& x, const Equalised& layer) { return same_size(x, layer, layer.b()); }

namespace {

BiasAct leaky_relu() {
  BiasAct how;
  how.act = Activation::kLrelu;
  how.gain = 1;  // the layer's own gain has it
  return how;
}

}  // namespace

Tensor lrelu(const Tensor& x, const Tensor& bias) { return bias_act(x, bias, leaky_relu()); }

Tensor convolved_lrelu(const Tensor& x,
                       const Equalised& layer,
                       const std::function<Tensor(const Tensor&)>& convolve) {
  if (!scale_is_free(x)) return lrelu(convolve(layer.w()), layer.b());
  return modulated_act(
      convolve(layer.weight), {.bias = layer.b(), .scale = layer.scale * layer.lr}, leaky_relu());
}

Tensor conv_lrelu(const Tensor& x, const Equalised& layer) {
  const int64_t padding = layer.weight.size(2) / 2;
  return convolved_lrelu(x, layer, [&](const Tensor& weight) {
    return autocast_conv2d(x, weight, {}, {.padding = {padding, padding}});
  });
}

void initialise_equalised(torch::nn::Module& network, const std::string& player, uint64_t seed) {
  const torch::NoGradGuard no_grad;
  for (const auto& item : network.named_modules(/*name_prefix=*/"", /*include_self=*/false)) {
    const auto* layer = dynamic_cast<const Equalised*>(item.value().get());
    if (layer == nullptr) continue;
    const std::string purpose = "init/" + player + "/" + item.key() + ".weight";
    const Tensor& weight = layer->weight;
    weight.copy_(normal_like(weight, seed, purpose) / layer->lr);
    if (layer->bias.defined()) layer->bias.zero_();
  }
}

}  // namespace gantrain

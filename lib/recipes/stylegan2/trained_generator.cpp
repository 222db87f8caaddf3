// SPDX-License-Identifier: Apache-2.0
#include "recipes/stylegan2/trained_generator.h"

#include "core/tensors.h"
#include "core/torch.h"
#include "gan/movable_input.h"
#include "nn/style/styles.h"
#include "recipes/stylegan2/generator.h"
#include "recipes/stylegan2/shape.h"
#include "util/error.h"
#include "util/text.h"

namespace gantrain::stylegan2 {

using at::Tensor;
using Tensors = std::map<std::string, Tensor>;

namespace {

constexpr int64_t kLatentsForMean = 8192;

// Pictures are made in float32: in half precision 8-bit values would differ.
GeneratorShape in_float32(GeneratorShape shape) {
  shape.synthesis.num_fp16_res = 0;
  return shape;
}

class TrainedGenerator final : public gantrain::Generator, public MovableInput {
 public:
  explicit TrainedGenerator(const GeneratorShape& shape)
      : net_(std::make_shared<stylegan2::Generator>(in_float32(shape))) {
    net_->eval();
  }

  std::shared_ptr<torch::nn::Module> network() override { return net_; }
  int64_t z_dim() const override { return mapping().z_dim; }
  int64_t classes() const override { return mapping().c_dim; }
  int64_t num_ws() const override { return net_->shape.num_ws(); }
  int64_t w_dim() const override { return mapping().w_dim; }
  bool has_noise() const override { return true; }

  Tensor images(const Tensor& z, const Tensor& labels, const SynthesisOptions& options) override {
    return synthesize(map(z, labels, options), options);
  }

  Tensor map(const Tensor& z, const Tensor& labels, const SynthesisOptions& options) override {
    const torch::AutoGradMode gradients(options.gradients);
    if (classes() > 0 && !labels.defined())
      fail(Exit::kUsage, "the network is conditional: one of its {} classes is needed", classes());
    const Tensor ws = for_all_layers(net_->mapping->forward(z, labels), num_ws());
    return truncated(ws, net_->mapping->w_avg, options.trunc, options.trunc_cutoff);
  }

  Tensor synthesize(const Tensor& ws, const SynthesisOptions& options) override {
    return synthesize_from(ws, {}, options);
  }

  bool rotates() const override { return false; }

  // The learned constant, of 4x4 pixels, is moved by bilinear interpolation; around it are zeros,
  // as its convolutions see them. All pictures of a call are moved alike.
  Tensor synthesize_moved(const Tensor& ws,
                          const Tensor& inverse,
                          const SynthesisOptions& options) override {
    const torch::NoGradGuard no_grad;
    const Tensor m = inverse.to(at::kCPU, at::kDouble).reshape({-1, 3, 3});
    const Tensor shift = m[0].narrow(1, 2, 1).clone();  // picture widths
    const Tensor turned = m - at::eye(3, m.options());
    if (turned.narrow(1, 0, 2).narrow(2, 0, 2).abs().max().item<double>() > 0 ||
        (m - m[0]).abs().max().item<double>() > 0)
      fail(Exit::kUsage,
           "the input of StyleGAN2 can be translated, all pictures alike, and no more");
    return synthesize_from(
        ws, moved_constant(shift[0].item<double>(), shift[1].item<double>()), options);
  }

  void load(const Tensors& tensors, const std::string& source) override {
    Tensors all = tensors;
    for (const auto& [name, fresh] : state_of(*net_)) {
      if (all.count(name) != 0) continue;
      if (ends_with(name, ".noise_const")) {
        all[name] = normal_like(fresh, 0, "init/G/" + name);
      } else if (ends_with(name, ".resample_filter") || ends_with(name, ".noise_strength") ||
                 name == "mapping.w_avg") {
        all[name] = fresh;
      }
    }
    load_into(*net_, all, source);
    if (tensors.count("mapping.w_avg") == 0) net_->mapping->w_avg.copy_(mean_w());
  }

 private:
  static NoiseInputs noise_of(const SynthesisOptions& options) {
    switch (options.noise) {
      case NoiseMode::kConst:
        return stored_noise();
      case NoiseMode::kRandom:
        return [seed = options.noise_seed](int64_t layer, const Size& size) {
          return normal(Stream(seed, "noise", static_cast<uint64_t>(layer)),
                        {0, 1, 1},
                        {1, size.height, size.width});
        };
      case NoiseMode::kNone:
        return no_noise();
    }
    throw std::logic_error("no such noise mode");
  }

  const MappingShape& mapping() const { return net_->shape.mapping; }

  Tensor synthesize_from(const Tensor& ws, const Tensor& start, const SynthesisOptions& options) {
    const torch::AutoGradMode gradients(options.gradients);
    const Tensor w = ws.to(net_->mapping->w_avg.options());
    return net_->synthesis->forward(w, noise_of(options), false, start).to(at::kFloat);
  }

  // The constant [C, h, w] looked up at each of its pixels' places plus (x, y) picture widths.
  Tensor moved_constant(double x, double y) const {
    const Tensor c = net_->synthesis->blocks.front()->constant.detach();
    const auto width = static_cast<double>(c.size(2)), height = static_cast<double>(c.size(1));
    const Tensor theta =
        at::tensor({1.0, 0.0, 2 * x, 0.0, 1.0, 2 * y * width / height}, c.options());
    const Tensor grid = at::affine_grid_generator(
        theta.reshape({1, 2, 3}), {1, c.size(0), c.size(1), c.size(2)}, /*align_corners=*/false);
    return at::grid_sampler(c.unsqueeze(0), grid, 0, 0, /*align_corners=*/false)[0];
  }

  Tensor mean_w() const {
    const torch::NoGradGuard no_grad;
    const Tensor z = normal(Stream(0, "w_avg"), {0, 1, kLatentsForMean}, {z_dim()});
    const Tensor labels =
        classes() > 0 ? torch::arange(kLatentsForMean).remainder(classes()) : Tensor();
    return net_->mapping->forward(z, labels).mean(0);
  }

  std::shared_ptr<stylegan2::Generator> net_;
};

}  // namespace

std::unique_ptr<gantrain::Generator> make_generator(const Json& model,
                                                    const Tensors& tensors,
                                                    const std::string& source) {
  return std::make_unique<TrainedGenerator>(generator_shape(model, tensors, source));
}

bool recognises(const Tensors& tensors) {
  return tensors.count("synthesis.b4.const") != 0 && tensors.count("mapping.fc0.weight") != 0;
}

}  // namespace gantrain::stylegan2

// SPDX-License-Identifier: Apache-2.0
#include "recipes/stylegan1/trained_generator.h"

#include "core/torch.h"
#include "gan/model_json.h"
#include "gan/synthesis_options.h"
#include "nn/style/styles.h"

namespace gantrain::stylegan1 {

using at::Tensor;

namespace {

class TrainedGenerator final : public gantrain::Generator {
 public:
  explicit TrainedGenerator(const Shape& shape)
      : net_(std::make_shared<stylegan1::Generator>(shape)) {
    net_->eval();
  }

  std::shared_ptr<torch::nn::Module> network() override { return net_; }
  int64_t z_dim() const override { return net_->shape.net.latent_size; }
  int64_t classes() const override { return net_->shape.label_size; }
  int64_t num_ws() const override { return net_->num_ws(); }
  int64_t w_dim() const override { return net_->shape.net.dlatent_size; }
  bool has_noise() const override { return true; }
  std::vector<int64_t> levels() const override { return levels_up_to(net_->shape.resolution); }

  Tensor images(const Tensor& z, const Tensor& labels, const SynthesisOptions& options) override {
    return synthesize(map(z, labels, options), options);
  }

  Tensor map(const Tensor& z, const Tensor& labels, const SynthesisOptions& options) override {
    const torch::AutoGradMode gradients(options.gradients);
    const Tensor classes = labels.defined() ? labels.to(average().device()) : labels;
    const Tensor w = net_->mapping->forward(z.to(average().options()), classes);
    return truncated(for_all_layers(w, num_ws()), average(), options.trunc, options.trunc_cutoff)
        .to(torch::kFloat);
  }

  Tensor synthesize(const Tensor& ws, const SynthesisOptions& options) override {
    const torch::AutoGradMode gradients(options.gradients);
    TORCH_CHECK(ws.dim() == 3 && ws.size(1) == num_ws() && ws.size(2) == w_dim(),
                "latents of the layers are [N, ",
                num_ws(),
                ", ",
                w_dim(),
                "], not ",
                ws.sizes());
    const Level level{level_of(options, levels()), options.alpha};
    const NoiseInputs noise = noise_of(options, ws.size(0));
    return net_->synthesis->forward(ws.to(average().options()), level, noise).to(torch::kFloat);
  }

 private:
  const Tensor& average() const { return net_->dlatent_avg; }

  NoiseInputs noise_of(const SynthesisOptions& options, int64_t count) const {
    switch (options.noise) {
      case NoiseMode::kConst:
        return stored_noise();
      case NoiseMode::kRandom:
        return drawn_noise(make_draw_key(options.noise_seed, 0, 0, average().device()),
                           {0, 1, count},
                           average().options());
      case NoiseMode::kNone:
        return no_noise();
    }
    throw std::logic_error("no such noise mode");
  }

  std::shared_ptr<stylegan1::Generator> net_;
};

}  // namespace

Json model_of(const Shape& shape) { return model_json("stylegan1", shape); }

std::unique_ptr<gantrain::Generator> make_generator(const Json& model,
                                                    const std::map<std::string, Tensor>& tensors,
                                                    const std::string& source) {
  Shape shape = generator_shape(tensors, source);
  read_model(model, source, shape);
  return std::make_unique<TrainedGenerator>(shape);
}

bool recognises(const std::map<std::string, Tensor>& tensors) {
  return tensors.count("mapping.Dense0.weight") != 0 &&
         tensors.count("synthesis.4x4.Const.const") != 0;
}

}  // namespace gantrain::stylegan1

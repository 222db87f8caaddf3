// SPDX-License-Identifier: Apache-2.0
#include "recipes/pggan/trained_generator.h"

#include "core/torch.h"
#include "gan/model_json.h"
#include "gan/synthesis_options.h"

namespace gantrain::pggan {

using at::Tensor;

namespace {

class TrainedGenerator final : public gantrain::Generator {
 public:
  explicit TrainedGenerator(const Shape& shape) : net_(std::make_shared<pggan::Generator>(shape)) {
    net_->eval();
  }

  std::shared_ptr<torch::nn::Module> network() override { return net_; }
  int64_t z_dim() const override { return net_->shape.net.latent_size; }
  std::vector<int64_t> levels() const override { return levels_up_to(net_->shape.resolution); }

  Tensor images(const Tensor& z,
                const Tensor& /*labels*/,
                const SynthesisOptions& options) override {
    const torch::AutoGradMode gradients(options.gradients);
    const Level level{level_of(options, levels()), options.alpha};
    const Tensor parameter = net_->parameters()[0];
    return net_->forward(z.to(parameter.options()), level).to(torch::kFloat);
  }

 private:
  std::shared_ptr<pggan::Generator> net_;
};

}  // namespace

Json model_of(const Shape& shape) { return model_json("pggan", shape); }

std::unique_ptr<gantrain::Generator> make_generator(const Json& model,
                                                    const std::map<std::string, Tensor>& tensors,
                                                    const std::string& source) {
  Shape shape = generator_shape(tensors, source);
  read_model(model, source, shape);
  return std::make_unique<TrainedGenerator>(shape);
}

bool recognises(const std::map<std::string, Tensor>& tensors) {
  return tensors.count("4x4.Dense.weight") != 0 && tensors.count("ToRGB_lod0.weight") != 0;
}

}  // namespace gantrain::pggan

// SPDX-License-Identifier: Apache-2.0
#include "recipes/stylegan3/trained_generator.h"

#include "core/tensors.h"
#include "core/torch.h"
#include "gan/movable_input.h"
#include "nn/style/styles.h"
#include "recipes/stylegan3/generator.h"
#include "recipes/stylegan3/shape.h"
#include "util/error.h"
#include "util/text.h"

namespace gantrain::stylegan3 {

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
      : net_(std::make_shared<stylegan3::Generator>(in_float32(shape))) {
    net_->eval();
  }

  std::shared_ptr<torch::nn::Module> network() override { return net_; }
  int64_t z_dim() const override { return mapping().z_dim; }
  int64_t classes() const override { return mapping().c_dim; }
  int64_t num_ws() const override { return net_->shape.num_ws(); }
  int64_t w_dim() const override { return mapping().w_dim; }
  bool rotates() const override { return true; }

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
    return synthesize_moved(ws, {}, options);
  }

  Tensor synthesize_moved(const Tensor& ws,
                          const Tensor& inverse,
                          const SynthesisOptions& options) override {
    const torch::AutoGradMode gradients(options.gradients);
    const Tensor w = ws.to(net_->mapping->w_avg.options());
    return net_->synthesis->forward(w, nullptr, inverse).to(at::kFloat);
  }

  void load(const Tensors& tensors, const std::string& source) override {
    Tensors all = tensors;
    for (const auto& [name, fresh] : state_of(*net_)) {
      if (ends_with(name, "_filter") || name == "synthesis.input.transform" ||
          name == "mapping.w_avg")
        all.emplace(name, fresh);
    }
    load_into(*net_, all, source);
    if (tensors.count("mapping.w_avg") == 0) net_->mapping->w_avg.copy_(mean_w());
  }

 private:
  const MappingShape& mapping() const { return net_->shape.mapping; }

  Tensor mean_w() const {
    const torch::NoGradGuard no_grad;
    const Tensor z = normal(Stream(0, "w_avg"), {0, 1, kLatentsForMean}, {z_dim()});
    const Tensor labels =
        classes() > 0 ? torch::arange(kLatentsForMean).remainder(classes()) : Tensor();
    return net_->mapping->forward(z, labels).mean(0);
  }

  std::shared_ptr<stylegan3::Generator> net_;
};

}  // namespace

std::unique_ptr<gantrain::Generator> make_generator(const Json& model,
                                                    const Tensors& tensors,
                                                    const std::string& source) {
  return std::make_unique<TrainedGenerator>(generator_shape(model, tensors, source));
}

bool recognises(const Tensors& tensors) {
  return tensors.count("synthesis.input.freqs") != 0 && tensors.count("mapping.fc0.weight") != 0;
}

}  // namespace gantrain::stylegan3

// SPDX-License-Identifier: Apache-2.0
#include "recipes/pggan/recipe.h"

#include "core/tensors.h"
#include "core/torch.h"
#include "gan/growing_recipe.h"
#include "gan/synthesis_options.h"
#include "ops/losses.h"
#include "util/error.h"
#include "util/text.h"

namespace gantrain::pggan {

using at::Tensor;

DiscriminatorLoss d_loss(const Discriminate& D,
                         const Tensor& real,
                         const Tensor& fake,
                         const Tensor& t,
                         const DeviceNumber& gp_weight,
                         const LossOptions& options,
                         int64_t resolution) {
  const double scale = gradient_scale(options.gp_size, real.size(3), resolution);
  const WganGp how{gp_weight, options.gp_target, options.drift, scale};
  return wgan_gp_d(D, real, fake, t, how);
}

Tensor g_loss(const Tensor& fake_scores) { return wasserstein_g(fake_scores); }

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
    const StageLevel level{level_of(options, levels()), options.alpha};
    const Tensor parameter = net_->parameters()[0];
    return net_->forward(z.to(parameter.options()), level).to(torch::kFloat);
  }

 private:
  std::shared_ptr<pggan::Generator> net_;
};

// What `model` says, and what it leaves to the tensors.
Shape whole_shape(const Json& model,
                  const std::map<std::string, Tensor>& tensors,
                  const std::string& source) {
  Shape shape = generator_shape(tensors, source);
  read_model(model, source, shape);
  return shape;
}

}  // namespace

Json model_of(const Shape& shape) { return model_json("pggan", shape); }

std::unique_ptr<gantrain::Generator> make_generator(const Json& model,
                                                    const std::map<std::string, Tensor>& tensors,
                                                    const std::string& source) {
  return std::make_unique<TrainedGenerator>(whole_shape(model, tensors, source));
}

bool recognises(const std::map<std::string, Tensor>& tensors) {
  return tensors.count("4x4.Dense.weight") != 0 && tensors.count("ToRGB_lod0.weight") != 0;
}

namespace {

void refuse_labels(const Json& config, const std::string& source) {
  if (config.contains("label_size") && config["label_size"] != 0)
    fail(Exit::kInput,
         "{}: label_size = {}; PGGAN has no labels here",
         source,
         config["label_size"].dump());
}

}  // namespace

TfLayout layout_of(const std::string& variable, const Tensor& value) {
  if (value.dim() == 2) return TfLayout::kDense;
  if (value.dim() != 4) return TfLayout::kSame;
  return ends_with(variable, "Conv0_up/weight") ? TfLayout::kTransposedConv : TfLayout::kConv;
}

ModelContent import_official(const TensorFile& file, const std::string& source) {
  for (const auto& [name, value] : file.tensors) {
    if (!starts_with(name, "G/") && !starts_with(name, "D/"))
      fail(Exit::kInput, "{}: tensor {} is no variable of G/ or D/", source, name);
  }
  const Json config = official_arguments(file, source);
  refuse_labels(config, source);
  const TensorMap generator = from_official(file.tensors, "G/", "", layout_of);
  Shape shape = generator_shape(generator, source);
  read_model(config, source, shape);
  const Generator net(shape);
  load_into(net, generator, source);
  ModelContent model{model_of(shape), from_official(file.tensors, "D/", "D.", layout_of)};
  for (const auto& [name, value] : state_of(net)) model.tensors[name] = value.detach();
  for (const auto& [name, value] : generator) {
    // "lod" is the official networks' growth level, a counter that is no weight.
    if (name != "lod" && model.tensors.count(name) == 0)
      fail(Exit::kInput, "{}: tensor G/{} is none of this network's", source, name);
  }
  model.tensors.erase("D.lod");
  return model;
}

TensorMap export_official(const TensorMap& tensors) {
  TensorMap generator, discriminator;
  for (const auto& [name, value] : tensors)
    (starts_with(name, "D.") ? discriminator : generator)[name] = value;
  TensorMap variables = to_official(generator, "", "G/", layout_of);
  variables.merge(to_official(discriminator, "D.", "D/", layout_of));
  return variables;
}

namespace {

Shape shape_of(const Options& o, const RecipeContext& c) {
  return {c.resolution.width, c.channels, o.net};
}

std::shared_ptr<Generator> make_network(const Options& o, const RecipeContext& c) {
  auto G = std::make_shared<Generator>(shape_of(o, c));
  initialise_equalised(*G, "G", c.seed);
  return G;
}

class PgGan final : public GrowingRecipe {
 public:
  explicit PgGan(const RecipeContext& context) : PgGan(context, context.config.read<Options>()) {}

  std::vector<DeviceNumber*> numbers() override { return {&alpha_, &gp_weight_}; }
  Json model() const override { return model_of(G_net_->shape); }

 private:
  PgGan(const RecipeContext& context, const Options& options)
      : PgGan(context, options, make_network(options, context)) {}
  PgGan(const RecipeContext& context, const Options& options, const std::shared_ptr<Generator>& G)
      : GrowingRecipe(context,
                      options.schedule,
                      {"G", G, options.G},
                      discriminator_shape(G->shape),
                      options.D),
        options_(options),
        latents_(options.net.latent_size, {}, context.device),
        G_net_(G),
        G_(G_player_, G) {
    follow_stage(G_player_, *G, stage_);
    gp_weight_ = on_device(options.loss.gp_weight,
                           at::TensorOptions().device(context.device).dtype(context.dtype));
  }

  Tensor pictures(const PhaseInput& in) { return G_(latents_.z(in), level()); }

  PhaseOutput d_loss(const PhaseInput& in) override {
    const Tensor fake = [&] {
      const torch::NoGradGuard no_grad;
      return pictures(in);
    }();
    const DiscriminatorLoss d = pggan::d_loss([&](const Tensor& x) { return D_(x, level()); },
                                              reals(in),
                                              fake,
                                              places(in),
                                              gp_weight_,
                                              options_.loss,
                                              resolution_);
    return {d.loss,
            {{"Loss/scores/real", d.real_scores},
             {"Loss/signs/real", d.real_scores.sign()},
             {"Loss/scores/fake", d.fake_scores},
             {"Loss/gradient_norm", d.interpolated_norms}}};
  }

  PhaseOutput g_loss(const PhaseInput& in) override {
    return {pggan::g_loss(D_(pictures(in), level()))};
  }

  Options options_;
  Latents latents_;
  std::shared_ptr<Generator> G_net_;
  Handle<Generator> G_;
  DeviceNumber gp_weight_;
};

}  // namespace

RecipeRow row() {
  RecipeRow row{facts()};
  row.make = make_recipe<PgGan>;
  row.make_generator = make_generator;
  row.recognises = recognises;
  row.import_official = import_official;
  row.whole_model = [](const Json& model,
                       const std::map<std::string, Tensor>& tensors,
                       const std::string& source) {
    return model_of(whole_shape(model, tensors, source));
  };
  return row;
}

}  // namespace gantrain::pggan

// SPDX-License-Identifier: Apache-2.0
#include "recipes/pggan/recipe.h"

#include "core/torch.h"
#include "gan/growing_recipe.h"
#include "nn/modules.h"
#include "ops/autocast.h"
#include "ops/norms/norms.h"
#include "ops/resample.h"
#include "util/text.h"

namespace gantrain::pggan {

Generator::Generator(const Shape& s) : shape(s) {
  check_level({s.resolution}, s.resolution);
  const FeatureMaps maps = s.maps();
  for (int64_t pixels = 4; pixels <= s.resolution; pixels *= 2) {
    const int64_t in = maps.at_pixels(pixels / 2), out = maps.at_pixels(pixels);
    const auto block = add_child<Block>(*this, block_name(pixels));
    if (pixels == 4) {
      // One bias for each of the 4x4 pixels' channels. The gain is sqrt(2) / 4.
      const Equalised::Shape dense{{out * 16, s.net.latent_size}, out, kHeGain / 4};
      block->first = add_child<Equalised>(*block, "Dense", dense);
      block->second = add_child<Equalised>(*block, "Conv", conv_shape(out, out, 3));
    } else {
      const char* up = s.net.fused_scale ? "Conv0_up" : "Conv0";
      block->first = add_child<Equalised>(*block, up, conv_shape(in, out, 3));
      block->second = add_child<Equalised>(*block, "Conv1", conv_shape(out, out, 3));
    }
    blocks_.push_back(block);
    rgb_.push_back(add_child<Equalised>(*this,
                                        rgb_name("ToRGB", s.resolution, pixels),
                                        conv_shape(out, s.num_channels, 1, /*gain=*/1)));
  }
}

Tensor Generator::forward(const Tensor& z, const StageLevel& level) {
  check_level(level, shape.resolution);
  // Pictures are float32 whatever the layers compute in.
  const auto picture_of = [&](size_t i, const Tensor& x) {
    const BlockScope named(rgb_name("ToRGB", shape.resolution, int64_t{4} << i));
    return conv(x, *rgb_[i]).to(rgb_[i]->weight.scalar_type());
  };
  Tensor x;
  {
    const BlockScope named(block_name(4));
    x = autocast_linear(pixel_norm(z), blocks_[0]->first->w());
    x = pixel_norm(lrelu(x.reshape({z.size(0), -1, 4, 4}), blocks_[0]->first->b()));
    x = pixel_norm(conv_lrelu(x, *blocks_[0]->second));
  }
  const auto top = static_cast<size_t>(doublings(level.pixels));
  Tensor below;
  for (size_t i = 1; i <= top; ++i) {
    if (i == top && level.fading()) below = nearest_up(picture_of(i - 1, x));
    const Block& block = *blocks_[i];
    const BlockScope named(block_name(int64_t{4} << i));
    x = pixel_norm(convolved_lrelu(
        x, *block.first, [&](const Tensor& weight) { return conv2d_up(x, weight); }));
    x = pixel_norm(conv_lrelu(x, *block.second));
  }
  const Tensor picture = picture_of(top, x);
  return below.defined() ? level.alpha.lerp(below, picture) : picture;
}

bool Generator::active(const std::string& parameter, int64_t pixels, bool fading) const {
  return is_active(parameter, shape.resolution, pixels, fading);
}

DiscriminatorShape discriminator_shape(const Shape& shape) {
  return {.resolution = shape.resolution,
          .num_channels = shape.num_channels,
          .maps = shape.maps(),
          .mbstd_group_size = kGrowingGroup,
          .fused_scale = shape.net.fused_scale};
}

Shape generator_shape(const Json& model, const TensorMap& tensors, const std::string& source) {
  const GeneratorTensors given{tensors, source, "a PGGAN generator"};
  Shape shape;
  shape.net.latent_size = given.size("4x4.Dense.weight", 2, 1);
  shape.net.fmap_max = given.size("4x4.Conv.weight", 4, 0);
  shape.resolution = 4;
  while (shape.resolution < 1024 && given.has(block_name(2 * shape.resolution) + ".Conv1.weight"))
    shape.resolution *= 2;
  const int64_t last = shape.resolution == 4
                           ? shape.net.fmap_max
                           : given.size(block_name(shape.resolution) + ".Conv1.weight", 4, 0);
  shape.net.fmap_base = last << (doublings(shape.resolution) + 1);
  shape.net.fused_scale = !given.has("8x8.Conv0.weight");
  shape.num_channels = given.size("ToRGB_lod0.weight", 4, 0);
  read_model(model, source, shape);
  return shape;
}

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

namespace {

class TrainedGenerator final : public NetworkGenerator<pggan::Generator> {
 public:
  using NetworkGenerator::NetworkGenerator;

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
};

}  // namespace

Json model_of(const Shape& shape) { return model_json("pggan", shape); }

TfLayout layout_of(const std::string& variable, const Tensor& value) {
  if (value.dim() == 2) return TfLayout::kDense;
  if (value.dim() != 4) return TfLayout::kSame;
  return ends_with(variable, "Conv0_up/weight") ? TfLayout::kTransposedConv : TfLayout::kConv;
}

ModelContent import_official(const TensorFile& file, const std::string& source) {
  for (const auto& [name, value] : file.tensors) {
    if (!starts_with(name, "G/") && !starts_with(name, "D/"))
      refuse_file(source, "tensor {} is no variable of G/ or D/", name);
  }
  const Json config = official_arguments(file, source);
  if (config.contains("label_size") && config["label_size"] != 0)
    refuse_file(source, "label_size = {}; PGGAN has no labels here", config["label_size"].dump());
  TensorMap all = from_official(file.tensors, "G/", "", layout_of);
  all.merge(from_official(file.tensors, "D/", "D.", layout_of));
  const Shape shape = generator_shape(config, all, source);
  return content_of_official(Generator(shape), model_of(shape), all, source, "G/");
}

namespace {

std::shared_ptr<Generator> make_network(const Options& o, const RecipeContext& c) {
  auto G = std::make_shared<Generator>(Shape{c.resolution.width, c.channels, o.net});
  initialise_equalised(*G, "G", c.seed);
  return G;
}

class PgGan final : public GrowingRecipe {
 public:
  explicit PgGan(const RecipeContext& context) : PgGan(context, context.config.read<Options>()) {}

  std::vector<DeviceNumber*> numbers() override { return {&alpha_, &gp_weight_}; }
  Json model() const override { return model_of(G_->shape); }

 private:
  PgGan(const RecipeContext& context, const Options& options)
      : PgGan(context, options, make_network(options, context)) {}
  PgGan(const RecipeContext& context, const Options& options, const std::shared_ptr<Generator>& G)
      : GrowingRecipe(context,
                      options.schedule,
                      {"G", G, options.G},
                      discriminator_shape(G->shape),
                      options.D,
                      {options.net.latent_size, {}, context.device}),
        options_(options),
        G_(G_player_, G),
        gp_weight_(on_device(options.loss.gp_weight, context.tensors())) {
    follow_stage(G_player_, *G, stage_);
  }

  Tensor pictures(const PhaseInput& in, const Tensor& /*labels*/, Statistics& /*sums*/) override {
    return G_(latents_.z(in), level());
  }
  DiscriminatorLoss loss_of_D(const Discriminate& D,
                              const Tensor& real,
                              const Tensor& fake,
                              const PhaseInput& in) override {
    return pggan::d_loss(D, real, fake, places(in), gp_weight_, options_.loss, resolution_);
  }
  PhaseOutput loss_of_G(const Tensor& fake_scores) override { return {wasserstein_g(fake_scores)}; }

  Options options_;
  Handle<Generator> G_;
  DeviceNumber gp_weight_;
};

}  // namespace

RecipeRow row() {
  RecipeRow row = make_row<PgGan, TrainedGenerator, generator_shape, model_of>(facts());
  row.recognises = [](const TensorMap& tensors) {
    return tensors.count("4x4.Dense.weight") != 0 && tensors.count("ToRGB_lod0.weight") != 0;
  };
  row.import_official = import_official;
  return row;
}

}  // namespace gantrain::pggan

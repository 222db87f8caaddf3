// SPDX-License-Identifier: Apache-2.0
#include "recipes/dcgan/recipe.h"

#include <algorithm>

#include "core/torch.h"
#include "gan/phase.h"
#include "ops/losses.h"
#include "recipes/dcgan/networks.h"
#include "util/error.h"

namespace gantrain::dcgan {

using at::Tensor;

namespace {

Shape shape_of(const Options& o, const RecipeContext& c, bool generator) {
  Shape shape;
  shape.resolution = c.resolution;
  shape.image_channels = c.channels;
  shape.latent = o.latent;
  shape.channels = generator ? o.channels : o.d_channels;
  shape.norm = (generator ? o.g_norm : o.d_norm).value_or(o.norm);
  return shape;
}

class Dcgan final : public Recipe {
 public:
  explicit Dcgan(const RecipeContext& context)
      : options_(context.config.read<Options>()),
        G_net_(std::make_shared<Generator>(shape_of(options_, context, true))),
        D_net_(std::make_shared<Discriminator>(shape_of(options_, context, false))),
        G_player_{"G", G_net_, options_.G},
        D_player_{"D", D_net_, options_.D},
        G_(G_player_, G_net_),
        D_(D_player_, D_net_) {
    facts().check_resolution(context.resolution);
    for (const Player* player : {&G_player_, &D_player_}) {
      initialise(*player->network, player->name, context.seed);
      to_device(*player->network, context.device, context.dtype);
      player->network->train();
    }
    gp_weight_ =
        on_device(options_.gp_weight, at::TensorOptions(context.device).dtype(context.dtype));
    phases_ = alternating_phases(
        D_player_,
        [this](const PhaseInput& in) { return d_loss(in); },
        G_player_,
        [this](const PhaseInput& in) { return g_loss(in); });
    phases_[1].continues = true;  // G improves the pictures that D has just judged
  }

  std::vector<Player*> players() override { return {&G_player_, &D_player_}; }
  const std::vector<Phase>& phases() const override { return phases_; }
  std::vector<DeviceNumber*> numbers() override { return {&gp_weight_}; }

  Json model() const override {
    const Shape& s = G_net_->shape;
    return {{"recipe", "dcgan"},
            {"z_dim", s.latent},
            {"img_resolution", Value<Size>::to_json(s.resolution)},
            {"img_channels", s.image_channels},
            {"channels", s.channels},
            {"norm", s.norm == Norm::kBatch ? "batch" : "none"}};
  }

 private:
  // D's phase and G's first one share z, as in pytorch/examples.
  Tensor z(const PhaseInput& in) const {
    const DrawKey key = in.key.of_phase(std::max<int64_t>(in.key.phase - 1, 0));
    return normal(key, "z", in.samples, {options_.latent}).to(in.real.options());
  }

  PhaseOutput d_loss(const PhaseInput& in) {
    const Tensor& x = in.real;
    PhaseOutput out;
    const Tensor made = [&] {  // D's phase moves neither G nor its running statistics
      const RunningStatisticsScope of_G(out.carried.running);
      return G_(z(in));
    }();
    if (in.continued) out.carried.tensors["pictures"] = made;
    const Tensor fake = made.detach();
    const Tensor real_scores = D_(x);
    const Tensor fake_scores = D_(fake);
    out.statistics = {{"Loss/scores/real", real_scores},
                      {"Loss/signs/real", real_scores.sign()},
                      {"Loss/scores/fake", fake_scores}};
    switch (options_.loss) {
      case Loss::kLogistic:
        out.loss = logistic_d(real_scores, fake_scores);
        return out;
      case Loss::kLeastSquares:
        out.loss = least_squares_d(real_scores, fake_scores);
        return out;
      case Loss::kWassersteinGp:
        break;
    }
    const Tensor t = uniform(in.key.of_phase(0), "gp", in.samples, {1, 1, 1}).to(x.options());
    const Tensor penalty =
        gradient_penalty([this](const Tensor& between) { return D_(between); }, x, fake, t);
    out.statistics.emplace_back("Loss/gradient_penalty", penalty);
    out.loss = wasserstein_d(real_scores, fake_scores) + gp_weight_.times(penalty);
    return out;
  }

  PhaseOutput g_loss(const PhaseInput& in) {
    PhaseOutput out;
    const auto judged = in.carried.tensors.find("pictures");  // those that D's phase has scored
    const bool handed_over = judged != in.carried.tensors.end();
    if (handed_over) out.running = in.carried.running;
    const Tensor scores = D_(handed_over ? judged->second : G_(z(in)));
    switch (options_.loss) {
      case Loss::kLogistic:
        out.loss = logistic_g(scores);
        return out;
      case Loss::kLeastSquares:
        out.loss = least_squares_g(scores);
        return out;
      case Loss::kWassersteinGp:
        out.loss = wasserstein_g(scores);
        return out;
    }
    throw std::logic_error("no such loss");
  }

  Options options_;
  std::shared_ptr<Generator> G_net_;
  std::shared_ptr<Discriminator> D_net_;
  Player G_player_, D_player_;
  Handle<Generator> G_;
  Handle<Discriminator> D_;
  DeviceNumber gp_weight_;
  std::vector<Phase> phases_;
};

class TrainedGenerator final : public gantrain::Generator {
 public:
  explicit TrainedGenerator(const Shape& shape) : net_(std::make_shared<dcgan::Generator>(shape)) {
    net_->eval();
  }

  std::shared_ptr<torch::nn::Module> network() override { return net_; }
  int64_t z_dim() const override { return net_->shape.latent; }

  Tensor images(const Tensor& z,
                const Tensor& /*labels*/,
                const SynthesisOptions& options) override {
    const torch::AutoGradMode gradients(options.gradients);
    return net_->forward(z.to(net_->convolutions[0]->weight.options())).to(torch::kFloat);
  }

 private:
  std::shared_ptr<dcgan::Generator> net_;
};

}  // namespace

RecipeRow row() {
  RecipeRow row{facts()};
  row.make = make_recipe<Dcgan>;
  row.make_generator = [](const Json&,
                          const std::map<std::string, Tensor>& tensors,
                          const std::string& source) -> std::unique_ptr<gantrain::Generator> {
    return std::make_unique<TrainedGenerator>(generator_shape(tensors, source));
  };
  row.recognises = [](const std::map<std::string, Tensor>& tensors) {
    const auto first = tensors.find("main.0.weight");
    return first != tensors.end() && first->second.dim() == 4 && first->second.size(2) >= 4;
  };
  // Sizes that the file does not state are read off its tensors.
  row.whole_model = [](const Json&,
                       const std::map<std::string, Tensor>& tensors,
                       const std::string& source) -> Json {
    const Shape s = generator_shape(tensors, source);
    return {{"recipe", "dcgan"},
            {"z_dim", s.latent},
            {"img_resolution", Value<Size>::to_json(s.resolution)},
            {"img_channels", s.image_channels},
            {"channels", s.channels},
            {"norm", s.norm == Norm::kBatch ? "batch" : "none"}};
  };
  return row;
}

}  // namespace gantrain::dcgan

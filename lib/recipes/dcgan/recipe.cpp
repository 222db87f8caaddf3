// SPDX-License-Identifier: Apache-2.0
#include "recipes/dcgan/recipe.h"

#include <torch/torch.h>

#include "gan/alternating_phases.h"
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
      : context_(context),
        options_(context.config.read<Options>("")),
        G_net_(std::make_shared<Generator>(shape_of(options_, context, true))),
        D_net_(std::make_shared<Discriminator>(shape_of(options_, context, false))),
        G_player_{"G", G_net_, options_.G},
        D_player_{"D", D_net_, options_.D},
        G_(G_player_, G_net_),
        D_(D_player_, D_net_) {
    check_resolution(context.resolution);
    for (const Player* player : {&G_player_, &D_player_}) {
      initialise(*player->network, player->name, context.seed);
      move_to(*player->network, context.device, context.dtype);
      player->network->train();
    }
    phases_ = alternating_phases(
        D_player_,
        [this](const Batch& b, int64_t) { return d_loss(b); },
        G_player_,
        [this](const Batch& b, int64_t phase) { return g_loss(b, phase - 1); });
    phases_.front().records = &G_player_;
  }

  std::vector<Player*> players() override { return {&G_player_, &D_player_}; }
  std::vector<Phase>& phases() override { return phases_; }

  Json model() const override {
    const Shape& s = G_net_->shape;
    return {{"recipe", "dcgan"},
            {"z_dim", s.latent},
            {"img_resolution", s.resolution},
            {"img_channels", s.image_channels},
            {"channels", s.channels},
            {"norm", s.norm == Norm::kBatch ? "batch" : "none"}};
  }

 private:
  // D's phase and G's first one share z, as in pytorch/examples.
  Tensor z(const Batch& b, int64_t step = 0) const {
    const Stream stream(
        context_.seed, "z", static_cast<uint64_t>(b.iteration), static_cast<uint64_t>(step));
    return normal(stream, b.samples, {options_.latent}).to(b.real.options());
  }

  // For D's phase, which moves neither G nor its statistics.
  Tensor pictures_to_judge(const Batch& b) {
    const TrackingLater not_its_turn(*G_net_);
    const Tensor pictures = G_(z(b));
    if (pictures.requires_grad())
      judged_ = {b.iteration, b.samples.first, b.samples.stride, pictures};
    return pictures.detach();
  }

  // For G's phase: those that D has judged, if they are of the same z and their graph was recorded.
  Tensor pictures_to_improve(const Batch& b, int64_t step) {
    const Judged judged = std::exchange(judged_, {});
    const bool same = judged.pictures.defined() && judged.iteration == b.iteration && step == 0 &&
                      judged.first == b.samples.first && judged.stride == b.samples.stride;
    if (!same) return G_(z(b, step));
    track(*G_net_);
    return G_.again(judged.pictures);
  }

  Tensor d_loss(const Batch& b) {
    const Tensor& x = b.real;
    const Tensor fake = pictures_to_judge(b);
    const Tensor real_scores = D_(x);
    const Tensor fake_scores = D_(fake);
    context_.record("Loss/scores/real", real_scores);
    context_.record("Loss/signs/real", real_scores.sign());
    context_.record("Loss/scores/fake", fake_scores);
    switch (options_.loss) {
      case Loss::kLogistic:
        return logistic_d(real_scores, fake_scores);
      case Loss::kLeastSquares:
        return least_squares_d(real_scores, fake_scores);
      case Loss::kWassersteinGp:
        break;
    }
    const Stream stream(context_.seed, "gp", static_cast<uint64_t>(b.iteration));
    const Tensor t = uniform(stream, b.samples, {1, 1, 1}).to(x.options());
    const Tensor penalty =
        gradient_penalty([this](const Tensor& mixed) { return D_(mixed); }, x, fake, t);
    context_.record("Loss/gradient_penalty", penalty);
    return wasserstein_d(real_scores, fake_scores) + options_.gp_weight * penalty;
  }

  Tensor g_loss(const Batch& b, int64_t step) {
    const Tensor scores = D_(pictures_to_improve(b, step));
    switch (options_.loss) {
      case Loss::kLogistic:
        return logistic_g(scores);
      case Loss::kLeastSquares:
        return least_squares_g(scores);
      case Loss::kWassersteinGp:
        return wasserstein_g(scores);
    }
    throw std::logic_error("no such loss");
  }

  struct Judged {
    int64_t iteration = 0;
    int64_t first = 0, stride = 0;  // of Batch::samples
    Tensor pictures;
  };

  RecipeContext context_;
  Options options_;
  std::shared_ptr<Generator> G_net_;
  std::shared_ptr<Discriminator> D_net_;
  Player G_player_, D_player_;
  Handle<Generator> G_;
  Handle<Discriminator> D_;
  std::vector<Phase> phases_;
  Judged judged_;  // between D's phase and G's
};

class TrainedGenerator final : public gantrain::Generator {
 public:
  explicit TrainedGenerator(const Shape& shape) : net_(std::make_shared<dcgan::Generator>(shape)) {
    net_->eval();
  }

  std::shared_ptr<torch::nn::Module> network() override { return net_; }
  int64_t z_dim() const override { return net_->shape.latent; }

  Tensor images(const Tensor& z, const Tensor& /*labels*/, const SynthesisOptions& /*options*/) override {
    const torch::NoGradGuard no_grad;
    return net_->forward(z.to(net_->convolutions[0]->weight.options())).to(torch::kFloat);
  }

 private:
  std::shared_ptr<dcgan::Generator> net_;
};

}  // namespace

RecipeRow row() {
  RecipeRow row;
  row.name = "dcgan";
  row.make = [](const RecipeContext& context) -> std::unique_ptr<Recipe> {
    return std::make_unique<Dcgan>(context);
  };
  row.make_generator = [](const Json&,
                          const std::map<std::string, Tensor>& tensors,
                          const std::string& source) -> std::unique_ptr<gantrain::Generator> {
    return std::make_unique<TrainedGenerator>(generator_shape(tensors, source));
  };
  row.recognises = [](const std::map<std::string, Tensor>& tensors) {
    const auto first = tensors.find("main.0.weight");
    return first != tensors.end() && first->second.dim() == 4 && first->second.size(2) == 4;
  };
  return row;
}

}  // namespace gantrain::dcgan

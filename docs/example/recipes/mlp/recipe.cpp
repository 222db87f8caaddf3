// SPDX-License-Identifier: Apache-2.0
#include "recipes/mlp/recipe.h"

#include "core/torch.h"
#include "gan/model_json.h"
#include "nn/modules.h"
#include "ops/autocast.h"
#include "ops/losses.h"
#include "recipes/mlp/options.h"

namespace gantrain::mlp {

namespace {

// The sizes of a generator: what a model file says of itself.
struct Shape {
  int64_t z_dim = 64;
  int64_t width = 256;
  Size img_resolution = {32, 32};
  int64_t img_channels = 3;
};

template <class Field>
void fields(Shape& s, Field&& field) {
  field("z_dim", s.z_dim, between(1, 65536), "length of z");
  field("width", s.width, between(1, 65536), "units of each hidden layer");
  field("img_resolution", s.img_resolution, "pixels");
  field("img_channels", s.img_channels, between(1, 4), "channels");
}

// x [N, in] -> [N, out].
struct Linear final : torch::nn::Module {
  Linear(int64_t in, int64_t out)
      : weight(register_parameter("weight", torch::zeros({out, in}))),
        bias(register_parameter("bias", torch::zeros({out}))) {}
  Tensor weight, bias;
};

// Two hidden layers: x [N, in] -> [N, out].
struct Mlp final : torch::nn::Module {
  Mlp(int64_t in, int64_t width, int64_t out)
      : layers{add_child<Linear>(*this, "0", in, width),
               add_child<Linear>(*this, "1", width, width),
               add_child<Linear>(*this, "2", width, out)} {}

  Tensor forward(Tensor x) {
    for (const auto& layer : layers) {
      x = autocast_linear(x, layer->weight, layer->bias);
      if (layer != layers.back()) x = torch::leaky_relu(x, 0.2);
    }
    return x.to(layers[0]->weight.scalar_type());
  }

  std::vector<std::shared_ptr<Linear>> layers;
};

// z [N, z_dim] -> pictures [N, C, H, W] in [-1, 1].
struct Generator final : torch::nn::Module {
  explicit Generator(const Shape& s) : shape(s) {
    const int64_t pixels = s.img_channels * s.img_resolution.pixels();
    mlp = add_child<Mlp>(*this, "mlp", s.z_dim, s.width, pixels);
  }

  Tensor forward(const Tensor& z) {
    const Size size = shape.img_resolution;
    return torch::tanh(mlp->forward(z)).reshape({-1, shape.img_channels, size.height, size.width});
  }

  Shape shape;
  std::shared_ptr<Mlp> mlp;
};

// x [N, C, H, W] -> logits [N].
struct Discriminator final : torch::nn::Module {
  explicit Discriminator(const Shape& s) {
    const int64_t pixels = s.img_channels * s.img_resolution.pixels();
    mlp = add_child<Mlp>(*this, "mlp", pixels, s.width, 1);
  }
  Tensor forward(const Tensor& x) { return mlp->forward(x.flatten(1)).squeeze(1); }

  std::shared_ptr<Mlp> mlp;
};

// Weights from N(0, 2 / inputs) (He et al. 2015); biases are 0. Each tensor has a stream of its
// own, so the weights depend on the seed alone.
void initialise(torch::nn::Module& network, const std::string& player, uint64_t seed) {
  const torch::NoGradGuard no_grad;
  for (const auto& item : network.named_parameters()) {
    const Tensor& p = item.value();
    if (p.dim() < 2) continue;
    const double gain = std::sqrt(2.0 / static_cast<double>(p.size(1)));
    p.copy_(gain * normal_like(p, seed, "init/" + player + "/" + item.key()));
  }
}

Json model_of(const Shape& shape) { return model_json("mlp", shape); }

Shape shape_of(const Json& model, const TensorMap&, const std::string& source) {
  Shape shape;
  read_model(model, source, shape);
  return shape;
}

Shape shape_in(const Options& o, const RecipeContext& c) {
  return {o.latent, o.width, c.resolution, c.channels};
}

class MlpGan final : public Recipe {
 public:
  explicit MlpGan(const RecipeContext& context)
      : options_(context.config.read<Options>()),
        G_net_(std::make_shared<Generator>(shape_in(options_, context))),
        D_net_(std::make_shared<Discriminator>(G_net_->shape)),
        G_player_{"G", G_net_, options_.G},
        D_player_{"D", D_net_, options_.D},
        G_(G_player_, G_net_),
        D_(D_player_, D_net_) {
    initialise(*G_net_, "G", context.seed);
    initialise(*D_net_, "D", context.seed);
    begin_training({&G_player_, &D_player_}, context);
    phases_ = alternating_phases(
        D_player_,
        [this](const PhaseInput& in) { return d_loss(in); },
        G_player_,
        [this](const PhaseInput& in) { return g_loss(in); });
  }

  std::vector<Player*> players() override { return {&G_player_, &D_player_}; }
  const std::vector<Phase>& phases() const override { return phases_; }
  Json model() const override { return model_of(G_net_->shape); }

 private:
  Tensor z(const PhaseInput& in) const {
    return normal(in.key, "z", in.samples, {options_.latent}).to(in.real.options());
  }

  // -E[log s(D(x))] - E[log(1 - s(D(G(z))))]: Goodfellow et al. 2014, eq. 1.
  PhaseOutput d_loss(const PhaseInput& in) {
    const Tensor fake = without_graph([&] { return G_(z(in)); });
    const Tensor real_scores = D_(in.real), fake_scores = D_(fake);
    PhaseOutput out;
    out.loss = logistic_d(real_scores, fake_scores);
    out.statistics = {{"Loss/scores/real", real_scores}, {"Loss/scores/fake", fake_scores}};
    return out;
  }

  // -E[log s(D(G(z)))]: sec. 3.
  PhaseOutput g_loss(const PhaseInput& in) {
    PhaseOutput out;
    out.loss = logistic_g(D_(G_(z(in))));
    return out;
  }

  Options options_;
  std::shared_ptr<Generator> G_net_;
  std::shared_ptr<Discriminator> D_net_;
  Player G_player_, D_player_;
  Handle<Generator> G_;
  Handle<Discriminator> D_;
  std::vector<Phase> phases_;
};

// What draws from a model file.
class TrainedGenerator final : public NetworkGenerator<mlp::Generator> {
 public:
  using NetworkGenerator::NetworkGenerator;

  int64_t z_dim() const override { return net_->shape.z_dim; }

  Tensor images(const Tensor& z, const Tensor& /*labels*/, const SynthesisOptions& o) override {
    const torch::AutoGradMode gradients(o.gradients);
    return net_->forward(z.to(net_->mlp->layers[0]->weight.options())).to(torch::kFloat);
  }
};

}  // namespace

RecipeRow row() {
  RecipeRow row = make_row<MlpGan, TrainedGenerator, shape_of, model_of>(facts());
  row.recognises = [](const TensorMap&) { return false; };  // its files say what they are
  return row;
}

}  // namespace gantrain::mlp

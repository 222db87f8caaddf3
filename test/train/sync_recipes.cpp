// SPDX-License-Identifier: Apache-2.0
#include "sync_recipes.h"

#include <torch/torch.h>

namespace gantrain {

namespace {

using at::Tensor;

constexpr int64_t kZ = 5;
constexpr int64_t kPixels = 3 * 8 * 8;

Tensor some_weights(at::IntArrayRef shape, double phase) {
  int64_t count = 1;
  for (const int64_t n : shape) count *= n;
  return 0.3 * torch::sin(torch::arange(count, at::kFloat) * 1.7 + phase).reshape(shape);
}

struct Matrix final : torch::nn::Module {
  Matrix(int64_t inputs, int64_t outputs, double phase) {
    weight = register_parameter("weight", some_weights({inputs, outputs}, phase));
  }
  Tensor forward(const Tensor& x) { return torch::tanh(torch::matmul(x, weight)); }
  Tensor weight;
};

struct Noise final : torch::nn::Module {
  Tensor forward(const Tensor& x) { return x * 1.5; }
};

struct PartedG final : torch::nn::Module {
  PartedG() {
    mapping = register_module("mapping", std::make_shared<Matrix>(kZ, 6, 0));
    noise = register_module("noise", std::make_shared<Noise>());
    fixed = register_module("fixed", std::make_shared<Matrix>(6, 6, 1));
    fixed->weight.requires_grad_(false);
    synthesis = register_module("synthesis", std::make_shared<Matrix>(6, kPixels, 2));
  }
  std::shared_ptr<Matrix> mapping, fixed, synthesis;
  std::shared_ptr<Noise> noise;
};

struct EncodingD final : torch::nn::Module {
  EncodingD() {
    body = register_module("body", std::make_shared<Matrix>(kPixels, 7, 3));
    head = register_parameter("head", some_weights({7}, 4));
    bias = register_parameter("bias", torch::full({1}, 0.25));
  }
  Tensor forward(const Tensor& x) { return encode(x, 1).second; }
  // Features and scores.
  std::pair<Tensor, Tensor> encode(const Tensor& x, double gain) {
    const Tensor h = body->forward(x.flatten(1)) * gain;
    return {h, torch::matmul(h, head) + bias};
  }
  std::shared_ptr<Matrix> body;
  Tensor head, bias;
};

class Parts final : public Recipe {
 public:
  explicit Parts(const RecipeContext& c)
      : context_(c),
        G_net_(std::make_shared<PartedG>()),
        D_net_(std::make_shared<EncodingD>()),
        G_player_{"G", G_net_, c.config.read<PlayerOptions>("G.")},
        D_player_{"D", D_net_, c.config.read<PlayerOptions>("D.")},
        mapping_(G_player_, G_net_->mapping, "mapping"),
        fixed_(G_player_, G_net_->fixed, "fixed"),
        synthesis_(G_player_, G_net_->synthesis, "synthesis"),
        noise_(G_player_, G_net_->noise, "noise"),
        D_(D_player_, D_net_) {
    G_player_.parts = {"mapping", "noise", "fixed", "synthesis"};
    for (const Player* p : {&G_player_, &D_player_}) move_to(*p->network, c.device, c.dtype);
    phases_.push_back({"D", D_player_, 1, 0, [this](const Batch& b) { return d_loss(b); }});
    phases_.push_back({"D_r1", D_player_, 2, 1, [this](const Batch& b) { return penalty(b); }});
    phases_.push_back({"G", G_player_, 1, 0, [this](const Batch& b) {
                         return torch::softplus(-D_(fake(b))).mean();
                       }});
  }
  std::vector<Player*> players() override { return {&G_player_, &D_player_}; }
  std::vector<Phase>& phases() override { return phases_; }
  Json model() const override { return {{"recipe", "parts"}}; }

 private:
  Tensor fake(const Batch& b) {
    const Stream stream(context_.seed, "z", static_cast<uint64_t>(b.iteration));
    const Tensor z = normal(stream, b.samples, {kZ}).to(b.real.options());
    const Tensor w = noise_(mapping_(z));
    return synthesis_(w + fixed_(w)).reshape({-1, 3, 8, 8});
  }

  Tensor d_loss(const Batch& b) {
    const Tensor real = D_(b.real);
    const auto [features, scores] = D_.call(&EncodingD::encode, fake(b).detach(), 0.5);
    return torch::softplus(-real).mean() + torch::softplus(scores).mean() +
           0.1 * features.square().mean();
  }

  // R1 (Mescheder et al. 2018): its gradient leaves the bias out.
  Tensor penalty(const Batch& b) {
    const Tensor x = b.real.detach().clone().requires_grad_(true);
    const Tensor gradient = torch::autograd::grad({D_(x).sum()}, {x}, {}, true, true)[0];
    return gradient.square().sum({1, 2, 3}).mean();
  }

  RecipeContext context_;
  std::shared_ptr<PartedG> G_net_;
  std::shared_ptr<EncodingD> D_net_;
  Player G_player_, D_player_;
  Handle<Matrix> mapping_, fixed_, synthesis_;
  Handle<Noise> noise_;
  Handle<EncodingD> D_;
  std::vector<Phase> phases_;
};

// Residual blocks, of which those up to `level` are used.
struct GrowingNet final : torch::nn::Module {
  GrowingNet(int64_t inputs, int64_t width, int64_t outputs, double phase) {
    first = register_module("first", std::make_shared<Matrix>(inputs, width, phase));
    for (int64_t k = 1; k <= 2; ++k) {
      blocks.push_back(
          register_module("block" + std::to_string(k),
                          std::make_shared<Matrix>(width, width, phase + static_cast<double>(k))));
    }
    last = register_module("last", std::make_shared<Matrix>(width, outputs, phase + 3));
  }
  Tensor forward(const Tensor& x, int64_t level) {
    Tensor h = first->forward(x);
    for (int64_t k = 1; k <= level; ++k) h = h + blocks[static_cast<size_t>(k - 1)]->forward(h);
    return last->forward(h);
  }
  std::shared_ptr<Matrix> first, last;
  std::vector<std::shared_ptr<Matrix>> blocks;
};

class Growing final : public GrowingRecipe {
 public:
  Growing(const RecipeContext& c, bool promises, int64_t width)
      : context_(c),
        G_net_(std::make_shared<GrowingNet>(kZ, width, kPixels, 0)),
        D_net_(std::make_shared<GrowingNet>(kPixels, width, 1, 5)),
        G_player_{"G", G_net_, c.config.read<PlayerOptions>("G.")},
        D_player_{"D", D_net_, c.config.read<PlayerOptions>("D.")},
        G_(G_player_, G_net_),
        D_(D_player_, D_net_) {
    for (Player* p : {&G_player_, &D_player_}) {
      move_to(*p->network, c.device, c.dtype);
      p->active = [this](const std::string& name) {  // "block2.weight"
        return name.compare(0, 5, "block") != 0 || name[5] - '0' <= level;
      };
    }
    phases_.push_back({"D", D_player_, 1, 0, [this](const Batch& b) {
                         return torch::softplus(-D_(b.real.flatten(1), level)).mean() +
                                torch::softplus(D_(fake(b).detach(), level)).mean();
                       }});
    phases_.push_back({"G", G_player_, 1, 0, [this](const Batch& b) {
                         return torch::softplus(-D_(fake(b), level)).mean();
                       }});
    for (Phase& phase : phases_) phase.all_parameters_used = promises;
  }
  std::vector<Player*> players() override { return {&G_player_, &D_player_}; }
  std::vector<Phase>& phases() override { return phases_; }
  Json model() const override { return {{"recipe", "growing"}}; }

 private:
  Tensor fake(const Batch& b) {
    const Stream stream(context_.seed, "z", static_cast<uint64_t>(b.iteration));
    return G_(normal(stream, b.samples, {kZ}).to(b.real.options()), level);
  }

  RecipeContext context_;
  std::shared_ptr<GrowingNet> G_net_, D_net_;
  Player G_player_, D_player_;
  Handle<GrowingNet> G_, D_;
  std::vector<Phase> phases_;
};

}  // namespace

std::unique_ptr<Recipe> make_parts_recipe(const RecipeContext& context) {
  return std::make_unique<Parts>(context);
}

std::unique_ptr<GrowingRecipe> make_growing_recipe(const RecipeContext& context,
                                                   bool promises,
                                                   int64_t width) {
  return std::make_unique<Growing>(context, promises, width);
}

}  // namespace gantrain

// SPDX-License-Identifier: Apache-2.0
#include "train/step/sync_recipes.h"

#include "core/torch.h"
#include "gan/options.h"
#include "ops/draws/draws.h"
#include "support/step_setup.h"

namespace gantrain {

namespace {

using at::Tensor;

constexpr int64_t kZ = 5;
constexpr int64_t kPixels = 3 * 8 * 8;

struct PartsOptions {
  PlayerOptions G, D;
  int64_t d_interval = 1;
};
template <class Field>
void fields(PartsOptions& o, Field&& field) {
  field("G", o.G, "generator");
  field("D", o.D, "discriminator");
  field("parts.d_interval", o.d_interval, at_least(1), "iterations from one of D's main phases on");
}

struct GrowingOptions {
  PlayerOptions G, D;
  bool promises = true;
  int64_t width = 6;
};
template <class Field>
void fields(GrowingOptions& o, Field&& field) {
  field("G", o.G, "generator");
  field("D", o.D, "discriminator");
  field("growing.promises", o.promises, "its phases promise that all active parameters take part");
  field("growing.width", o.width, at_least(1), "features");
}

Tensor z(const PhaseInput& in) {
  return normal(in.key.of_phase(0), "z", in.samples, {kZ}).to(in.real.options());
}

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
  Parts(const RecipeContext& c, const PartsOptions& options)
      : G_net_(std::make_shared<PartedG>()),
        D_net_(std::make_shared<EncodingD>()),
        G_player_{"G", G_net_, options.G},
        D_player_{"D", D_net_, options.D},
        mapping_(G_player_, G_net_->mapping, "mapping"),
        fixed_(G_player_, G_net_->fixed, "fixed"),
        synthesis_(G_player_, G_net_->synthesis, "synthesis"),
        noise_(G_player_, G_net_->noise, "noise"),
        D_(D_player_, D_net_) {
    G_player_.parts = {"mapping", "noise", "fixed", "synthesis"};
    for (const Player* p : {&G_player_, &D_player_}) to_device(*p->network, c.device, c.dtype);
    phases_.push_back({"D",
                       D_player_,
                       [this](const PhaseInput& in) { return PhaseOutput{d_loss(in)}; },
                       {options.d_interval, 0}});
    phases_.push_back({"D_r1",
                       D_player_,
                       [this](const PhaseInput& in) { return PhaseOutput{penalty(in)}; },
                       {2, 1},
                       Role::kPenalty});
    phases_.push_back({"G", G_player_, [this](const PhaseInput& in) {
                         return PhaseOutput{torch::softplus(-D_(fake(in))).mean()};
                       }});
  }
  std::vector<Player*> players() override { return {&G_player_, &D_player_}; }
  const std::vector<Phase>& phases() const override { return phases_; }
  Json model() const override { return {{"recipe", "parts"}}; }

 private:
  Tensor fake(const PhaseInput& in) {
    const Tensor w = noise_(mapping_(z(in)));
    return synthesis_(w + fixed_(w)).reshape({-1, 3, 8, 8});
  }

  Tensor d_loss(const PhaseInput& in) {
    const Tensor real = D_(in.real);
    const auto [features, scores] = D_.call(&EncodingD::encode, fake(in).detach(), 0.5);
    return torch::softplus(-real).mean() + torch::softplus(scores).mean() +
           0.1 * features.square().mean();
  }

  // R1 (Mescheder et al. 2018): its gradient leaves the bias out.
  Tensor penalty(const PhaseInput& in) {
    const Tensor x = in.real.detach().clone().requires_grad_(true);
    const Tensor gradient = torch::autograd::grad({D_(x).sum()}, {x}, {}, true, true)[0];
    return gradient.square().sum({1, 2, 3}).mean();
  }

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

class Growing final : public Recipe {
 public:
  Growing(const RecipeContext& c, const GrowingOptions& options)
      : G_net_(std::make_shared<GrowingNet>(kZ, options.width, kPixels, 0)),
        D_net_(std::make_shared<GrowingNet>(kPixels, options.width, 1, 5)),
        G_player_{"G", G_net_, options.G},
        D_player_{"D", D_net_, options.D},
        G_(G_player_, G_net_),
        D_(D_player_, D_net_) {
    for (Player* p : {&G_player_, &D_player_}) {
      to_device(*p->network, c.device, c.dtype);
      p->active = [this](const std::string& name) {  // "block2.weight"
        return name.compare(0, 5, "block") != 0 || name[5] - '0' <= level_;
      };
    }
    phases_.push_back({"D", D_player_, [this](const PhaseInput& in) {
                         return PhaseOutput{
                             torch::softplus(-D_(in.real.flatten(1), level_)).mean() +
                             torch::softplus(D_(fake(in).detach(), level_)).mean()};
                       }});
    phases_.push_back({"G", G_player_, [this](const PhaseInput& in) {
                         return PhaseOutput{torch::softplus(-D_(fake(in), level_)).mean()};
                       }});
    for (Phase& phase : phases_) phase.all_parameters_used = options.promises;
  }
  std::vector<Player*> players() override { return {&G_player_, &D_player_}; }
  const std::vector<Phase>& phases() const override { return phases_; }
  const Schedule& schedule() const override { return schedule_; }
  void enter(const Stage& stage) override { level_ = stage.resolution / 8 - 1; }
  Json model() const override { return {{"recipe", "growing"}}; }

 private:
  Tensor fake(const PhaseInput& in) { return G_(z(in), level_); }

  // Stage n uses the blocks up to n; it is said by its resolution, 8, 16 or 24.
  Schedule schedule_{
      {{0, 1000, 8, false, 8}, {1000, 1000, 16, false, 8}, {2000, 1000, 24, false, 8}}};
  int64_t level_ = 0;
  std::shared_ptr<GrowingNet> G_net_, D_net_;
  Player G_player_, D_player_;
  Handle<GrowingNet> G_, D_;
  std::vector<Phase> phases_;
};

template <class Options>
const RecipeFacts& facts_of(const char* name) {
  static const RecipeFacts facts = [name] {
    RecipeFacts toy;
    toy.name = name;
    toy.add_keys = [](Schema& schema) { add_keys<Options>(schema); };
    return toy;
  }();
  return facts;
}
const RecipeFacts& parts_facts() { return facts_of<PartsOptions>("parts"); }
const RecipeFacts& growing_facts() { return facts_of<GrowingOptions>("growing"); }

using Tensors = std::map<std::string, Tensor>;

std::shared_ptr<torch::nn::Module> parted_G(const Tensors&) { return std::make_shared<PartedG>(); }
std::shared_ptr<torch::nn::Module> growing_G(const Tensors& tensors) {
  return std::make_shared<GrowingNet>(kZ, tensors.at("first.weight").size(1), kPixels, 0);
}

Config config_of(const RecipeFacts& facts, const std::map<std::string, Json>& changes) {
  std::map<std::string, Json> values = {{"data.resolution", 8}, {"train.batch", 8}};
  for (const auto& [key, value] : changes) values[key] = value;
  return step_config(facts, values);
}

}  // namespace

RecipeRow parts_row() {
  return row_of<parted_G>(parts_facts(), [](const RecipeContext& c) -> std::unique_ptr<Recipe> {
    return std::make_unique<Parts>(c, c.config.read<PartsOptions>());
  });
}

RecipeRow growing_row() {
  return row_of<growing_G>(growing_facts(), [](const RecipeContext& c) -> std::unique_ptr<Recipe> {
    return std::make_unique<Growing>(c, c.config.read<GrowingOptions>());
  });
}

Config parts_config(const std::map<std::string, Json>& changes) {
  return config_of(parts_facts(), changes);
}
Config growing_config(const std::map<std::string, Json>& changes) {
  return config_of(growing_facts(), changes);
}

}  // namespace gantrain

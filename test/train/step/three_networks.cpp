// SPDX-License-Identifier: Apache-2.0
#include "train/step/three_networks.h"

#include "core/torch.h"
#include "gan/options.h"
#include "gan/phase.h"
#include "ops/draws/draws.h"
#include "support/step_setup.h"

namespace gantrain {

namespace {

using at::Tensor;

constexpr int64_t kThreeZ = 5, kSide = 8, kCorner = 4;

struct ThreeOptions {
  PlayerOptions G, W, L;
  Scheduled gamma = 2;
};
template <class Field>
void fields(ThreeOptions& o, Field&& field) {
  field("G", o.G, "generator");
  field("W", o.W, "discriminator of whole pictures");
  field("L", o.L, "discriminator of corners");
  field("three.gamma", o.gamma, between(0, 1e6), "weight of R1");
}

Tensor weights_of_three(at::IntArrayRef shape, double phase) {
  int64_t count = 1;
  for (const int64_t n : shape) count *= n;
  return 0.3 * torch::sin(torch::arange(count, at::kFloat) * 1.3 + phase).reshape(shape);
}

struct Painter final : torch::nn::Module {
  Painter() {
    weight = register_parameter("weight", weights_of_three({kThreeZ, 3 * kSide * kSide}, 0));
  }
  Tensor forward(const Tensor& z) {
    return torch::tanh(torch::matmul(z, weight)).reshape({-1, 3, kSide, kSide});
  }
  Tensor weight;
};

struct Scorer final : torch::nn::Module {
  Scorer(int64_t side, double phase) {
    weight = register_parameter("weight", weights_of_three({3 * side * side, 6}, phase));
    head = register_parameter("head", weights_of_three({6}, phase + 1));
    bias = register_parameter("bias", torch::full({1}, 0.1));
  }
  Tensor forward(const Tensor& x) {
    return torch::matmul(torch::tanh(torch::matmul(x.flatten(1), weight)), head) + bias;
  }
  Tensor weight, head, bias;
};

Tensor corner(const Tensor& x) { return x.slice(2, 0, kCorner).slice(3, 0, kCorner); }

class ThreeNetworks final : public Recipe {
 public:
  ThreeNetworks(const RecipeContext& c, const ThreeOptions& options)
      : G_net_(std::make_shared<Painter>()),
        W_net_(std::make_shared<Scorer>(kSide, 2)),
        L_net_(std::make_shared<Scorer>(kCorner, 5)),
        G_player_{"G", G_net_, options.G},
        W_player_{"W", W_net_, options.W},
        L_player_{"L", L_net_, options.L},
        G_(G_player_, G_net_),
        W_(W_player_, W_net_),
        L_(L_player_, L_net_) {
    for (const Player* p : players()) to_device(*p->network, c.device, c.dtype);
    const auto like = at::TensorOptions(c.device).dtype(c.dtype);
    gamma_ = on_device(options.gamma, like);
    mean_sign_ = torch::zeros({}, like);
    phases_.push_back({"W", W_player_, [this](const PhaseInput& in) { return w_loss(in); }});
    phases_.push_back({"Wreg",
                       W_player_,
                       [this](const PhaseInput& in) { return penalty(in); },
                       {2, 0},
                       Role::kPenalty,
                       /*gain=*/2});
    phases_.push_back({"L", L_player_, [this](const PhaseInput& in) { return l_loss(in); }});
    phases_.push_back({"G", G_player_, [this](const PhaseInput& in) { return g_loss(in); }});
    for (Phase& phase : phases_) phase.all_parameters_used = phase.role == Role::kMain;
    phases_.back().continues = true;
  }

  std::vector<Player*> players() override { return {&G_player_, &W_player_, &L_player_}; }
  const std::vector<Phase>& phases() const override { return phases_; }
  std::vector<DeviceNumber*> numbers() override { return {&gamma_}; }
  std::vector<AllReducedSum> sums() override {
    return {{"signs",
             [this](const Tensor& sum) { mean_sign_.lerp_(sum[0] / sum[1], 0.25); },
             {mean_sign_}}};
  }
  Statistics end_iteration(int64_t) override {
    return {{"Progress/mean_sign", mean_sign_.clone()}};
  }
  NamedTensors state() override { return {{"mean_sign", mean_sign_}}; }
  Json model() const override { return {{"recipe", "three_networks"}}; }

 private:
  Tensor made(const PhaseInput& in) const {
    return G_(normal(in.key.of_phase(0), "z", in.samples, {kThreeZ}).to(in.real.options()));
  }

  PhaseOutput w_loss(const PhaseInput& in) {
    PhaseOutput out;
    const Tensor pictures = made(in), real = W_(in.real);
    out.loss = at::softplus(-real).mean() + at::softplus(W_(pictures.detach())).mean();
    out.statistics = {{"Loss/scores/real", real}};
    const Tensor sum = real.sign().sum();
    out.sums = {{"signs", torch::stack({sum, torch::full_like(sum, in.samples.count)})}};
    return out;
  }

  // R1 (Mescheder et al. 2018), which leaves W's bias out.
  PhaseOutput penalty(const PhaseInput& in) {
    const Tensor x = in.real.detach().clone().requires_grad_(true);
    const Tensor gradient = torch::autograd::grad({W_(x).sum()}, {x}, {}, true, true)[0];
    return {gamma_.times(gradient.square().sum({1, 2, 3}).mean(), 0.5)};
  }

  PhaseOutput l_loss(const PhaseInput& in) {
    PhaseOutput out;
    const Tensor pictures = made(in), fake = corner(pictures.detach());
    if (in.continued) out.carried.tensors["pictures"] = pictures;
    const Tensor loss = at::softplus(-L_(corner(in.real))).mean() + at::softplus(L_(fake)).mean();
    out.loss = loss * (1 + 0.1 * mean_sign_);
    return out;
  }

  PhaseOutput g_loss(const PhaseInput& in) {
    const auto judged = in.carried.tensors.find("pictures");
    const Tensor pictures = judged == in.carried.tensors.end() ? made(in) : judged->second;
    return {at::softplus(-W_(pictures)).mean() + at::softplus(-L_(corner(pictures))).mean()};
  }

  std::shared_ptr<Painter> G_net_;
  std::shared_ptr<Scorer> W_net_, L_net_;
  Player G_player_, W_player_, L_player_;
  Handle<Painter> G_;
  Handle<Scorer> W_, L_;
  DeviceNumber gamma_;
  Tensor mean_sign_;  // []
  std::vector<Phase> phases_;
};

const RecipeFacts& three_networks_facts() {
  static const RecipeFacts facts = [] {
    RecipeFacts toy;
    toy.name = "three_networks";
    toy.add_keys = [](Schema& schema) { add_keys<ThreeOptions>(schema); };
    return toy;
  }();
  return facts;
}

std::shared_ptr<torch::nn::Module> painter(const std::map<std::string, Tensor>&) {
  return std::make_shared<Painter>();
}

}  // namespace

RecipeRow three_networks_row() {
  return row_of<painter>(three_networks_facts(),
                         [](const RecipeContext& c) -> std::unique_ptr<Recipe> {
                           return std::make_unique<ThreeNetworks>(c, c.config.read<ThreeOptions>());
                         });
}

Config three_networks_config(const std::map<std::string, Json>& changes) {
  std::map<std::string, Json> values = {{"data.resolution", kSide}, {"train.batch", 8}};
  for (const auto& [key, value] : changes) values[key] = value;
  return step_config(three_networks_facts(), values);
}

}  // namespace gantrain

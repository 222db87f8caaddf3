// SPDX-License-Identifier: Apache-2.0
#include "train/step/toy_recipe.h"

#include "core/torch.h"
#include "gan/options.h"
#include "ops/autocast.h"
#include "support/step_setup.h"

namespace gantrain {

namespace {

constexpr int64_t kToyZ = 5;

struct ToyOptions {
  PlayerOptions G, D;
  bool hands_over = false;
  bool promises = false;
  bool ignores_z = false;
};
template <class Field>
void fields(ToyOptions& o, Field&& field) {
  field("G", o.G, "generator");
  field("D", o.D, "discriminator");
  field("toy.hands_over", o.hands_over, "D's phase hands its pictures over to G's");
  field("toy.promises", o.promises, "all parameters take part in all phases");
  field("toy.ignores_z", o.ignores_z, "G begins with weights of zero");
}

struct ToyG final : torch::nn::Module, HasRunningStatistics {
  explicit ToyG(int64_t side) : side(side) {
    weight = register_parameter(
        "weight", torch::linspace(-0.3, 0.4, kToyZ * 3 * side * side).reshape({kToyZ, -1}));
    count = register_buffer("running_mean", torch::zeros({2}));
  }
  at::Tensor forward(const at::Tensor& z) {
    if (is_training()) {
      const torch::NoGradGuard no_grad;
      RunningStatistics* noted = noted_running_statistics();
      (noted == nullptr ? count : noted->next(count)).add_(z.mean());
    }
    return torch::tanh(autocast_linear(z, weight.t())).reshape({-1, 3, side, side});
  }
  std::vector<std::string> running_statistics() const override { return {"running_mean"}; }
  int64_t side;
  at::Tensor weight, count;
};

struct ToyD final : torch::nn::Module {
  explicit ToyD(int64_t side) {
    weight = register_parameter("weight", torch::linspace(0.2, -0.2, 3 * side * side).unsqueeze(1));
    bias = register_parameter("bias", torch::zeros({1}));
  }
  at::Tensor forward(const at::Tensor& x) {
    return (autocast_linear(torch::tanh(x.flatten(1)), weight.t()) + bias).squeeze(1);
  }
  at::Tensor weight, bias;
};

at::Tensor flag(bool value) { return torch::full({1}, value ? 1.0 : 0.0); }

class Toy final : public ToyRecipe {
 public:
  explicit Toy(const RecipeContext& c)
      : options_(c.config.read<ToyOptions>()),
        resolution_(c.resolution.width),
        G_net_(std::make_shared<ToyG>(c.resolution.width)),
        D_net_(std::make_shared<ToyD>(c.resolution.width)),
        G_player_{"G", G_net_, options_.G},
        D_player_{"D", D_net_, options_.D},
        G_(G_player_, G_net_),
        D_(D_player_, D_net_) {
    if (options_.ignores_z) {
      const torch::NoGradGuard no_grad;
      G_net_->weight.zero_();
    }
    for (const Player* p : {&G_player_, &D_player_}) to_device(*p->network, c.device, c.dtype);
    mean_z_ = torch::zeros({kToyZ}, at::TensorOptions(c.device).dtype(c.dtype));
    phases_.push_back({"D", D_player_, [this](const PhaseInput& in) { return d_loss(in); }});
    phases_.push_back(
        {"G", G_player_, [this](const PhaseInput& in) { return g_loss(in); }, {2, 0}});
    for (Phase& phase : phases_) phase.all_parameters_used = options_.promises;
    phases_.back().continues = options_.hands_over;
  }

  std::vector<Player*> players() override { return {&G_player_, &D_player_}; }
  const std::vector<Phase>& phases() const override { return phases_; }
  std::vector<AllReducedSum> sums() override {
    return {{"mean_z",
             [this](const at::Tensor& sum) { mean_z_.copy_(sum.narrow(0, 0, kToyZ) / sum[kToyZ]); },
             {mean_z_}}};
  }
  NamedTensors state() override { return {{"mean_z", mean_z_}}; }
  Json model() const override { return {{"recipe", "toy"}, {"img_resolution", resolution_}}; }

 private:
  // Both phases share z.
  static at::Tensor z(const PhaseInput& in) {
    return normal(in.key.of_phase(0), "z", in.samples, {kToyZ}).to(in.real.options());
  }

  PhaseOutput d_loss(const PhaseInput& in) {
    PhaseOutput out;
    const at::Tensor made = [&] {  // D's phase does not move G's running mean
      const RunningStatisticsScope of_G(out.carried.running);
      return G_(z(in));
    }();
    const at::Tensor fake = made.detach(), real_scores = D_(in.real);
    out.loss = torch::softplus(-real_scores).mean() + torch::softplus(D_(fake)).mean();
    out.statistics = {{"Loss/scores/real", real_scores}};
    const at::Tensor count = torch::full({1}, in.samples.count, in.real.options());
    out.sums = {{"mean_z", torch::cat({z(in).sum(0), count})}};
    if (options_.hands_over)
      out.statistics.emplace_back("Toy/recorded", flag(made.requires_grad()));
    if (in.continued) {
      out.carried.tensors["pictures"] = made;
      handed_over.emplace(made.getIntrusivePtr());
    }
    return out;
  }

  PhaseOutput g_loss(const PhaseInput& in) {
    PhaseOutput out;
    const auto judged = in.carried.tensors.find("pictures");
    const bool taken = judged != in.carried.tensors.end();
    if (taken) out.running = in.carried.running;
    if (options_.hands_over) out.statistics = {{"Toy/taken", flag(taken)}};
    out.loss = torch::softplus(-D_(taken ? judged->second : G_(z(in)))).mean();
    return out;
  }

  ToyOptions options_;
  int64_t resolution_;
  std::shared_ptr<ToyG> G_net_;
  std::shared_ptr<ToyD> D_net_;
  Player G_player_, D_player_;
  Handle<ToyG> G_;
  Handle<ToyD> D_;
  at::Tensor mean_z_;  // of the last global batch
  std::vector<Phase> phases_;
};

class ToyGenerator final : public Generator {
 public:
  explicit ToyGenerator(int64_t side) : net_(std::make_shared<ToyG>(side)) { net_->eval(); }
  std::shared_ptr<torch::nn::Module> network() override { return net_; }
  int64_t z_dim() const override { return kToyZ; }
  at::Tensor images(const at::Tensor& z, const at::Tensor&, const SynthesisOptions&) override {
    const torch::NoGradGuard no_grad;
    return net_->forward(z.to(net_->weight.options())).to(at::kFloat);
  }

 private:
  std::shared_ptr<ToyG> net_;
};

const RecipeFacts& toy_facts() {
  static const RecipeFacts facts = [] {
    RecipeFacts toy;
    toy.name = "toy";
    toy.add_keys = [](Schema& schema) { add_keys<ToyOptions>(schema); };
    return toy;
  }();
  return facts;
}

}  // namespace

RecipeRow toy_row() {
  RecipeRow row{toy_facts()};
  row.make = [](const RecipeContext& c) -> std::unique_ptr<Recipe> {
    return std::make_unique<Toy>(c);
  };
  row.make_generator = [](const Json&,
                          const std::map<std::string, at::Tensor>& tensors,
                          const std::string&) -> std::unique_ptr<Generator> {
    const double side = std::sqrt(static_cast<double>(tensors.at("weight").size(1)) / 3);
    return std::make_unique<ToyGenerator>(static_cast<int64_t>(side + 0.5));
  };
  row.recognises = [](const std::map<std::string, at::Tensor>& tensors) {
    return tensors.count("running_mean") != 0;
  };
  return row;
}

Config toy_config(const std::map<std::string, Json>& changes) {
  std::map<std::string, Json> values = {{"data.resolution", 8},
                                        {"train.batch", 8},
                                        {"train.kimg", 0.08},
                                        {"save.every", 0.032},
                                        {"train.tick", 0.02},
                                        {"data.synth_size", 23},
                                        {"samples.columns", 2},
                                        {"samples.rows", 2},
                                        {"metrics.names", "none"},
                                        {"data.workers", 0},
                                        {"G.optimizer", "sgd"},
                                        {"D.optimizer", "sgd"}};
  for (const auto& [key, value] : changes) values[key] = value;
  return step_config(toy_facts(), values);
}

at::Tensor toy_pictures(int64_t count, int64_t iteration) {
  return torch::sin(torch::arange(count * 3 * 64, at::kFloat) * 0.37 +
                    static_cast<double>(iteration))
      .reshape({count, 3, 8, 8});
}

}  // namespace gantrain

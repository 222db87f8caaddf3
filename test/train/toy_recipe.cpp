// SPDX-License-Identifier: Apache-2.0
#include "toy_recipe.h"

#include <torch/torch.h>

#include "data/options.h"
#include "distributed/options.h"
#include "train/options.h"

namespace gantrain {

namespace {

constexpr int64_t kZ = 5;

struct ToyG final : torch::nn::Module {
  explicit ToyG(int64_t side) : side(side) {
    weight = register_parameter("weight",
                                torch::linspace(-0.3, 0.4, kZ * 3 * side * side).reshape({kZ, -1}));
    count = register_buffer("running_mean", torch::zeros({2}));
  }
  at::Tensor forward(const at::Tensor& z) {
    count.add_(is_training() ? z.mean().detach() : torch::zeros({}));
    return torch::tanh(torch::matmul(z, weight)).reshape({-1, 3, side, side});
  }
  int64_t side;
  at::Tensor weight, count;
};

struct ToyD final : torch::nn::Module {
  explicit ToyD(int64_t side) {
    weight = register_parameter("weight", torch::linspace(0.2, -0.2, 3 * side * side).unsqueeze(1));
    bias = register_parameter("bias", torch::zeros({1}));
  }
  at::Tensor forward(const at::Tensor& x) {
    return (torch::matmul(torch::tanh(x.flatten(1)), weight) + bias).squeeze(1);
  }
  at::Tensor weight, bias;
};

class Toy final : public Recipe {
 public:
  explicit Toy(const RecipeContext& c)
      : context_(c),
        G_net_(std::make_shared<ToyG>(c.resolution)),
        D_net_(std::make_shared<ToyD>(c.resolution)),
        G_player_{"G", G_net_, c.config.read<PlayerOptions>("G.")},
        D_player_{"D", D_net_, c.config.read<PlayerOptions>("D.")},
        G_(G_player_, G_net_),
        D_(D_player_, D_net_) {
    for (const Player* p : {&G_player_, &D_player_}) move_to(*p->network, c.device, c.dtype);
    const auto like = at::TensorOptions().device(c.device).dtype(c.dtype);
    mean_z_ = torch::zeros({kZ}, like);
    sum_.name = "mean_z";
    sum_.sum = torch::zeros({kZ + 1}, like);
    sum_.moved = [this](int64_t) { mean_z_.copy_(sum_.sum.narrow(0, 0, kZ) / sum_.sum[kZ]); };
    phases_.push_back(
        {"D", D_player_, 1, 0, [this](const Batch& b) {
           const at::Tensor fake = G_(z(b)).detach();
           sum_.sum.add_(torch::cat({z(b).sum(0), torch::full({1}, b.samples.count)}));
           context_.record("Loss/scores/real", D_(b.real));
           return torch::softplus(-D_(b.real)).mean() + torch::softplus(D_(fake)).mean();
         }});
    phases_.push_back({"G", G_player_, 2, 0, [this](const Batch& b) {
                         return torch::softplus(-D_(G_(z(b)))).mean();
                       }});
  }
  std::vector<Player*> players() override { return {&G_player_, &D_player_}; }
  std::vector<Phase>& phases() override { return phases_; }
  std::vector<Shared*> shared() override { return {&sum_}; }
  NamedTensors state() override { return {{"mean_z", mean_z_}}; }
  Json model() const override {
    return {{"recipe", "toy"}, {"img_resolution", context_.resolution}};
  }

 private:
  at::Tensor z(const Batch& b) const {
    return normal(Stream(context_.seed, "z", static_cast<uint64_t>(b.iteration)), b.samples, {kZ})
        .to(b.real.options());
  }
  RecipeContext context_;
  std::shared_ptr<ToyG> G_net_;
  std::shared_ptr<ToyD> D_net_;
  Player G_player_, D_player_;
  Handle<ToyG> G_;
  Handle<ToyD> D_;
  Shared sum_;
  at::Tensor mean_z_;  // of the last global batch
  std::vector<Phase> phases_;
};

class ToyGenerator final : public Generator {
 public:
  explicit ToyGenerator(int64_t side) : net_(std::make_shared<ToyG>(side)) { net_->eval(); }
  std::shared_ptr<torch::nn::Module> network() override { return net_; }
  int64_t z_dim() const override { return kZ; }
  at::Tensor images(const at::Tensor& z, const at::Tensor&, const SynthesisOptions&) override {
    const torch::NoGradGuard no_grad;
    return net_->forward(z.to(net_->weight.options())).to(at::kFloat);
  }

 private:
  std::shared_ptr<ToyG> net_;
};

}  // namespace

RecipeRow toy_row() {
  RecipeRow row;
  row.name = "toy";
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

namespace {
struct Header {
  std::string preset;
};
template <class Field>
void fields(Header& o, Field&& field) {
  field("preset", o.preset, "name");
}
}  // namespace

Config toy_config(const std::map<std::string, Json>& changes) {
  Schema schema;
  add_keys<Header>(schema, "");
  add_keys<TrainOptions>(schema, "train.");
  add_keys<DataOptions>(schema, "data.");
  add_keys<EmaOptions>(schema, "ema.");
  add_keys<DistOptions>(schema, "dist.");
  add_keys<RunOptions>(schema, "run.");
  add_keys<SaveOptions>(schema, "save.");
  add_keys<SampleOptions>(schema, "samples.");
  add_keys<MetricsOptions>(schema, "metrics.");
  add_keys<PlayerOptions>(schema, "G.");
  add_keys<PlayerOptions>(schema, "D.");
  Config config(schema);
  const std::map<std::string, Json> sizes = {{"data.resolution", 8},
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
  for (const auto& [key, value] : sizes) config.set(key, value, "test");
  for (const auto& [key, value] : changes) config.set(key, value, "test");
  return config;
}

at::Tensor toy_pictures(int64_t count, int64_t iteration) {
  return torch::sin(torch::arange(count * 3 * 64, at::kFloat) * 0.37 +
                    static_cast<double>(iteration))
      .reshape({count, 3, 8, 8});
}

}  // namespace gantrain

// SPDX-License-Identifier: Apache-2.0
// Steps of D with the run's own optimizer against the reference's: three times the logistic loss,
// and the loss in turn with R1.
#include <catch2/catch.hpp>

#include "ops/losses.h"
#include "ops/penalties.h"
#include "recipes/stylegan2/networks.h"
#include "train/optimizer.h"

using namespace gantrain;
using namespace gantrain::stylegan2;

namespace {

double norm_of(const Tensor& t) { return t.to(at::kDouble).norm().item<double>(); }

struct Training {
  explicit Training(const std::string& name) : p(name, "loss") {
    const Json config = Json::parse(p.reference.metadata.at("config"));
    PlayerOptions options;
    options.adam = {config["adam"]["lr"],
                    config["adam"]["betas"][0],
                    config["adam"]["betas"][1],
                    config["adam"]["eps"]};
    gain = config["adam"]["dreg_gain"];
    gamma = config["r1_gamma"];
    NamedTensors parameters;
    for (const auto& item : p.D->named_parameters()) {
      parameters.emplace_back(item.key(), item.value());
      start.push_back(item.value().detach().clone());
    }
    optimizer = Optimizer::create(options, parameters);
    const torch::NoGradGuard no_grad;
    p.G->eval();
    labels = p.labels("in/c");
    real_labels = p.labels("in/real_c");
    fake = p.G->forward(p["in/z"], labels);
  }

  void step(const Tensor& loss) {
    loss.backward();
    optimizer->step();
    optimizer->clear_gradients();
  }

  void main_step(const std::string& at) {
    CAPTURE(at);
    const Tensor real_scores = p.D->forward(p["in/real"], real_labels);
    const Tensor fake_scores = p.D->forward(fake, labels);
    const Tensor expected = p[at + "/loss"];
    const Tensor each = torch::softplus(fake_scores) + torch::softplus(-real_scores);
    const Tensor loss = logistic_d(real_scores, fake_scores);
    CHECK(scaled_error((expected.dim() == 0 ? loss : each.reshape(expected.sizes())).detach(),
                       expected) < 1e-4);
    step(loss);
    check_moved(at);
  }

  void penalty_step(const std::string& at) {
    CAPTURE(at);
    const InputGradients real =
        input_gradients([&](const Tensor& x) { return p.D->forward(x, real_labels); }, p["in/real"]);
    CHECK(scaled_error(real.squared_norms.detach(), p[at + "/r1_penalty"]) < 1e-4);
    step(gain * gamma / 2 * real.squared_norms.mean());
    check_moved(at);
  }

  // Norms of the parameters and of the way they have gone: fixtures' tolerances.
  void check_moved(const std::string& at) {
    double total = 0;
    size_t i = 0;
    for (const auto& item : p.D->named_parameters()) {
      CAPTURE(item.key());
      const Tensor moved = item.value().detach() - start[i++];
      total += norm_of(moved) * norm_of(moved);
      const auto expected = p[at + "/deltanorm/" + item.key()].item<double>();
      CHECK(norm_of(moved) == Approx(expected).epsilon(5e-3).margin(1e-12));
      CHECK(norm_of(item.value().detach()) ==
            Approx(p[at + "/paramnorm/" + item.key()].item<double>()).epsilon(1e-5).margin(1e-12));
    }
    CHECK(std::sqrt(total) == Approx(p[at + "/total_deltanorm"].item<double>()).epsilon(1e-4));
  }

  Pair p;
  std::unique_ptr<Optimizer> optimizer;
  std::vector<Tensor> start;
  Tensor fake, labels, real_labels;
  double gain = 1, gamma = 0;
};

}  // namespace

TEST_CASE("ThreeAdamStepsOfDEndWhereTheReferenceEnds") {
  for (const std::string name : {"uncond32", "cond32"}) {
    CAPTURE(name);
    Training training(name);
    for (const char* at : {"adamA/0", "adamA/1", "adamA/2"}) training.main_step(at);
  }
}

TEST_CASE("LossAndLazyR1InTurnEndWhereTheReferenceEnds") {
  for (const std::string name : {"uncond32", "cond32"}) {
    CAPTURE(name);
    Training training(name);
    training.main_step("adamB/0");
    training.penalty_step("adamB/1");
    training.main_step("adamB/2");
    training.penalty_step("adamB/3");
  }
}

// SPDX-License-Identifier: Apache-2.0
// The losses of Karras et al. 2020a on the fixtures' networks: values, penalties, and the norm of
// every parameter's gradient.
#include <catch2/catch.hpp>

#include "ops/losses.h"
#include "recipes/stylegan2/networks.h"

using namespace gantrain;
using namespace gantrain::stylegan2;

namespace {

double norm_of(const Tensor& t) { return t.to(at::kDouble).norm().item<double>(); }

// Norms within 2e-3 and 1e-7, whole gradients within 2e-3: fixtures' tolerances.
void check_gradients(const Pair& p, const std::string& phase, const torch::nn::Module& net) {
  int compared = 0;
  for (const auto& item : net.named_parameters()) {
    CAPTURE(phase, item.key());
    const Tensor& g = item.value().grad();
    const double norm = g.defined() ? norm_of(g) : 0;
    const auto expected = p[phase + "/gradnorm/" + item.key()].item<double>();
    CHECK(norm == Approx(expected).epsilon(2e-3).margin(1e-7));
    const auto whole = p.reference.tensors.find(phase + "/grad/" + item.key());
    if (whole == p.reference.tensors.end()) continue;
    CHECK(scaled_error(g.defined() ? g : torch::zeros_like(item.value()), whole->second) < 2e-3);
    ++compared;
  }
  CHECK(compared >= 6);
}

void check_values(const Pair& p, const std::string& key, const Tensor& values) {
  CAPTURE(key);
  CHECK(scaled_error(values.detach(), p[key]) < 1e-4);
}

Tensor gradient(const Tensor& of, const Tensor& by) {
  return torch::autograd::grad({of}, {by}, {}, /*retain_graph=*/true, /*create_graph=*/true)[0];
}

}  // namespace

TEST_CASE("GeneratorsGradientsMatchTheReference") {
  for (const std::string name : {"uncond32", "cond32"}) {
    Pair p(name, "loss");
    const Tensor labels = p.labels("in/c");
    const Tensor scores = p.D->forward(p.G->forward(p["in/z"], labels), labels);
    check_values(p, "Gmain/stat/Loss.scores.fake", scores);
    check_values(p, "Gmain/stat/Loss.G.loss", torch::softplus(-scores));
    logistic_g(scores).backward();
    check_gradients(p, "Gmain", *p.G);
  }
}

TEST_CASE("DiscriminatorsGradientsMatchTheReference") {
  for (const std::string name : {"uncond32", "cond32"}) {
    Pair p(name, "loss");
    const Tensor labels = p.labels("in/c");
    const Tensor fake = p.G->forward(p["in/z"], labels).detach();
    const Tensor real_scores = p.D->forward(p["in/real"], p.labels("in/real_c"));
    const Tensor fake_scores = p.D->forward(fake, labels);
    check_values(p, "Dmain/stat/Loss.scores.real", real_scores);
    check_values(p, "Dmain/stat/Loss.scores.fake", fake_scores);
    logistic_d(real_scores, fake_scores).backward();
    check_gradients(p, "Dmain", *p.D);
  }
}

// Mescheder et al. 2018, eq. 9: gamma/2 |grad D(x)|^2.
TEST_CASE("R1MatchesTheReference") {
  for (const std::string name : {"uncond32", "cond32"}) {
    Pair p(name, "loss");
    const Tensor x = p["in/real"].clone().requires_grad_();
    const Tensor scores = p.D->forward(x, p.labels("in/real_c"));
    const Tensor penalty = gradient(scores.sum(), x).square().sum({1, 2, 3});
    check_values(p, "Dreg/stat/Loss.r1_penalty", penalty);
    check_values(p, "Dreg/stat/Loss.D.reg", penalty * 5);
    (penalty * 5).mean().backward();
    check_gradients(p, "Dreg", *p.D);
  }
}

// Karras et al. 2020a, eq. 4: (|J_w^T y| - a)^2, a being the running mean, moved first.
TEST_CASE("PathLengthMatchesTheReference") {
  for (const std::string name : {"uncond32", "cond32"}) {
    Pair p(name, "loss");
    const int64_t n = p["in/pl_noise"].size(0);
    Tensor labels = p.labels("in/c");
    if (labels.defined()) labels = labels.narrow(0, 0, n);
    const Tensor w = p.G->mapping->forward(p["in/z"].narrow(0, 0, n), labels);
    const Tensor ws = for_all_layers(w, p.G_shape.num_ws());
    const Tensor img = p.G->synthesis->forward(ws);
    const Tensor y = p["in/pl_noise"] / std::sqrt(static_cast<double>(img.size(2) * img.size(3)));
    const Tensor lengths = gradient((img * y).sum(), ws).square().sum(2).mean(1).sqrt();
    const Tensor mean = p["in/pl_mean"].lerp(lengths.mean(), 0.01);
    check_values(p, "Greg/pl_mean_after", mean);
    const Tensor penalty = (lengths - mean).square();
    check_values(p, "Greg/stat/Loss.pl_penalty", penalty);
    check_values(p, "Greg/stat/Loss.G.reg", penalty * 2);
    (penalty * 2).mean().backward();
    check_gradients(p, "Greg", *p.G);
  }
}

// SPDX-License-Identifier: Apache-2.0
#include "train/gradient_guard.h"

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "distributed/gradient_sync.h"
#include "spawn_ranks.h"
#include "tensor_checks.h"
#include "util/error.h"

using namespace gantrain;
using at::Tensor;

namespace {

bool same(const Tensor& a, const Tensor& b) { return at::allclose(a, b, 0, 0, /*equal_nan=*/true); }

// Plays a case of the fixture through a reduction: `mine` of the gradients is this rank's. Returns
// how many steps differ in anything.
int differing_steps(const Rendezvous& r,
                    const std::function<Tensor(const Tensor& gradient, int64_t rank)>& mine) {
  const auto group = Group::join(r, BackendKind::kGloo, at::kCPU, 20);
  const TensorFile file = fixture("amp_gradscaler");
  const auto cases = nlohmann::json::parse(file.metadata.at("cases"));
  int differing = 0;
  for (const auto& [name, settings] : cases.items()) {
    const auto tensor = [&, prefix = name + "/"](const char* key) {
      return file.tensors.at(prefix + key);
    };
    GuardSettings how;
    how.scaler = {settings["init_scale"],
                  settings["growth_factor"],
                  settings["backoff_factor"],
                  settings["growth_interval"]};
    how.min_scale = 0;
    GradientGuard guard(how, "D", at::kCPU);
    Tensor p = tensor("p0").clone().requires_grad_(true),
           q = tensor("q0").clone().requires_grad_(true);
    const NamedTensors parameters = {{"p", p}, {"q", q}};
    const auto sync = GradientSync::create({}, group, "D", {{"", parameters}});
    for (int64_t i = 0; i < tensor("found_inf").size(0); ++i) {
      p.mutable_grad() = Tensor();
      q.mutable_grad() = Tensor();
      sync->begin(true);
      const Tensor loss = (p * mine(tensor("grad_p_scaled")[i], r.rank)).sum() +
                          (q * mine(tensor("grad_q_scaled")[i], r.rank)).sum();
      sync->expect_backward(loss).backward();
      sync->finish();
      const GradientReport report = guard.check(parameters);
      const bool finite = tensor("found_inf")[i].item<int>() == 0;
      bool equal = report.finite == finite &&
                   *report.scale == tensor("scale_before")[i].item<double>() &&
                   same(guard.state()[0].second[0], tensor("scale_after")[i]) &&
                   same(guard.state()[1].second[0], tensor("tracker_after")[i]);
      if (finite) {
        equal = equal && same(p.grad(), tensor("grad_p_unscaled")[i]) &&
                same(q.grad(), tensor("grad_q_unscaled")[i]);
        const torch::NoGradGuard no_grad;
        p.sub_(p.grad(), 0.1);
        q.sub_(q.grad(), 0.1);
      }
      equal = equal && same(p, tensor("p_after")[i]) && same(q, tensor("q_after")[i]);
      if (!equal) ++differing;
    }
  }
  return differing;
}

Tensor parameter_with(std::vector<float> gradient) {
  Tensor p = torch::zeros({static_cast<int64_t>(gradient.size())}).requires_grad_(true);
  p.mutable_grad() = torch::tensor(gradient);
  return p;
}

// Message of the UserError(kDiverged) that it throws; "" if none.
std::string diverged(const std::function<void()>& run) {
  try {
    run();
  } catch (const UserError& e) {
    return e.code() == Exit::kDiverged ? e.what() : "another code";
  }
  return "";
}

GuardSettings scaled_by(double scale, bool dynamic = true) {
  GuardSettings s;
  s.scaler = {scale, 2, 0.5, 2, dynamic};
  return s;
}

}  // namespace

TEST_CASE("TheReferencesScalesAndStepsAreMetByOneAndTwoRanks") {
  for (const int64_t world : {1, 2}) {
    CAPTURE(world);
    CHECK(failed_ranks(world, [](const Rendezvous& r) {
            return differing_steps(r, [](const Tensor& g, int64_t) { return g; });
          }) == 0);
  }
}

TEST_CASE("AnOverflowThatOneRankSeesLeavesTheStepOutOnAll") {
  CHECK(failed_ranks(2, [](const Rendezvous& r) {
          return differing_steps(r, [](const Tensor& g, int64_t rank) {
            return rank == 1 ? g : at::where(g.isfinite(), g, at::zeros_like(g));
          });
        }) == 0);
}

TEST_CASE("AScaleBelowItsFloorEndsTheRunAndNamesTheFirstParameter") {
  GuardSettings settings = scaled_by(4);
  settings.min_scale = 1;
  GradientGuard guard(settings, "D", at::kCPU);
  const auto step = [&](const char* bad) {
    guard.check({{"good", parameter_with({1, 2})}, {bad, parameter_with({1, INFINITY})}});
  };
  step("first.weight");
  step("second.weight");
  const std::string message = diverged([&] { step("third.weight"); });
  CHECK_THAT(message, Catch::Contains("precision.min_scale = 1"));
  CHECK_THAT(message, Catch::Contains("D.first.weight"));
}

TEST_CASE("WithoutAScaleNonFiniteGradientsAreLeftOutCountedAndLimited") {
  GuardSettings settings;
  settings.limit = 3;
  GradientGuard guard(settings, "G", at::kCPU);
  const auto step = [&](float number) {
    return guard.check({{"w", parameter_with({number})}}).finite;
  };
  CHECK_FALSE(step(NAN));
  CHECK_FALSE(step(INFINITY));
  CHECK(step(1));  // the row ends
  CHECK_FALSE(step(NAN));
  CHECK_FALSE(step(NAN));
  CHECK(guard.state()[2].second.item<int64_t>() == 4);
  CHECK(guard.state()[3].second.item<int64_t>() == 2);
  CHECK_THAT(diverged([&] { step(NAN); }),
             Catch::Contains("3 steps of G") && Catch::Contains("G.w"));
}

TEST_CASE("AskedToStopItStopsAtTheFirstNonFiniteGradient") {
  GuardSettings settings;
  settings.on_nonfinite = OnNonfinite::kStop;
  GradientGuard guard(settings, "G", at::kCPU);
  CHECK(guard.check({{"w", parameter_with({1})}}).finite);
  CHECK_THAT(diverged([&] {
               guard.check({{"w", parameter_with({NAN})}});
             }),
             Catch::Contains("G.w"));
  // A dynamic scale looks for its limit that way.
  settings.scaler = scaled_by(1024).scaler;
  GradientGuard scaled(settings, "G", at::kCPU);
  CHECK_FALSE(scaled.check({{"w", parameter_with({NAN})}}).finite);
}

TEST_CASE("FiniteGradientsOfFloat32PassUnchanged") {
  GradientGuard guard({}, "G", at::kCPU);
  const Tensor p = parameter_with({1, -0.0F, 3e38F, 1e-42F});
  const Tensor before = p.grad().clone();
  const Tensor none = torch::zeros({1}).requires_grad_(true);
  const GradientReport report = guard.check({{"p", p}, {"none", none}});
  CHECK(report.finite);
  CHECK_FALSE(report.scale);
  CHECK(torch::equal(p.grad(), before));
  const Tensor loss = torch::ones({});
  CHECK(guard.scaled(loss).is_same(loss));
}

TEST_CASE("GradientsAreClippedAfterUnscaling") {
  const double scale = 8;
  GuardSettings settings = scaled_by(scale, /*dynamic=*/false);
  settings.optim.clip_norm = 2.5;
  GradientGuard by_norm(settings, "G", at::kCPU);
  const Tensor p = parameter_with({3 * 8, 0}), q = parameter_with({4 * 8});
  const GradientReport report = by_norm.check({{"p", p}, {"q", q}});
  CHECK(*report.norm == Approx(5));
  CHECK(torch::allclose(p.grad(), torch::tensor({1.5F, 0.0F}), 1e-5));
  CHECK(torch::allclose(q.grad(), torch::tensor({2.0F}), 1e-5));
  const Tensor small = parameter_with({8});  // 1 unscaled: stays
  by_norm.check({{"p", small}});
  CHECK(small.grad().item<float>() == 1);

  settings.optim = {0, 2};
  GradientGuard by_value(settings, "G", at::kCPU);
  const Tensor r = parameter_with({-100 * 8, 1 * 8, 3 * 8});
  by_value.check({{"r", r}});
  CHECK(torch::equal(r.grad(), torch::tensor({-2.0F, 1.0F, 2.0F})));
}

// SPDX-License-Identifier: Apache-2.0
#include <nlohmann/json.hpp>

#include "core/device.h"
#include "distributed/gradient_sync.h"
#include "support/catch.h"
#include "support/spawn_ranks.h"
#include "support/tensor_checks.h"
#include "train/step/mixed_precision.h"
#include "util/error.h"

using namespace gantrain;
using at::Tensor;

namespace {

bool same(const Tensor& a, const Tensor& b) { return at::allclose(a, b, 0, 0, /*equal_nan=*/true); }

// What the verdict says, wherever it lies; where both say something they must agree.
bool is_finite(const GradientVerdict& verdict) {
  const bool finite = verdict.found.item<float>() == 0;
  if (verdict.finite && *verdict.finite != finite) throw std::logic_error("two verdicts");
  return finite;
}

// Runs a law where reads are free, and with the paths of a device whose reads wait.
void with_both_kinds_of_reads(const std::function<void()>& law) {
  law();
  const AssumeReadsWait assumed;
  law();
}

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
      const Tensor loss = (p * mine(tensor("grad_p_scaled")[i], r.ranks.rank)).sum() +
                          (q * mine(tensor("grad_q_scaled")[i], r.ranks.rank)).sum();
      sync->expect_backward(loss).backward();
      sync->finish();
      const GradientVerdict verdict = guard.judge(parameters);
      const bool finite = tensor("found_inf")[i].item<int>() == 0;
      bool equal = is_finite(verdict) == finite &&
                   verdict.scale.item<double>() == tensor("scale_before")[i].item<double>() &&
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
    for (const bool reads_wait : {false, true}) {
      CAPTURE(world, reads_wait);
      CHECK(failed_ranks(world, [reads_wait](const Rendezvous& r) {
              std::optional<AssumeReadsWait> assumed;
              if (reads_wait) assumed.emplace();
              return differing_steps(r, [](const Tensor& g, int64_t) { return g; });
            }) == 0);
    }
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
  with_both_kinds_of_reads([] {
    GuardSettings settings = scaled_by(4);
    settings.min_scale = 1;
    GradientGuard guard(settings, "D", at::kCPU);
    const auto step = [&](size_t bad) {
      NamedTensors all;
      for (const char* name : {"good", "first.weight", "second.weight", "third.weight"})
        all.emplace_back(name, parameter_with({1, all.size() == bad ? INFINITY : 2}));
      guard.judge(all);
      guard.settle();
    };
    step(1);
    step(2);
    const std::string message = diverged([&] { step(3); });
    CHECK_THAT(message, Catch::Contains("precision.min_scale = 1"));
    CHECK_THAT(message, Catch::Contains("D.first.weight"));
  });
}

TEST_CASE("WithoutAScaleNonFiniteGradientsAreLeftOutCountedAndLimited") {
  with_both_kinds_of_reads([] {
    GuardSettings settings;
    settings.nonfinite.limit = 3;
    GradientGuard guard(settings, "G", at::kCPU);
    const auto step = [&](float number) {
      const bool finite = is_finite(guard.judge({{"w", parameter_with({number})}}));
      guard.settle();
      return finite;
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
  });
}

TEST_CASE("AskedToStopItStopsAtTheFirstNonFiniteGradient") {
  with_both_kinds_of_reads([] {
    GuardSettings settings;
    settings.nonfinite.action = OnNonfinite::kStop;
    GradientGuard guard(settings, "G", at::kCPU);
    CHECK(is_finite(guard.judge({{"w", parameter_with({1})}})));
    guard.settle();
    CHECK_THAT(diverged([&] {
                 guard.judge({{"w", parameter_with({NAN})}});
                 guard.settle();
               }),
               Catch::Contains("G.w"));
    // A dynamic scale looks for its limit that way.
    settings.scaler = scaled_by(1024).scaler;
    GradientGuard scaled(settings, "G", at::kCPU);
    CHECK_FALSE(is_finite(scaled.judge({{"w", parameter_with({NAN})}})));
    CHECK_NOTHROW(scaled.settle());
  });
}

TEST_CASE("TheFirstParameterThatIsNotFiniteIsNamed") {
  with_both_kinds_of_reads([] {
    GuardSettings settings;
    settings.nonfinite.action = OnNonfinite::kStop;
    GradientGuard guard(settings, "G", at::kCPU);
    CHECK_THAT(diverged([&] {
                 guard.judge({{"a", parameter_with({1, 1, 1})},
                              {"none", torch::zeros({1}).requires_grad_(true)},
                              {"b", parameter_with({1, NAN})},
                              {"c", parameter_with({1, NAN})}});
                 guard.settle();
               }),
               Catch::Contains("G.b"));
  });
}

TEST_CASE("FiniteGradientsOfFloat32PassUnchanged") {
  with_both_kinds_of_reads([] {
    GradientGuard guard({}, "G", at::kCPU);
    const Tensor p = parameter_with({1, -0.0F, 3e38F, 1e-42F});
    const Tensor before = p.grad().clone();
    const Tensor none = torch::zeros({1}).requires_grad_(true);
    const GradientVerdict verdict = guard.judge({{"p", p}, {"none", none}});
    CHECK(is_finite(verdict));
    CHECK_FALSE(verdict.scale.defined());
    CHECK_FALSE(verdict.norm.defined());
    CHECK(torch::equal(p.grad(), before));
    const Tensor loss = torch::ones({});
    CHECK(guard.scaled(loss).is_same(loss));
  });
}

TEST_CASE("GradientsAreClippedAfterUnscaling") {
  with_both_kinds_of_reads([] {
    const double scale = 8;
    GuardSettings settings = scaled_by(scale, /*dynamic=*/false);
    settings.optim.clip_norm = 2.5;
    GradientGuard by_norm(settings, "G", at::kCPU);
    const Tensor p = parameter_with({3 * 8, 0}), q = parameter_with({4 * 8});
    const GradientVerdict verdict = by_norm.judge({{"p", p}, {"q", q}});
    CHECK(verdict.norm.item<float>() == Approx(5));
    CHECK(torch::allclose(p.grad(), torch::tensor({1.5F, 0.0F}), 1e-5));
    CHECK(torch::allclose(q.grad(), torch::tensor({2.0F}), 1e-5));
    const Tensor small = parameter_with({8});  // 1 unscaled: stays
    by_norm.judge({{"p", small}});
    CHECK(small.grad().item<float>() == 1);

    settings.optim = {0, 2};
    GradientGuard by_value(settings, "G", at::kCPU);
    const Tensor r = parameter_with({-100 * 8, 1 * 8, 3 * 8});
    by_value.judge({{"r", r}});
    CHECK(torch::equal(r.grad(), torch::tensor({-2.0F, 1.0F, 2.0F})));
  });
}

TEST_CASE("WithoutAScaleGradientsAreClippedOfEveryType") {
  for (const at::ScalarType type : {at::kFloat, at::kDouble}) {
    with_both_kinds_of_reads([type] {
      GuardSettings settings;
      settings.optim.clip_norm = 2.5;
      const auto parameter = [&](std::vector<float> gradient) {
        Tensor p = torch::zeros({static_cast<int64_t>(gradient.size())}, type).requires_grad_(true);
        p.mutable_grad() = torch::tensor(gradient).to(type);
        return p;
      };
      GradientGuard guard(settings, "G", at::kCPU);
      const Tensor p = parameter({3, 0}), q = parameter({4});
      CHECK(guard.judge({{"p", p}, {"q", q}}).norm.item<double>() == Approx(5));
      CHECK(p.grad()[0].item<double>() == Approx(1.5).epsilon(1e-5));
      CHECK(q.grad()[0].item<double>() == Approx(2).epsilon(1e-5));
      const Tensor shorter = parameter({1, -2});
      CHECK(guard.judge({{"p", shorter}}).norm.item<double>() == Approx(std::sqrt(5)));
      CHECK(torch::equal(shorter.grad(), torch::tensor({1, -2}).to(type)));
      const Tensor bad = parameter({NAN, 1});
      CHECK_FALSE(is_finite(guard.judge({{"p", bad}})));
      settings.optim = {0, 2};
      GradientGuard by_value(settings, "G", at::kCPU);
      const Tensor r = parameter({-100, 1, 3});
      CHECK(by_value.judge({{"r", r}}).norm.item<double>() == Approx(std::sqrt(10010)));
      CHECK(torch::equal(r.grad(), torch::tensor({-2, 1, 2}).to(type)));
    });
  }
}

TEST_CASE("AVerdictIsKnownAtOnceOnlyWhereReadsAreFree") {
  const NamedTensors good = {{"w", parameter_with({1})}};
  CHECK(GradientGuard({}, "G", at::kCPU).judge(good).finite == true);
  const AssumeReadsWait assumed;
  CHECK_FALSE(GradientGuard({}, "G", at::kCPU).judge(good).finite.has_value());
}

TEST_CASE("WhereReadsWaitConsequencesAreDrawnAtATickAlone") {
  const AssumeReadsWait assumed;
  GuardSettings settings;
  settings.nonfinite.limit = 2;
  GradientGuard guard(settings, "G", at::kCPU);
  const auto step = [&](float first, float second) {
    guard.judge({{"a", parameter_with({first})},
                 {"none", torch::zeros({1}).requires_grad_(true)},
                 {"b", parameter_with({second})}});
  };
  CHECK_NOTHROW(step(1, NAN));
  CHECK_NOTHROW(step(NAN, 1));
  CHECK_NOTHROW(step(1, 1));  // the row has ended, and is still heard of
  const std::string message = diverged([&] { guard.settle(); });
  CHECK_THAT(message, Catch::Contains("2 steps of G in a row") && Catch::Contains("G.b"));
  // It has been said once.
  CHECK(diverged([&] { guard.settle(); }).empty());
  step(1, 1);
  CHECK(diverged([&] { guard.settle(); }).empty());
}

TEST_CASE("ARowThatATickFallsIntoIsCountedOn") {
  const AssumeReadsWait assumed;
  GuardSettings settings;
  settings.nonfinite.limit = 3;
  GradientGuard guard(settings, "G", at::kCPU);
  const auto step = [&] { guard.judge({{"w", parameter_with({NAN})}}); };
  step();
  step();
  CHECK(diverged([&] { guard.settle(); }).empty());
  step();
  CHECK_THAT(diverged([&] { guard.settle(); }), Catch::Contains("3 steps of G in a row"));
}

TEST_CASE("StepsLeftOutBeforeAResumeAreNoNews") {
  with_both_kinds_of_reads([] {
    GuardSettings settings;
    settings.nonfinite.action = OnNonfinite::kStop;
    GradientGuard guard(settings, "G", at::kCPU);
    const NamedTensors state = guard.state();
    state[2].second.fill_(7);  // skipped, in the run that is gone on with
    guard.begin();
    CHECK(is_finite(guard.judge({{"w", parameter_with({1})}})));
    CHECK(diverged([&] { guard.settle(); }).empty());
    CHECK(state[2].second.item<int64_t>() == 7);
  });
}

TEST_CASE("PhasesOfAPlayerMayHaveGradientsOfDifferentParameters") {
  const AssumeReadsWait assumed;
  GradientGuard guard({}, "D", at::kCPU);
  const Tensor none = torch::zeros({1}).requires_grad_(true);
  guard.judge({{"a", parameter_with({1})}, {"b", parameter_with({NAN})}});
  guard.judge({{"a", none}, {"b", parameter_with({1})}});
  CHECK_NOTHROW(guard.settle());
  CHECK(guard.state()[2].second.item<int64_t>() == 1);
}

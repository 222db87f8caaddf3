// SPDX-License-Identifier: Apache-2.0
#include "core/torch.h"
#include "distributed/gradient_sync.h"
#include "gan/phase.h"
#include "support/catch.h"
#include "support/computed_text.h"
#include "support/tensor_checks.h"

using namespace gantrain;

TEST_CASE("APhaseIsDueAtOneIterationOfItsIntervalFromItsFirstOn") {
  std::vector<int64_t> due;
  for (int64_t i = 0; i < 12; ++i) {
    if (Cadence{4, 2}.is_due(i)) due.push_back(i);
  }
  CHECK(due == std::vector<int64_t>{2, 6, 10});
  CHECK(Cadence{}.is_due(0));
  CHECK(Cadence{}.is_due(7));
}

namespace {

// A forward pass that moves a running statistic, wherever that is noted.
at::Tensor forward(at::Tensor buffer, double by) {
  RunningStatistics* noted = noted_running_statistics();
  (noted == nullptr ? buffer : noted->next(buffer)).add_(by);
  return torch::tensor(by);
}

}  // namespace

TEST_CASE("RunningStatisticsComeOutAsAValueAndStayOutOfTheirBuffers") {
  Player player{"D", nullptr, {}};
  const at::Tensor buffer = torch::zeros({2});
  const Phase phase{"D", player, [&](const PhaseInput&) {
                      forward(buffer, 1);
                      return PhaseOutput{forward(buffer, 2)};  // the second goes on from the first
                    }};
  const PhaseOutput once = phase.run({}), again = phase.run({});
  CHECK(torch::equal(buffer, torch::zeros({2})));
  once.running.apply();
  CHECK(torch::equal(buffer, torch::full({2}, 3.0F)));
  again.running.apply();  // both began with what was in the buffer then
  CHECK(torch::equal(buffer, torch::full({2}, 3.0F)));
  CHECK(noted_running_statistics() == nullptr);
}

TEST_CASE("WhatWasHandedOverIsAccountedForWithWhatThePhaseItselfMoves") {
  Player player{"G", nullptr, {}};
  const at::Tensor of_G = torch::zeros({1}), of_D = torch::zeros({1});
  const Phase D{"D", player, [&](const PhaseInput&) {
                  PhaseOutput out;
                  {
                    const RunningStatisticsScope scope(out.carried.running);
                    forward(of_G, 5);
                  }
                  out.loss = forward(of_D, 1);
                  return out;
                }};
  const Phase G{"G", player, [&](const PhaseInput& in) {
                  PhaseOutput out;
                  out.running = in.carried.running;
                  out.loss = forward(of_D, 2);
                  return out;
                }};
  const PhaseOutput judged = D.run({});
  judged.running.apply();
  CHECK(of_G.item<float>() == 0);
  CHECK(of_D.item<float>() == 1);
  PhaseInput in;
  in.carried = judged.carried;
  G.run(in).running.apply();
  CHECK(of_G.item<float>() == 5);
  CHECK(of_D.item<float>() == 3);
}

TEST_CASE("ALossThatThrowsLeavesNoScopeBehind") {
  Player player{"D", nullptr, {}};
  const Phase phase{
      "D", player, [](const PhaseInput&) -> PhaseOutput { throw std::runtime_error("no loss"); }};
  CHECK_THROWS_WITH(phase.run({}), "no loss");
  CHECK(noted_running_statistics() == nullptr);
}

TEST_CASE("GTakesItsStepsAfterThoseOfD") {
  Player G{"G", {}, {}}, D{"D", {}, {}};
  G.options.steps = 2;
  D.options.steps = 3;
  const auto loss = [](double of) {
    return [of](const PhaseInput&) { return PhaseOutput{torch::tensor(of)}; };
  };
  const std::vector<Phase> phases = alternating_phases(D, loss(0), G, loss(1));
  std::string order;
  for (int64_t iteration = 0; iteration < 6; ++iteration) {
    for (const Phase& phase : phases) {
      if (phase.is_due(iteration)) order += phase.name + " ";
    }
  }
  CHECK(order == "D D D G G2 D D D G G2 ");
  for (const Phase& phase : phases) {
    CHECK(phase.loss({}).loss.item<double>() == (&phase.player == &D ? 0 : 1));
    CHECK(phase.all_parameters_used);
    CHECK(phase.role == Role::kMain);
    CHECK(phase.gain == 1);
  }
}

namespace {

struct Doubler final : torch::nn::Module {
  at::Tensor forward(const at::Tensor& x, int64_t times = 2) { return x * times; }
};

struct Listener final : GradientSync {
  void forwarded(const std::string& part, const at::Tensor& output) override {
    heard.push_back(part + ":" + std::to_string(output.item<int>()));
  }
  std::vector<std::string> heard;
};

}  // namespace

TEST_CASE("AHandleCallsItsNetworkAndTellsTheSyncOfASteppingPlayer") {
  const auto net = std::make_shared<Doubler>();
  Player player{"G", net, {}};
  const Handle<Doubler> G(player, net), mapping(player, net, "mapping");
  CHECK(G(torch::tensor(3)).item<int>() == 6);  // not its turn: nobody listens
  Listener listener;
  player.sync = &listener;
  CHECK(G(torch::tensor(3)).item<int>() == 6);
  CHECK(mapping(torch::tensor(3), 5).item<int>() == 15);
  player.called("", torch::tensor(8));  // made in another phase
  CHECK(listener.heard == std::vector<std::string>{":6", "mapping:15", ":8"});
}

namespace {

struct Encoder final : torch::nn::Module {
  at::Tensor encode(const at::Tensor& x, int64_t times) { return x + times; }
  std::pair<at::Tensor, at::Tensor> both(const at::Tensor& x) const { return {x, x * 2}; }
  std::tuple<at::Tensor, at::Tensor, at::Tensor> three(const at::Tensor& x) {
    return {x, x * 2, x * 3};
  }
  std::vector<at::Tensor> forward(const at::Tensor& x) { return {x, x * 5}; }
};

}  // namespace

TEST_CASE("MemberFunctionsAreCalledThroughTheHandleWhateverTensorsTheyReturn") {
  const auto net = std::make_shared<Encoder>();
  Player player{"G", net, {}};
  const Handle<Encoder> G(player, net, "encoder");
  Listener listener;
  player.sync = &listener;
  CHECK(G.call(&Encoder::encode, torch::tensor(3), 4).item<int>() == 7);
  CHECK(G.call(&Encoder::both, torch::tensor(1)).second.item<int>() == 2);
  CHECK(std::get<2>(G.call(&Encoder::three, torch::tensor(2))).item<int>() == 6);
  CHECK(G(torch::tensor(3))[1].item<int>() == 15);
  const std::vector<std::string> expected = {"encoder:7",
                                             "encoder:1",
                                             "encoder:2",
                                             "encoder:2",
                                             "encoder:4",
                                             "encoder:6",
                                             "encoder:3",
                                             "encoder:15"};
  CHECK(listener.heard == expected);
}

namespace {

struct Noting final : torch::nn::Module {
  at::Tensor forward(const at::Tensor& x) {
    const BlockScope named("b8");
    note_computed(x.scalar_type());
    return x;
  }
};

}  // namespace

TEST_CASE("WhatIsComputedBehindAHandleIsABlockOfItsPlayersPart") {
  const auto net = std::make_shared<Noting>();
  Player player{"G", net, {}};
  const Handle<Noting> G(player, net), synthesis(player, net, "synthesis");
  const ForwardPrecision same;
  std::vector<Computed> seen;
  const AutocastScope pass(same, at::kCPU, &seen);
  G(torch::ones({}));
  synthesis.call(&Noting::forward, torch::ones({}));
  CHECK(seen ==
        std::vector<Computed>{{"G.b8", at::kFloat, ""}, {"G.synthesis.b8", at::kFloat, ""}});
}

namespace {

PhaseInput input(const Samples& samples, int64_t phase, int64_t iteration = 5) {
  PhaseInput in;
  in.real = torch::empty({0});  // z takes its type
  in.samples = samples;
  in.key = make_draw_key(3, iteration, phase, at::kCPU);
  return in;
}

}  // namespace

TEST_CASE("ASampleHasItsLatentsAndLabelWhateverBatchItIsIn") {
  const Latents draws(8, {1, 2, 5}, at::kCPU);
  const PhaseInput all = input({0, 1, 6}, 1), odd = input({1, 2, 3}, 1);
  const torch::Tensor z = draws.z(all), labels = draws.labels(all);
  CHECK(torch::equal(draws.z(odd), z.slice(0, 1, 6, 2)));
  CHECK(torch::equal(draws.labels(odd), labels.slice(0, 1, 6, 2)));
  CHECK_FALSE(torch::equal(draws.z(input({1, 2, 3}, 2)), draws.z(odd)));
  CHECK_FALSE(torch::equal(draws.z(odd, 1), draws.z(odd)));
}

TEST_CASE("LatentsHaveTheTypeOfTheNetworks") {
  PhaseInput in = input({0, 1, 2}, 0);
  const torch::Tensor narrow = Latents(8, {}, at::kCPU).z(in);
  in.real = torch::empty({0}, at::kDouble);
  const torch::Tensor wide = Latents(8, {}, at::kCPU).z(in);
  CHECK(wide.scalar_type() == at::kDouble);
  CHECK(torch::equal(wide, narrow.to(at::kDouble)));
}

TEST_CASE("LabelsComeAsOftenAsInTheData") {
  const Latents draws(8, {100, 0, 300}, at::kCPU);
  const torch::Tensor counts = torch::bincount(draws.labels(input({0, 1, 4000}, 0)), {}, 3);
  CHECK(counts[1].item<int64_t>() == 0);
  CHECK(counts[0].item<double>() == Approx(1000).margin(120));  // 4 standard deviations
  CHECK_FALSE(Latents(8, {}, at::kCPU).labels(input({0, 1, 4}, 0)).defined());
}

TEST_CASE("VectorsAreThoseOfRealPicturesAllEquallyLikely") {
  const torch::Tensor rows = torch::tensor({1.0f, 0.5f, 0.0f, -2.0f, 1.0f, 3.0f}).reshape({3, 2});
  const Latents draws(8, {}, at::kCPU, rows);
  const PhaseInput all = input({0, 1, 3000}, 0), odd = input({1, 2, 1500}, 0);
  const torch::Tensor labels = draws.labels(all);
  REQUIRE(labels.sizes() == at::IntArrayRef{3000, 2});
  CHECK(torch::equal(draws.labels(odd), labels.slice(0, 1, 3000, 2)));
  double found = 0;
  for (int64_t i = 0; i < 3; ++i) {
    const double count = labels.eq(rows[i]).all(1).sum().item<double>();
    CHECK(count == Approx(1000).margin(105));  // 4 standard deviations
    found += count;
  }
  CHECK(found == 3000);
}

TEST_CASE("TheCutOffOfMixingLiesBetweenTheLayers") {
  const Latents draws(8, {}, at::kCPU);
  const auto cutoff = [&](int64_t iteration, double probability, int64_t layers) {
    return draws.mixing_cutoff(input({0, 1, 1}, 0, iteration), probability, layers).item<int64_t>();
  };
  std::vector<int64_t> seen(7, 0);
  for (int64_t i = 0; i < 600; ++i) ++seen[static_cast<size_t>(cutoff(i, 0.5, 6))];
  CHECK(seen[0] == 0);
  for (size_t layer = 1; layer < 6; ++layer) CHECK(seen[layer] > 30);  // about 60
  CHECK(seen[6] == Approx(300).margin(50));
  CHECK(cutoff(1, 1, 1) == 1);
  CHECK(cutoff(1, 0, 6) == 6);
}

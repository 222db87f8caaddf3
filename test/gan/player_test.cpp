// SPDX-License-Identifier: Apache-2.0
#include <catch2/catch.hpp>

#include "distributed/gradient_sync.h"
#include "gan/phase.h"
#include "support/computed_text.h"
#include "support/tensor_checks.h"

using namespace gantrain;

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

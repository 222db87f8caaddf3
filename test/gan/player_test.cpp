// SPDX-License-Identifier: Apache-2.0
#include "gan/player.h"

#include <catch2/catch.hpp>

#include "dist/gradient_sync.h"
#include "tensor_checks.h"

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
  CHECK(listener.heard == std::vector<std::string>{":6", "mapping:15"});
}

// SPDX-License-Identifier: Apache-2.0
#include "core/tensors.h"

#include "support/catch.h"
#include "support/tensor_checks.h"
#include "util/error.h"

using namespace gantrain;

namespace {

struct Net final : torch::nn::Module {
  Net() {
    weight = register_parameter("weight", torch::zeros({2, 3}));
    mean = register_buffer("mean", torch::zeros({2}));
  }
  at::Tensor weight, mean;
};

}  // namespace

TEST_CASE("StridedSamplesAreRowsOfTheGlobalBatch") {
  const Stream stream(1, "z");
  const at::Tensor all = normal(stream, {0, 1, 12}, {5});
  for (int64_t world : {1, 2, 3}) {
    for (int64_t rank = 0; rank < world; ++rank) {
      const at::Tensor mine = normal(stream, {rank, world, 12 / world}, {5});
      CHECK(torch::equal(mine, all.slice(0, rank, std::nullopt, world)));
    }
  }
}

TEST_CASE("StateIsParametersThenBuffersByName") {
  const Net net;
  const NamedTensors state = state_of(net);
  REQUIRE(state.size() == 2);
  CHECK(state[0].first == "weight");
  CHECK(state[1].first == "mean");
}

TEST_CASE("LoadingNamesTheTensorThatDoesNotFit") {
  Net net;
  load_into(net,
            {{"p.weight", torch::ones({2, 3})},
             {"p.mean", torch::ones({2})},
             {"p.more", torch::ones({9})}},
            "file",
            "p.");
  CHECK(net.weight.sum().item<float>() == 6);
  CHECK_THROWS_WITH(
      load_into(net, {{"weight", torch::ones({3, 2})}, {"mean", torch::ones({2})}}, "file"),
      "file: tensor weight has shape [3, 2], [2, 3] is needed");
  CHECK_THROWS_WITH(load_into(net, {{"weight", torch::ones({2, 3})}}, "file"),
                    "file: tensor mean is missing");
}

TEST_CASE("TheShaSeesNamesAndBytes") {
  const at::Tensor a = torch::zeros({4});
  const std::string sha = sha256_of({{"a", a}});
  CHECK(sha == sha256_of({{"a", a.clone()}}));
  CHECK(sha != sha256_of({{"b", a}}));
  CHECK(sha != sha256_of({{"a", a + 1}}));
}

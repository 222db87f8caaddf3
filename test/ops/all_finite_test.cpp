// SPDX-License-Identifier: Apache-2.0
#include <catch2/catch.hpp>

#include "core/torch.h"
#include "ops/adam/adam.h"

using namespace gantrain;

namespace {

std::vector<at::Tensor> gradients() {
  torch::manual_seed(1);
  return {
      torch::randn({300, 257}), torch::randn({5}) * 1e3, torch::zeros({0}), torch::randn({70000})};
}

}  // namespace

TEST_CASE("OneNumberThatIsNotFiniteIsFoundInWhicheverTensor") {
  CHECK(all_finite(gradients()) == true);
  for (const double bad : {NAN, -INFINITY}) {
    for (const size_t tensor : {0, 1, 3}) {
      CAPTURE(bad, tensor);
      std::vector<at::Tensor> all = gradients();
      all[tensor].view(-1)[-1] = bad;
      CHECK(all_finite(all) == false);
    }
  }
}

TEST_CASE("NumbersThatItCannotReadAreNotJudged") {
  CHECK_FALSE(all_finite({torch::ones({3}), torch::ones({3}, at::kDouble)}));
  CHECK(all_finite({}) == true);
}

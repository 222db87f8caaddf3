// SPDX-License-Identifier: Apache-2.0
#include "core/torch.h"
#include "distributed/gradient_sync.h"
#include "support/catch.h"

using namespace gantrain;

namespace {

std::string names_of(const NamedTensors& tensors) {
  std::string names;
  for (const auto& [name, tensor] : tensors) names += name + " ";
  return names;
}

}  // namespace

TEST_CASE("ParametersOutsideTheGraphAreFound") {
  const at::Tensor a = torch::ones({2}, torch::requires_grad()), b = torch::ones({2}),
                   c = torch::ones({2}, torch::requires_grad()),
                   d = torch::ones({2}, torch::requires_grad());
  const NamedTensors all = {{"a", a}, {"frozen", b}, {"c", c}, {"d", d}};
  CHECK(names_of(unused_parameters((a * b).sum() + d.detach().sum(), all)) == "c d ");
  CHECK(names_of(unused_parameters((a * c * d).exp().sum(), all)).empty());
  CHECK(names_of(unused_parameters(torch::ones({}), all)) == "a c d ");
  // As a penalty has it: the gradient of one graph inside another.
  const at::Tensor x = torch::ones({2}, torch::requires_grad());
  const at::Tensor scores = (x * a + c).square().sum();
  const at::Tensor gradient = torch::autograd::grad({(x * a + d).sum()}, {x}, {}, true, true)[0];
  CHECK(names_of(unused_parameters(gradient.square().sum(), all)) == "c d ");
  CHECK(names_of(unused_parameters(gradient.square().sum() + scores, all)) == "d ");
}

TEST_CASE("UnusedParametersGetZerosAndNothingElseChanges") {
  at::Tensor a = torch::full({3}, 0.7, torch::requires_grad()),
             b = torch::full({2}, INFINITY, torch::requires_grad());
  const at::Tensor loss = (a * a).sum();
  const at::Tensor whole = with_zero_gradients(loss, {{"b", b}});
  CHECK(torch::equal(whole.detach(), loss.detach()));
  whole.backward();
  CHECK(torch::equal(b.grad(), torch::zeros({2})));
  CHECK(torch::equal(a.grad(), 2 * a.detach()));
  CHECK(with_zero_gradients(loss, {}).is_same(loss));
}

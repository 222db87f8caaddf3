// SPDX-License-Identifier: Apache-2.0
#include "distributed/unused_parameters.h"

#include <torch/csrc/autograd/functions/accumulate_grad.h>
#include <torch/torch.h>

#include <unordered_set>

namespace gantrain {

namespace {

using torch::autograd::variable_list;

// (loss, parameter, ...) -> loss; its derivative by each parameter is zero.
struct ZeroGradients : torch::autograd::Function<ZeroGradients> {
  static variable_list forward(torch::autograd::AutogradContext* context,
                               const variable_list& inputs) {
    context->save_for_backward({inputs.begin() + 1, inputs.end()});
    return {inputs.front().clone()};
  }

  static variable_list backward(torch::autograd::AutogradContext* context,
                                const variable_list& gradients) {
    variable_list all = {gradients.front()};
    for (const at::Tensor& parameter : context->get_saved_variables())
      all.push_back(torch::zeros_like(parameter));
    return all;
  }
};

}  // namespace

NamedTensors unused_parameters(const at::Tensor& loss, const NamedTensors& parameters) {
  std::unordered_set<const torch::autograd::Node*> seen;
  std::unordered_set<const at::TensorImpl*> reached;
  std::vector<torch::autograd::Node*> open;
  if (loss.grad_fn()) open.push_back(loss.grad_fn().get());
  while (!open.empty()) {
    torch::autograd::Node* node = open.back();
    open.pop_back();
    if (!seen.insert(node).second) continue;
    if (const auto* leaf = dynamic_cast<torch::autograd::AccumulateGrad*>(node))
      reached.insert(leaf->variable.unsafeGetTensorImpl());
    for (const torch::autograd::Edge& edge : node->next_edges()) {
      if (edge.function) open.push_back(edge.function.get());
    }
  }
  NamedTensors unused;
  for (const auto& [name, parameter] : parameters) {
    if (parameter.requires_grad() && reached.count(parameter.unsafeGetTensorImpl()) == 0)
      unused.emplace_back(name, parameter);
  }
  return unused;
}

at::Tensor with_zero_gradients(const at::Tensor& loss, const NamedTensors& parameters) {
  if (parameters.empty()) return loss;
  variable_list inputs = {loss};
  for (const auto& [name, parameter] : parameters) inputs.push_back(parameter);
  return ZeroGradients::apply(inputs).front();
}

}  // namespace gantrain

// SPDX-License-Identifier: Apache-2.0
#include "distributed/unused_parameters.h"

#include <torch/csrc/autograd/functions/accumulate_grad.h>

#include <unordered_set>

#include "core/torch.h"

namespace gantrain {

namespace {

using torch::autograd::variable_list;

// (loss, parameter) -> loss; its derivative by the parameter is zero.
struct ZeroGradient : torch::autograd::Function<ZeroGradient> {
  static at::Tensor forward(torch::autograd::AutogradContext* context,
                            const at::Tensor& loss,
                            const at::Tensor& parameter) {
    context->save_for_backward({parameter});
    return loss.clone();
  }

  static variable_list backward(torch::autograd::AutogradContext* context,
                                const variable_list& gradients) {
    return {gradients.front(), torch::zeros_like(context->get_saved_variables().front())};
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
  at::Tensor whole = loss;
  for (const auto& [name, parameter] : parameters) whole = ZeroGradient::apply(whole, parameter);
  return whole;
}

}  // namespace gantrain

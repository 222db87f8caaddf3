// SPDX-License-Identifier: Apache-2.0
#include "distributed/rank_sum.h"

#include "core/torch.h"

namespace gantrain {

namespace {

// What the autograd graph can hold of a group.
struct HeldGroup final : torch::CustomClassHolder {
  explicit HeldGroup(std::shared_ptr<Group> g) : group(std::move(g)) {}
  std::shared_ptr<Group> group;
};

struct RankSum final : torch::autograd::Function<RankSum> {
  static at::Tensor forward(torch::autograd::AutogradContext* context,
                            const at::Tensor& x,
                            const std::shared_ptr<Group>& group) {
    context->saved_data["group"] = c10::IValue::make_capsule(c10::make_intrusive<HeldGroup>(group));
    at::Tensor sum = x.detach().clone(at::MemoryFormat::Contiguous);
    group->sum_(sum);
    return sum;
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list gradients) {
    const auto held =
        c10::static_intrusive_pointer_cast<HeldGroup>(context->saved_data["group"].toCapsule());
    return {RankSum::apply(gradients[0], held->group), at::Tensor()};
  }
};

}  // namespace

std::function<at::Tensor(const at::Tensor&)> rank_sum(std::shared_ptr<Group> group) {
  return [group = std::move(group)](const at::Tensor& x) { return RankSum::apply(x, group); };
}

}  // namespace gantrain

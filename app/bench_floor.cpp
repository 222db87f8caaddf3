// SPDX-License-Identifier: Apache-2.0
#include "bench_floor.h"

#include <ATen/core/dispatch/Dispatcher.h>

#include <algorithm>
#include <map>

#include "bench_convolution.h"
#include "core/torch.h"

namespace gantrain {

namespace {

struct Sum {
  Fastest fastest;
  double calls = 0;
};

// Adds up calls by their text; each distinct one is timed once.
class Floor {
 public:
  void add(const std::string& phase,
           double calls,
           const std::string& text,
           const std::function<Fastest()>& measure) {
    const auto [at, is_new] = distinct_.try_emplace(text);
    if (is_new) at->second.fastest = measure();
    at->second.calls += calls;
    phases_[phase] += calls * at->second.fastest.seconds;
  }

  Json to_json() const {
    std::vector<std::pair<std::string, Sum>> rows(distinct_.begin(), distinct_.end());
    std::stable_sort(rows.begin(), rows.end(), [](const auto& a, const auto& b) {
      return a.second.calls * a.second.fastest.seconds > b.second.calls * b.second.fastest.seconds;
    });
    Json json = {{"phases", phases_}, {"calls", Json::array()}};
    for (const auto& [text, sum] : rows) {
      json["calls"].push_back({{"call", text},
                               {"calls", sum.calls},
                               {"seconds", sum.fastest.seconds},
                               {"how", sum.fastest.how}});
    }
    return json;
  }

 private:
  std::map<std::string, Sum> distinct_;
  std::map<std::string, double> phases_;
};

// Random numbers in a tensor of that form; expanded axes have the stride 0.
at::Tensor random(const RecordedArgument& form) {
  int64_t last = 0;
  for (size_t axis = 0; axis < form.sizes.size(); ++axis)
    last += std::max<int64_t>(form.sizes[axis] - 1, 0) * form.strides[axis];
  return torch::rand({last + 1}).to(form.type).as_strided(form.sizes, form.strides);
}

// Runs any operator on fresh tensors of its arguments' forms.
Fastest as_called(const ProductCalls& call) {
  const torch::NoGradGuard no_graph;
  const c10::OperatorHandle operation =
      c10::Dispatcher::singleton().findSchemaOrThrow(call.name.c_str(), call.overload.c_str());
  torch::jit::Stack arguments;
  for (const RecordedArgument& argument : call.arguments) {
    if (argument.is_tensor) {
      arguments.emplace_back(random(argument));
    } else {
      arguments.push_back(argument.value);
    }
  }
  return {seconds_alone([&] {
            torch::jit::Stack stack = arguments;
            operation.callBoxed(&stack);
          }),
          "as called"};
}

}  // namespace

Json floor_of(const std::vector<ProductCalls>& calls) {
  Floor floor;
  for (const ProductCalls& call : calls) {
    const std::vector<ConvolutionForm> convolutions = convolutions_of(call);
    for (const ConvolutionForm& form : convolutions) {
      if (!form.is_depthwise())
        floor.add(call.phase, call.calls, form.text(), [&] { return fastest_of(form); });
    }
    if (convolutions.empty())
      floor.add(call.phase, call.calls, call.text, [&] { return as_called(call); });
  }
  return floor.to_json();
}

}  // namespace gantrain

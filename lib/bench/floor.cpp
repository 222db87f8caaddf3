// SPDX-License-Identifier: Apache-2.0
#include <ATen/core/dispatch/Dispatcher.h>

#include <algorithm>
#include <array>
#include <functional>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "bench/record.h"
#include "bench/worlds.h"
#include "core/torch.h"
#include "ops/convolution/convolution.h"

namespace gantrain {

namespace {

// A convolution y = x * w, or one of its gradients. All forms of it that LibTorch records are one
// of these three: a transposed convolution, for example, is the input's gradient.
struct ConvolutionForm {
  enum class Direction { kForward, kInputGradient, kWeightGradient };

  Direction direction = Direction::kForward;
  std::vector<int64_t> x, w, y;  // [N, I, H, W], [O, I / groups, kh, kw], [N, O, h, w]
  std::vector<int64_t> stride, padding, dilation, output_padding;
  int64_t groups = 1;
  at::ScalarType type = at::kFloat;

  bool is_depthwise() const { return groups > 1 && w[1] == 1; }
  std::string text() const {
    constexpr std::array<const char*, 3> kNames = {
        "convolution", "input gradient", "weight gradient"};
    const auto by = [](const std::vector<int64_t>& sizes) { return fmt::join(sizes, "x"); };
    return fmt::format("{} of {} with {}{}{}{}",
                       kNames[static_cast<size_t>(direction)],
                       by(x),
                       by(w),
                       stride[0] == 1 ? "" : fmt::format(", stride {}", stride[0]),
                       padding[0] == 0 ? "" : fmt::format(", padding {}", padding[0]),
                       type == at::kFloat ? "" : fmt::format(", {}", c10::toString(type)));
  }
};

// How a computation was fastest when it ran alone.
struct Fastest {
  double seconds = 0;
  std::string how;  // "LibTorch, channels-last"
};

using Direction = ConvolutionForm::Direction;

std::vector<int64_t> numbers(const RecordedArgument& argument) {
  if (argument.value.isIntList()) return argument.value.toIntVector();
  std::vector<int64_t> all;
  for (const c10::SymInt& number : argument.value.toSymIntVector())
    all.push_back(number.expect_int());
  return all;
}

// One number for each of the axes; a single one is for all of them.
std::vector<int64_t> each_axis(const RecordedArgument& argument, size_t axes) {
  std::vector<int64_t> all = numbers(argument);
  if (all.size() == 1) all.resize(axes, all.front());
  return all;
}

int64_t integer(const RecordedArgument& argument) {
  return argument.value.isInt() ? argument.value.toInt() : argument.value.toSymInt().expect_int();
}

// Pixels that the kernel reaches over.
int64_t reach(const ConvolutionForm& form, size_t axis) {
  return form.dilation[axis] * (form.w[axis + 2] - 1) + 1;
}

// The sizes of y, from those of x and w.
std::vector<int64_t> result_sizes(const ConvolutionForm& form) {
  std::vector<int64_t> y = {form.x[0], form.w[0]};
  for (size_t axis = 0; axis < form.x.size() - 2; ++axis) {
    const int64_t room = form.x[axis + 2] + 2 * form.padding[axis] - reach(form, axis);
    y.push_back(room / form.stride[axis] + 1);
  }
  return y;
}

// The sizes of x, from those of y and w.
std::vector<int64_t> input_sizes(const ConvolutionForm& form) {
  std::vector<int64_t> x = {form.y[0], form.w[1] * form.groups};
  for (size_t axis = 0; axis < form.y.size() - 2; ++axis) {
    x.push_back((form.y[axis + 2] - 1) * form.stride[axis] - 2 * form.padding[axis] +
                reach(form, axis) + form.output_padding[axis]);
  }
  return x;
}

// What the arguments stride, padding, ... say, which begin at `first`.
ConvolutionForm geometry(const ProductCalls& call, size_t first) {
  const std::vector<RecordedArgument>& all = call.arguments;
  const size_t axes = all[0].sizes.size() - 2;
  ConvolutionForm form;
  form.stride = each_axis(all[first], axes);
  form.padding = each_axis(all[first + 1], axes);
  form.dilation = each_axis(all[first + 2], axes);
  form.output_padding = each_axis(all[first + 4], axes);
  form.groups = integer(all[first + 5]);
  form.type = all[0].type;
  return form;
}

// aten::convolution(input, weight, bias, stride, padding, dilation, transposed, output_padding,
// groups), and aten::_convolution, which begins so.
ConvolutionForm forward_form(const ProductCalls& call) {
  ConvolutionForm form = geometry(call, 3);
  form.w = call.arguments[1].sizes;
  if (call.arguments[6].value.toBool()) {
    form.direction = Direction::kInputGradient;
    form.y = call.arguments[0].sizes;
    form.x = input_sizes(form);
  } else {
    form.x = call.arguments[0].sizes;
    form.y = result_sizes(form);
  }
  return form;
}

// aten::convolution_backward(grad_output, input, weight, bias_sizes, stride, padding, dilation,
// transposed, output_padding, groups, output_mask).
std::vector<ConvolutionForm> backward_forms(const ProductCalls& call) {
  ConvolutionForm form = geometry(call, 4);
  const bool transposed = call.arguments[7].value.toBool();
  form.w = call.arguments[2].sizes;
  form.x = call.arguments[transposed ? 0 : 1].sizes;
  form.y = call.arguments[transposed ? 1 : 0].sizes;
  const c10::List<bool> mask = call.arguments[10].value.toBoolList();
  std::vector<ConvolutionForm> all;
  if (mask[0]) {
    form.direction = transposed ? Direction::kForward : Direction::kInputGradient;
    all.push_back(form);
  }
  if (mask[1]) {
    form.direction = Direction::kWeightGradient;
    all.push_back(form);
  }
  return all;
}

// gantrain::convolution(a, b, direction, stride, padding, sizes of the result),
// ops/convolution/convolution.cpp.
ConvolutionForm own_form(const ProductCalls& call) {
  const std::vector<RecordedArgument>& all = call.arguments;
  ConvolutionForm form;
  form.direction = static_cast<Direction>(integer(all[2]));
  form.stride = {integer(all[3]), integer(all[3])};
  form.padding = {integer(all[4]), integer(all[4])};
  form.dilation = {1, 1};
  form.output_padding = {0, 0};
  form.type = all[0].type;
  (form.direction == Direction::kInputGradient ? form.y : form.x) = all[0].sizes;
  (form.direction == Direction::kWeightGradient ? form.y : form.w) = all[1].sizes;
  if (form.direction == Direction::kForward) form.y = result_sizes(form);
  if (form.direction == Direction::kInputGradient) form.x = numbers(all[5]);
  if (form.direction == Direction::kWeightGradient) form.w = numbers(all[5]);
  return form;
}

struct Operands {
  Tensor x, w, y;
};

Tensor random(at::IntArrayRef sizes, at::ScalarType type, at::MemoryFormat format) {
  return at::empty(sizes, at::TensorOptions().dtype(type).memory_format(format)).uniform_(-1, 1);
}

Tensor backward_call(const ConvolutionForm& form, const Operands& of, bool input) {
  const auto gradients = at::convolution_backward(of.y,
                                                  of.x,
                                                  of.w,
                                                  /*bias_sizes=*/c10::nullopt,
                                                  form.stride,
                                                  form.padding,
                                                  form.dilation,
                                                  /*transposed=*/false,
                                                  form.output_padding,
                                                  form.groups,
                                                  {input, !input, false});
  return input ? std::get<0>(gradients) : std::get<1>(gradients);
}

Tensor forward_call(const ConvolutionForm& form, const Operands& of, bool transposed) {
  return at::convolution(transposed ? of.y : of.x,
                         of.w,
                         /*bias=*/{},
                         form.stride,
                         form.padding,
                         form.dilation,
                         transposed,
                         form.output_padding,
                         form.groups);
}

ConvGeometry own_geometry(const ConvolutionForm& form) { return {form.stride[0], form.padding[0]}; }

// Whether gantrain's own algorithm can compute it.
bool has_own(const ConvolutionForm& form) {
  return form.x.size() == 4 && form.groups == 1 && form.type == at::kFloat &&
         form.stride[0] == form.stride[1] && form.padding[0] == form.padding[1] &&
         form.dilation[0] == 1 && form.dilation[1] == 1 &&
         winograd_fits(form.x, form.w, own_geometry(form));
}

Tensor own_call(const ConvolutionForm& form, const Operands& of) {
  const ConvGeometry geometry = own_geometry(form);
  if (form.direction == Direction::kForward) return winograd_forward(of.x, of.w, geometry);
  if (form.direction == Direction::kInputGradient)
    return winograd_input_gradient(of.y, of.w, form.x, geometry);
  return winograd_weight_gradient(of.x, of.y, form.w, geometry);
}

struct Algorithm {
  const char* name;
  std::function<Tensor()> run;
};

std::vector<Algorithm> algorithms(const ConvolutionForm& form, const Operands& of) {
  const bool input = form.direction == Direction::kInputGradient;
  std::vector<Algorithm> all;
  if (form.direction == Direction::kForward) {
    all.push_back({"LibTorch", [&] { return forward_call(form, of, false); }});
  } else {
    all.push_back({"LibTorch", [&, input] { return backward_call(form, of, input); }});
  }
  if (input) all.push_back({"LibTorch, transposed", [&] { return forward_call(form, of, true); }});
  if (has_own(form)) all.push_back({"minimal filtering", [&] { return own_call(form, of); }});
  return all;
}

// Returns the convolutions that a recorded call computes: none for a matrix product, two for a
// backward pass with both gradients.
std::vector<ConvolutionForm> convolutions_of(const ProductCalls& call) {
  if (call.name == "gantrain::convolution") return {own_form(call)};
  if (call.name == "aten::convolution_backward") return backward_forms(call);
  if (call.name == "aten::convolution" || call.name == "aten::_convolution")
    return {forward_form(call)};
  return {};
}

Fastest fastest_of(const ConvolutionForm& form) {
  const torch::NoGradGuard no_graph;
  Fastest fastest{std::numeric_limits<double>::infinity(), ""};
  for (const at::MemoryFormat format :
       {at::MemoryFormat::Contiguous, at::MemoryFormat::ChannelsLast}) {
    const bool last = format == at::MemoryFormat::ChannelsLast;
    if (last && form.x.size() != 4) continue;
    const Operands of = {random(form.x, form.type, format),
                         random(form.w, form.type, format),
                         random(form.y, form.type, format)};
    for (const Algorithm& algorithm : algorithms(form, of)) {
      // A first run takes longer, but hardly so much longer.
      const double seconds =
          seconds_alone([&] { algorithm.run(); }, /*hopeless=*/4 * fastest.seconds);
      if (seconds < fastest.seconds)
        fastest = {seconds,
                   fmt::format("{}, {}", algorithm.name, last ? "channels-last" : "contiguous")};
    }
  }
  return fastest;
}

struct FloorSum {
  Fastest fastest;
  double calls = 0;
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
  std::map<std::string, FloorSum> distinct;  // by their text; each is timed once
  std::map<std::string, double> phases;
  const auto add = [&](const ProductCalls& call,
                       const std::string& text,
                       const std::function<Fastest()>& measure) {
    const auto [at, is_new] = distinct.try_emplace(text);
    if (is_new) at->second.fastest = measure();
    at->second.calls += call.calls;
    phases[call.phase] += call.calls * at->second.fastest.seconds;
  };
  for (const ProductCalls& call : calls) {
    const std::vector<ConvolutionForm> convolutions = convolutions_of(call);
    for (const ConvolutionForm& form : convolutions) {
      if (!form.is_depthwise()) add(call, form.text(), [&] { return fastest_of(form); });
    }
    if (convolutions.empty()) add(call, call.text, [&] { return as_called(call); });
  }
  std::vector<std::pair<std::string, FloorSum>> rows(distinct.begin(), distinct.end());
  std::stable_sort(rows.begin(), rows.end(), [](const auto& a, const auto& b) {
    return a.second.calls * a.second.fastest.seconds > b.second.calls * b.second.fastest.seconds;
  });
  Json json = {{"phases", phases}, {"calls", Json::array()}};
  for (const auto& [text, sum] : rows) {
    json["calls"].push_back({{"call", text},
                             {"calls", sum.calls},
                             {"seconds", sum.fastest.seconds},
                             {"how", sum.fastest.how}});
  }
  return json;
}

}  // namespace gantrain

// SPDX-License-Identifier: Apache-2.0
// This file is compiled with NDEBUG, as LibTorch is: without it, at::RecordFunction::inputs()
// asserts a flag that the library never sets.
#include "bench/record.h"

#include <algorithm>
#include <array>
#include <map>
#include <mutex>
#include <optional>
#include <sstream>
#include <string_view>
#include <tuple>

#include "util/system.h"
#include "util/text.h"

namespace gantrain {

namespace {

// What counts as a convolution or a matrix product. A call inside another one of these does not
// count, except one of the same operator, which autocast makes of arguments that it has rounded.
constexpr std::array<std::string_view, 11> kProducts = {"gantrain::convolution",
                                                        "aten::convolution",
                                                        "aten::_convolution",
                                                        "aten::convolution_backward",
                                                        "aten::mm",
                                                        "aten::addmm",
                                                        "aten::bmm",
                                                        "aten::baddbmm",
                                                        "aten::addbmm",
                                                        "aten::addmv",
                                                        "aten::mv"};

bool is_product(std::string_view name) { return contains(kProducts, name); }

// A call that has begun. `entered` is the time before the recording of its beginning and `started`
// the time after: what recording costs is nobody's self time.
struct Frame final : at::ObserverContext {
  double entered = 0, started = 0;
  double children = 0;  // seconds, recording included
  std::string name, shapes;
  bool is_backward = false;  // in a backward pass
  bool is_node = false;      // of the autograd graph
  bool is_product = false;
  std::optional<ProductCalls> product;
  Frame* parent = nullptr;
};

using TimeKey = std::tuple<std::string, bool, std::string, std::string>;

// Callbacks of at::RecordFunction are plain functions, so what they record lies here.
std::mutex mutex;
std::string phase;
std::map<TimeKey, OperatorTime> sums;
std::map<std::pair<std::string, std::string>, ProductCalls> product_calls;  // by phase and text
thread_local Frame* innermost = nullptr;

std::string form_of(const at::Tensor& tensor) {
  std::string text;
  for (const int64_t size : tensor.sizes())
    text += (text.empty() ? "" : "x") + std::to_string(size);
  if (text.empty()) text = "[]";
  if (tensor.layout() != at::kStrided) return text + " opaque";
  if (tensor.dim() == 4 && !tensor.is_contiguous())
    text += tensor.is_contiguous(at::MemoryFormat::ChannelsLast) ? "cl" : "~";
  if (tensor.dim() != 4 && !tensor.is_contiguous()) text += "~";
  if (tensor.scalar_type() != at::kFloat) text += c10::toString(tensor.scalar_type());
  return text;
}

std::string forms_of(c10::ArrayRef<const c10::IValue> inputs) {
  std::string text;
  const auto append = [&text](const at::Tensor& tensor) {
    if (tensor.defined()) text += (text.empty() ? "" : " ") + form_of(tensor);
  };
  for (const c10::IValue& input : inputs) {
    if (input.isTensor()) append(input.toTensor());
    if (input.isTensorList()) {
      const auto all = input.toTensorVector();
      if (!all.empty()) append(all.front());
      text += " [" + std::to_string(all.size()) + " tensors]";
    }
  }
  return text;
}

// "UpFirDnNode" for "torch::autograd::CppNode<gantrain::(anonymous namespace)::UpFirDnNode>".
std::string short_name(std::string name) {
  for (const std::string_view part :
       {"torch::autograd::", "gantrain::", "(anonymous namespace)::", "CppNode<", ">"}) {
    for (size_t at; (at = name.find(part)) != std::string::npos;) name.erase(at, part.size());
  }
  return name;
}

ProductCalls product_of(const at::RecordFunction& call) {
  ProductCalls product;
  product.name = call.name();
  if (call.operator_name()) product.overload = call.operator_name()->overload_name;
  std::ostringstream text;
  text << call.name();
  for (const c10::IValue& input : call.inputs()) {
    RecordedArgument& argument = product.arguments.emplace_back();
    if (input.isTensor() && input.toTensor().defined()) {
      const at::Tensor& tensor = input.toTensor();
      argument.is_tensor = true;
      argument.sizes = tensor.sizes().vec();
      argument.strides = tensor.strides().vec();
      argument.type = tensor.scalar_type();
      text << ' ' << form_of(tensor);
    } else {
      argument.value = input;
      text << ' ' << input;
    }
  }
  product.text = text.str();
  return product;
}

// Notes the call where it is the outermost product, or takes the place of the outermost one.
void note_product(const at::RecordFunction& call, Frame& frame) {
  if (!is_product(frame.name)) return;
  frame.is_product = true;
  Frame* outermost = &frame;
  for (Frame* above = frame.parent; above != nullptr; above = above->parent) {
    if (above->is_product) outermost = above;
  }
  if (outermost == &frame || outermost->name == frame.name) outermost->product = product_of(call);
}

std::unique_ptr<at::ObserverContext> begin(const at::RecordFunction& call) {
  const double entered = monotonic_seconds();
  const std::string_view name = call.name();
  // The engine names the node again, inside this.
  if (name.substr(0, 16) == "autograd::engine") return nullptr;
  auto frame = std::make_unique<Frame>();
  frame->parent = innermost;
  frame->name =
      call.scope() == at::RecordScope::FUNCTION ? std::string(name) : short_name(call.name());
  frame->shapes = forms_of(call.inputs());
  frame->is_node = call.scope() == at::RecordScope::BACKWARD_FUNCTION;
  frame->is_backward = frame->is_node || (innermost != nullptr && innermost->is_backward);
  note_product(call, *frame);
  innermost = frame.get();
  frame->entered = entered;
  frame->started = monotonic_seconds();
  return frame;
}

void end(const at::RecordFunction& /*call*/, at::ObserverContext* context) {
  if (context == nullptr) return;
  const double now = monotonic_seconds();
  auto& frame = *static_cast<Frame*>(context);
  innermost = frame.parent;
  {
    const std::lock_guard<std::mutex> lock(mutex);
    if (!phase.empty()) {
      OperatorTime& sum =
          sums.try_emplace({phase, frame.is_backward, frame.name, frame.shapes},
                           OperatorTime{phase, frame.name, frame.shapes, frame.is_backward})
              .first->second;
      sum.calls += 1;
      sum.seconds += now - frame.started - frame.children;
      if (frame.product) {
        const auto key = std::make_pair(phase, frame.product->text);
        const auto at = product_calls.try_emplace(key, std::move(*frame.product)).first;
        at->second.phase = phase;
        at->second.calls += 1;
      }
    }
  }
  if (frame.parent != nullptr) frame.parent->children += monotonic_seconds() - frame.entered;
}

}  // namespace

OperatorRecorder::OperatorRecorder() {
  const std::lock_guard<std::mutex> lock(mutex);
  phase.clear();
  sums.clear();
  product_calls.clear();
  callback_ = at::addGlobalCallback(at::RecordFunctionCallback(begin, end)
                                        .needsInputs(true)
                                        .scopes({at::RecordScope::FUNCTION,
                                                 at::RecordScope::BACKWARD_FUNCTION,
                                                 at::RecordScope::USER_SCOPE}));
}

OperatorRecorder::~OperatorRecorder() { at::removeCallback(callback_); }

void OperatorRecorder::enter(const std::string& name) {
  const std::lock_guard<std::mutex> lock(mutex);
  phase = name;
}

std::vector<OperatorTime> OperatorRecorder::times() const {
  const std::lock_guard<std::mutex> lock(mutex);
  std::vector<OperatorTime> all;
  for (const auto& [key, sum] : sums) all.push_back(sum);
  std::sort(all.begin(), all.end(), [](const OperatorTime& a, const OperatorTime& b) {
    return a.seconds > b.seconds;
  });
  return all;
}

std::vector<ProductCalls> OperatorRecorder::products() const {
  const std::lock_guard<std::mutex> lock(mutex);
  std::vector<ProductCalls> all;
  for (const auto& [key, calls] : product_calls) all.push_back(calls);
  return all;
}

}  // namespace gantrain

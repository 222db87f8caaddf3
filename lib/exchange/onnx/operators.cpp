// SPDX-License-Identifier: Apache-2.0
// What each operator of LibTorch is in ONNX.
#include <torch/csrc/jit/ir/ir.h>

#include <algorithm>
#include <limits>

#include "core/torch.h"
#include "exchange/onnx/graph.h"

namespace gantrain {

namespace {

using Values = GraphValues;

c10::Symbol attribute(const char* name) { return c10::Symbol::attr(name); }

using Translation = std::function<GraphValue*(const Operator&)>;

Translation same(const std::string& kind) {
  return [kind](const Operator& o) { return o.node(kind, {o.in(0)}); };
}

Translation of_two(const std::string& kind) {
  return [kind](const Operator& o) { return o.node(kind, {o.in(0), o.in(1)}); };
}

// a + alpha b
Translation sum_of(const std::string& kind) {
  return [kind](const Operator& o) {
    const double alpha = o.number_or(2, 1);
    GraphValue* b = alpha == 1 ? o.in(1) : o.node("Mul", {o.in(1), o.scalar(alpha)});
    return o.node(kind, {o.in(0), b});
  };
}

GraphValue* unchanged(const Operator& o) { return o.in(0); }

GraphValue* inverse(const Operator& o, GraphValue* x) { return o.node("Reciprocal", {x}); }

GraphValue* power(const Operator& o) {
  const double exponent = o.number(1);
  if (exponent == 2) return o.node("Mul", {o.in(0), o.in(0)});
  if (exponent == 0.5) return o.node("Sqrt", {o.in(0)});
  return o.node("Pow", {o.in(0), o.scalar(exponent)});
}

GraphValue* leaky_relu(const Operator& o) {
  GraphValue* y = o.node("LeakyRelu", {o.in(0)});
  y->node()->f_(at::attr::alpha, o.number_or(1, 0.01));
  return y;
}

GraphValue* clipped(const Operator& o, bool low, bool high, size_t low_at, size_t high_at) {
  return o.node("Clip",
                {o.in(0),
                 low ? o.scalar(o.number(low_at)) : o.writer().absent(),
                 high ? o.scalar(o.number(high_at)) : o.writer().absent()});
}

GraphValue* product(const Operator& o) { return o.node("MatMul", {o.in(0), o.in(1)}); }

// beta c + alpha a b
GraphValue* added_product(const Operator& o) {
  GraphValue* y = o.node("Gemm", {o.in(1), o.in(2), o.in(0)});
  y->node()->f_(at::attr::beta, o.number(3))->f_(at::attr::alpha, o.number(4));
  return y;
}

// A number for each of the two axes of pictures, of one for both.
Ints of_both_axes(Ints given) { return given.size() == 1 ? Ints{given[0], given[0]} : given; }

GraphValue* convolution(const Operator& o) {
  const bool transposed = o.flag(6);
  Values inputs = {o.in(0), o.in(1)};
  if (o.given(2)) inputs.push_back(o.in(2));
  GraphValue* y = o.node(transposed ? "ConvTranspose" : "Conv", inputs);
  const Extents weight = o.shape(1);
  TORCH_CHECK(weight.size() == 4, "a convolution of ", weight.size() - 2, " axes");
  Ints padding = of_both_axes(o.wholes(4)), kernel;
  padding.insert(padding.end(), padding.begin(), padding.end());
  for (size_t k = 2; k < weight.size(); ++k) kernel.push_back(weight[k].two);
  y->node()
      ->is_(attribute("strides"), of_both_axes(o.wholes(3)))
      ->is_(attribute("pads"), padding)
      ->is_(attribute("dilations"), of_both_axes(o.wholes(5)))
      ->is_(attribute("kernel_shape"), kernel)
      ->i_(attribute("group"), o.whole(8));
  if (transposed) y->node()->is_(attribute("output_padding"), of_both_axes(o.wholes(7)));
  return y;
}

// x times a number, plus a number, for each channel.
GraphValue* batch_norm(const Operator& o) {
  const Tensor mean = o.fixed_tensor(3), var = o.fixed_tensor(4);
  TORCH_CHECK(!o.flag(5), "batch statistics in evaluation mode");
  Tensor scale = (var.to(at::kDouble) + o.number(7)).rsqrt();
  if (o.given(1)) scale = scale * o.fixed_tensor(1);
  Tensor shift = -mean.to(at::kDouble) * scale;
  if (o.given(2)) shift = shift + o.fixed_tensor(2);
  Ints form(o.shape(0).size(), 1);
  form[1] = -1;
  GraphValue* scaled = o.node("Mul", {o.in(0), o.writer().constant(scale.reshape(form), o.type())});
  return o.node("Add", {scaled, o.writer().constant(shift.reshape(form), o.type())});
}

struct Cut {
  int64_t axis, first, end, step = 1;
};

GraphValue* sliced(const Operator& o, GraphValue* x, const std::vector<Cut>& cuts) {
  Ints first, end, axes, steps;
  for (const Cut& cut : cuts) {
    first.push_back(cut.first);
    end.push_back(cut.end);
    axes.push_back(cut.axis);
    steps.push_back(cut.step);
  }
  return o.node("Slice",
                {x,
                 o.writer().ints(first),
                 o.writer().ints(end),
                 o.writer().ints(axes),
                 o.writer().ints(steps)});
}

constexpr int64_t kToTheEnd = std::numeric_limits<int64_t>::max();

// LibTorch names the last axis first. What is taken away is sliced off: not every runtime takes
// negative pads.
GraphValue* padded(const Operator& o) {
  const Ints given = o.wholes(1);
  const Extents shape = o.shape(0);
  const size_t axes = shape.size();
  Ints pads(2 * axes, 0);
  std::vector<Cut> cuts;
  for (size_t k = 0; 2 * k < given.size(); ++k) {
    const size_t axis = axes - 1 - k;
    const int64_t before = given[2 * k], after = given[2 * k + 1];
    pads[axis] = std::max<int64_t>(before, 0);
    pads[axes + axis] = std::max<int64_t>(after, 0);
    if (before < 0 || after < 0)
      cuts.push_back({static_cast<int64_t>(axis),
                      std::max<int64_t>(-before, 0),
                      after < 0 ? shape[axis].two + after : kToTheEnd});
  }
  GraphValue* x = cuts.empty() ? o.in(0) : sliced(o, o.in(0), cuts);
  if (std::all_of(pads.begin(), pads.end(), [](int64_t p) { return p == 0; })) return x;
  return o.node("Pad", {x, o.writer().ints(pads), o.scalar(o.number(2))});
}

GraphValue* part(const Operator& o) {
  const Extents shape = o.shape(0);
  const int64_t axis = o.axis(1, static_cast<int64_t>(shape.size()));
  const Extent all = shape[axis];
  const Extent first = o.given(2) ? o.extents(2)[0] : Extent{};
  const Extent end = o.given(3) ? o.extents(3)[0] : all;
  if (first == Extent{} && end.two >= all.two && end.three >= all.three && o.whole(4) == 1)
    return o.in(0);
  TORCH_CHECK(first.fixed() && (end.fixed() || end == all), "a part of the batch");
  return sliced(o, o.in(0), {{axis, first.two, end.fixed() ? end.two : kToTheEnd, o.whole(4)}});
}

GraphValue* selected(const Operator& o) {
  const int64_t axes = static_cast<int64_t>(o.shape(0).size());
  GraphValue* y = o.node(
      "Gather", {o.in(0), o.writer().constant(torch::full({}, o.whole(2), at::kLong), at::kLong)});
  y->node()->i_(at::attr::axis, o.axis(1, axes));
  return y;
}

// Gather counts negative numbers from the end: they become numbers beyond it, which are errors.
GraphValue* row_number(const Operator& o, GraphValue* given, int64_t rows) {
  Writer& graph = o.writer();
  GraphValue* turns = graph.constant(torch::full({}, -rows, at::kLong), at::kLong);
  return graph.node("Max", {given, graph.node("Mul", {given, turns}, at::kLong)}, at::kLong);
}

GraphValue* rows(const Operator& o) {       // embedding: weight, indices
  const int64_t count = o.shape(0)[0].two;  // of a parameter, which no batch makes longer
  GraphValue* y = o.node("Gather", {o.in(0), row_number(o, o.in(1, at::kLong), count)});
  y->node()->i_(at::attr::axis, 0);
  return y;
}

// zeros.scatter_(1, index, 1): a row of the unit matrix, so that a number that is no class is an
// error and no picture.
GraphValue* one_hot(const Operator& o) {
  const Tensor zeros = o.fixed_tensor(0);
  TORCH_CHECK(o.whole(1) == 1 && o.number(3) == 1 && zeros.dim() == 2 && !zeros.any().item<bool>(),
              "a scatter that is no one-hot vector");
  GraphValue* given =
      o.writer().node("Squeeze", {o.in(2, at::kLong), o.writer().ints({1})}, at::kLong);
  GraphValue* index = row_number(o, given, zeros.size(1));
  GraphValue* y =
      o.node("Gather", {o.writer().constant(torch::eye(zeros.size(1)), o.type()), index});
  y->node()->i_(at::attr::axis, 0);
  return y;
}

GraphValue* reshaped(const Operator& o, GraphValue* x, const Extents& shape) {
  Ints form;
  for (const Extent& e : shape) form.push_back(e.fixed() ? e.two : -1);
  TORCH_CHECK(std::count(form.begin(), form.end(), -1) <= 1, "two axes grow with the batch");
  return o.node("Reshape", {x, o.writer().ints(form)});
}

GraphValue* viewed(const Operator& o) {
  return o.shape(0) == o.result_shape() ? o.in(0) : reshaped(o, o.in(0), o.result_shape());
}

GraphValue* expanded_to(const Operator& o, GraphValue* x, Extents from, const Extents& to) {
  while (from.size() < to.size()) from.insert(from.begin(), Extent{1, 1});
  Ints form;
  bool grows = false;
  for (size_t k = 0; k < to.size(); ++k) {
    grows = grows || (k == 0 && from[k].fixed() && !to[k].fixed());
    TORCH_CHECK(from[k] == to[k] || to[k].fixed() || k == 0, "expands to the batch");
    form.push_back(from[k] == to[k] || !to[k].fixed() ? 1 : to[k].two);
  }
  GraphValue* y = x;
  if (std::any_of(form.begin(), form.end(), [](int64_t n) { return n != 1; }))
    y = o.node("Expand", {x, o.writer().ints(form)});
  return grows ? o.writer().for_batch(y, static_cast<int64_t>(to.size())) : y;
}

GraphValue* expanded(const Operator& o) {
  return expanded_to(o, o.in(0), o.shape(0), o.result_shape());
}

GraphValue* copied(const Operator& o) {  // copy_(self, source): all of self
  return expanded_to(o, o.in(1), o.shape(1), o.result_shape());
}

GraphValue* transposed(const Operator& o, Ints order) {
  GraphValue* y = o.node("Transpose", {o.in(0)});
  y->node()->is_(at::attr::perm, std::move(order));
  return y;
}

GraphValue* permuted(const Operator& o) {
  Ints order = o.wholes(1);
  for (int64_t& a : order) a = a < 0 ? a + static_cast<int64_t>(order.size()) : a;
  return transposed(o, order);
}

GraphValue* swapped(const Operator& o, int64_t a, int64_t b) {
  Ints order;
  for (size_t k = 0; k < o.shape(0).size(); ++k) order.push_back(static_cast<int64_t>(k));
  std::swap(order.at(a), order.at(b));
  return transposed(o, order);
}

GraphValue* flipped(const Operator& o) {
  std::vector<Cut> cuts;
  for (const int64_t axis : o.wholes(1))
    cuts.push_back({axis, -1, std::numeric_limits<int64_t>::min(), -1});
  return sliced(o, o.in(0), cuts);
}

// A tensor of one number, in the form of another tensor.
GraphValue* filled(const Operator& o, double number) {
  Ints form;
  for (const Extent& e : o.result_shape()) form.push_back(e.fixed() ? e.two : 1);
  return o.writer().constant(torch::full(form, number, at::kDouble), o.type());
}

GraphValue* joined(const Operator& o, int64_t axis, bool anew) {
  const Extents shape = o.result_shape();
  Values parts;
  for (size_t k = 0; k < o.count(0); ++k) {
    const Extents own = o.shape(0, k);
    GraphValue* x = o.in(0, {}, k);
    // Constants have one row for the whole batch.
    if (!own.empty() && !own[0].fixed() && (anew || axis != 0) &&
        x->node()->kind() == at::prim::Param)
      x = o.writer().for_batch(x, static_cast<int64_t>(own.size()));
    parts.push_back(anew ? o.node("Unsqueeze", {x, o.writer().ints({axis})}) : x);
  }
  GraphValue* y = o.node("Concat", parts);
  y->node()->i_(at::attr::axis, axis);
  return y;
}

GraphValue* reduced(const Operator& o, const std::string& kind, bool axes_are_an_input) {
  const auto all = static_cast<int64_t>(o.shape(0).size());
  Ints axes = o.wholes(1);
  for (int64_t& a : axes) a = a < 0 ? a + all : a;
  if (axes.empty())
    for (int64_t a = 0; a < all; ++a) axes.push_back(a);
  Values inputs = {o.in(0)};
  if (axes_are_an_input) inputs.push_back(o.writer().ints(axes));
  GraphValue* y = o.node(kind, inputs);
  if (!axes_are_an_input) y->node()->is_(at::attr::axes, axes);
  y->node()->i_(attribute("keepdims"), o.flag(2) ? 1 : 0);
  return y;
}

GraphValue* norm(const Operator& o) {  // linalg_vector_norm: x, order, axes, keepdim
  TORCH_CHECK(o.number(1) == 2, "a norm of order ", o.number(1));
  const auto all = static_cast<int64_t>(o.shape(0).size());
  Ints axes = o.wholes(2);
  for (int64_t& a : axes) a = a < 0 ? a + all : a;
  GraphValue* y = o.node("ReduceL2", {o.in(0)});
  y->node()->is_(at::attr::axes, axes)->i_(attribute("keepdims"), o.flag(3) ? 1 : 0);
  return y;
}

GraphValue* mean_of_all(const Operator& o) {
  GraphValue* y = o.node("ReduceMean", {o.in(0)});
  y->node()->i_(attribute("keepdims"), 0);
  return y;
}

GraphValue* gated(const Operator& o) {  // glu
  const Extents shape = o.shape(0);
  const int64_t axis = o.axis(1, static_cast<int64_t>(shape.size())), half = shape[axis].two / 2;
  GraphValue* gate = o.node("Sigmoid", {sliced(o, o.in(0), {{axis, half, kToTheEnd}})});
  return o.node("Mul", {sliced(o, o.in(0), {{axis, 0, half}}), gate});
}

GraphValue* enlarged(const Operator& o) {  // upsample_nearest2d
  const Extents from = o.shape(0), to = o.result_shape();
  const Tensor scales = torch::tensor({1.0,
                                       1.0,
                                       static_cast<double>(to[2].two) / from[2].two,
                                       static_cast<double>(to[3].two) / from[3].two});
  GraphValue* y =
      o.node("Resize", {o.in(0), o.writer().absent(), o.writer().constant(scales, at::kFloat)});
  y->node()
      ->s_(attribute("mode"), "nearest")
      ->s_(attribute("coordinate_transformation_mode"), "asymmetric")
      ->s_(attribute("nearest_mode"), "floor");
  return y;
}

GraphValue* averaged(const Operator& o) {  // avg_pool2d
  TORCH_CHECK(!o.flag(4) && !o.given(6), "an average over parts of a window");
  const Ints kernel = o.wholes(1), stride = o.wholes(2);
  Ints padding = of_both_axes(o.wholes(3));
  padding.insert(padding.end(), padding.begin(), padding.end());
  GraphValue* y = o.node("AveragePool", {o.in(0)});
  y->node()
      ->is_(attribute("kernel_shape"), of_both_axes(kernel))
      ->is_(attribute("strides"), of_both_axes(stride.empty() ? kernel : stride))
      ->is_(attribute("pads"), padding)
      ->i_(attribute("count_include_pad"), o.flag(5) ? 1 : 0);
  return y;
}

GraphValue* chosen(const Operator& o) {
  return o.node("Where", {o.in(0, at::kBool), o.in(1), o.in(2)});
}

using Translations = std::map<std::string, Translation>;

Translations arithmetic() {
  return {
      {"neg", same("Neg")},
      {"abs", same("Abs")},
      {"sqrt", same("Sqrt")},
      {"exp", same("Exp")},
      {"log", same("Log")},
      {"sin", same("Sin")},
      {"cos", same("Cos")},
      {"tanh", same("Tanh")},
      {"relu", same("Relu")},
      {"sigmoid", same("Sigmoid")},
      {"softplus", same("Softplus")},
      {"reciprocal", same("Reciprocal")},
      {"mul", of_two("Mul")},
      {"div", of_two("Div")},
      {"maximum", of_two("Max")},
      {"minimum", of_two("Min")},
      {"add", sum_of("Add")},
      {"sub", sum_of("Sub")},
      {"mm", product},
      {"bmm", product},
      {"addmm", added_product},
      {"pow", power},
      {"leaky_relu", leaky_relu},
      {"convolution", convolution},
      {"native_batch_norm", batch_norm},
      {"norm", norm},
      {"linalg_vector_norm", norm},
      {"glu", gated},
      {"upsample_nearest2d", enlarged},
      {"avg_pool2d", averaged},
      {"where", chosen},
      {"rsqrt", [](const Operator& o) { return inverse(o, o.node("Sqrt", {o.in(0)})); }},
      {"silu",
       [](const Operator& o) {
         return o.node("Mul", {o.in(0), o.node("Sigmoid", {o.in(0)})});
       }},
      {"rsub",
       [](const Operator& o) {
         TORCH_CHECK(o.number_or(2, 1) == 1, "a factor of rsub");
         return o.node("Sub", {o.in(1), o.in(0)});
       }},
      {"lerp",
       [](const Operator& o) {
         GraphValue* way = o.node("Sub", {o.in(1), o.in(0)});
         return o.node("Add", {o.in(0), o.node("Mul", {way, o.in(2)})});
       }},
      {"addcmul",
       [](const Operator& o) {
         TORCH_CHECK(o.number_or(3, 1) == 1, "a factor of addcmul");
         return o.node("Add", {o.in(0), o.node("Mul", {o.in(1), o.in(2)})});
       }},
      {"clamp", [](const Operator& o) { return clipped(o, o.given(1), o.given(2), 1, 2); }},
      {"clamp_min", [](const Operator& o) { return clipped(o, true, false, 1, 1); }},
      {"clamp_max", [](const Operator& o) { return clipped(o, false, true, 1, 1); }},
      {"sum", [](const Operator& o) { return reduced(o, "ReduceSum", true); }},
      {"mean",
       [](const Operator& o) {
         return o.given(1) ? reduced(o, "ReduceMean", false) : mean_of_all(o);
       }},
  };
}

// What moves, copies or makes numbers.
Translations forms() {
  return {
      {"constant_pad_nd", padded},
      {"slice", part},
      {"select", selected},
      {"embedding", rows},
      {"scatter", one_hot},
      {"view", viewed},
      {"_unsafe_view", viewed},
      {"reshape", viewed},
      {"_reshape_alias", viewed},
      {"unsqueeze", viewed},
      {"squeeze", viewed},
      {"expand", expanded},
      {"copy", copied},
      {"permute", permuted},
      {"flip", flipped},
      {"alias", unchanged},
      {"clone", unchanged},
      {"detach", unchanged},
      {"contiguous", unchanged},
      {"_to_copy", unchanged},
      {"t", [](const Operator& o) { return swapped(o, 0, 1); }},
      {"transpose",
       [](const Operator& o) {
         const auto axes = static_cast<int64_t>(o.shape(0).size());
         return swapped(o, o.axis(1, axes), o.axis(2, axes));
       }},
      {"zeros_like", [](const Operator& o) { return filled(o, 0); }},
      {"ones_like", [](const Operator& o) { return filled(o, 1); }},
      {"cat",
       [](const Operator& o) {
         return joined(o, o.axis(1, static_cast<int64_t>(o.result_shape().size())), false);
       }},
      {"stack",
       [](const Operator& o) {
         return joined(o, o.axis(1, static_cast<int64_t>(o.result_shape().size())), true);
       }},
  };
}

const Translations& translations() {
  static const Translations all = [] {
    Translations both = arithmetic();
    both.merge(forms());
    return both;
  }();
  return all;
}

// Operators that write into their first argument end in "_".
std::string plain(std::string name) {
  name = name.substr(name.find("::") + 2);
  if (!name.empty() && name.back() == '_') name.pop_back();
  return name;
}

}  // namespace

const std::set<std::string>& onnx_operators() {
  static const std::set<std::string> names = [] {
    std::set<std::string> all;
    for (const auto& [name, translation] : translations()) {
      all.insert("aten::" + name);
      all.insert("aten::" + name + "_");
    }
    return all;
  }();
  return names;
}

GraphValue* translated(const Operator& op, const std::string& name) {
  const auto found = translations().find(plain(name));
  TORCH_CHECK(found != translations().end(), name, " is not known in ONNX");
  return found->second(op);
}

}  // namespace gantrain

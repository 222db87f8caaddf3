// SPDX-License-Identifier: Apache-2.0
// Operators of LibTorch that its meta device does not know without Python, or of which a call is
// not one kernel.
#include <algorithm>
#include <cmath>
#include <functional>

#include "core/torch.h"
#include "ops/counting/counted.h"

namespace gantrain {

using at::Tensor;

namespace {

Tensor tensor_at(const IValues& arguments, size_t i) {
  return arguments[i].isTensor() ? arguments[i].toTensor() : Tensor();
}

std::vector<int64_t> numbers_at(const IValues& arguments, size_t i) {
  if (arguments[i].isIntList()) return arguments[i].toIntVector();
  std::vector<int64_t> all;
  for (const c10::SymInt& number : arguments[i].toSymIntVector())
    all.push_back(number.expect_int());
  return all;
}

int64_t number_at(const IValues& arguments, size_t i) {
  return arguments[i].isInt() ? arguments[i].toInt() : arguments[i].toSymInt().expect_int();
}

int64_t axis_of(const std::vector<int64_t>& numbers, int64_t axis) {
  return numbers.size() == 1 ? numbers[0] : numbers[static_cast<size_t>(axis)];
}

Tensor empty_in(const Tensor& t, at::IntArrayRef sizes, at::MemoryFormat format) {
  return at::empty(sizes, t.options().memory_format(format));
}

// --- convolutions: one kernel for each result; cuDNN takes all tensors in one layout, and what
// comes in another is copied first; a bias is added afterwards.

at::MemoryFormat cudnn_layout_of(const Tensor& x, const Tensor& w) {
  const auto last = at::MemoryFormat::ChannelsLast;
  const bool either = x.suggest_memory_format() == last || w.suggest_memory_format() == last;
  return either ? last : at::MemoryFormat::Contiguous;
}

Tensor in_layout(const Tensor& t, at::MemoryFormat format) {
  if (t.is_contiguous(format)) return t;
  Tensor copy = empty_in(t, t.sizes(), format);
  count_call("layout for a convolution", 1, {t}, {copy});
  return copy;
}

// Filters of one map each are limited by memory: they are no products.
bool counts_as_depthwise(const Tensor& w, int64_t groups) { return groups > 1 && w.size(1) == 1; }

void count_product(const char* name,
                   const std::vector<Tensor>& read,
                   const Tensor& out,
                   bool counts) {
  double floor = bytes_of(out);
  for (const Tensor& t : read) floor += bytes_of(t);
  count_call(name, 1, read, {out}, counts ? floor : 0);
}

// convolution(input, weight, bias, stride, padding, dilation, transposed, output_padding, groups)
IValues counted_convolution(const IValues& a) {
  const Tensor given = tensor_at(a, 0), w = tensor_at(a, 1), bias = tensor_at(a, 2);
  const auto stride = numbers_at(a, 3), padding = numbers_at(a, 4), dilation = numbers_at(a, 5),
             more = numbers_at(a, 7);
  const bool transposed = a[6].toBool();
  const int64_t groups = number_at(a, 8);
  const at::MemoryFormat format = cudnn_layout_of(given, w);
  const Tensor x = in_layout(given, format), filter = in_layout(w, format);
  std::vector<int64_t> sizes{x.size(0), transposed ? w.size(1) * groups : w.size(0)};
  for (int64_t axis = 0; axis < x.dim() - 2; ++axis) {
    const int64_t in = x.size(axis + 2), pad = 2 * axis_of(padding, axis),
                  step = axis_of(stride, axis),
                  reach = axis_of(dilation, axis) * (w.size(axis + 2) - 1);
    sizes.push_back(transposed ? (in - 1) * step - pad + reach + axis_of(more, axis) + 1
                               : (in + pad - reach - 1) / step + 1);
  }
  const Tensor y = empty_in(x, sizes, format);
  count_product("convolution", {x, filter}, y, !counts_as_depthwise(w, groups));
  if (bias.defined()) count_call("bias of a convolution", 1, {y, bias}, {y});
  return {y};
}

// convolution_backward(grad, input, weight, bias_sizes, stride, padding, dilation, transposed,
// output_padding, groups, output_mask)
IValues counted_convolution_backward(const IValues& a) {
  const Tensor x = tensor_at(a, 1), w = tensor_at(a, 2);
  const at::MemoryFormat format = cudnn_layout_of(x, w);
  const Tensor dy = in_layout(tensor_at(a, 0), format);
  const c10::List<bool> wanted = a[10].toBoolList();
  const bool counts = !counts_as_depthwise(w, number_at(a, 9));
  IValues results(3, c10::IValue(Tensor()));
  if (wanted[0]) {
    const Tensor dx = empty_in(x, x.sizes(), format);
    count_product("convolution's gradient by its input", {dy, in_layout(w, format)}, dx, counts);
    results[0] = dx;
  }
  if (wanted[1]) {
    const Tensor dw = empty_in(w, w.sizes(), format);
    count_product("convolution's gradient by its weight", {dy, in_layout(x, format)}, dw, counts);
    results[1] = dw;
  }
  if (wanted[2]) {
    const Tensor db = at::empty({dy.size(1)}, dy.options());
    count_call("convolution's gradient by its bias", 1, {dy}, {db});
    results[2] = db;
  }
  return results;
}

// --- sampling: grid_sampler_2d(input, grid, ...), and its derivative (grad, input, grid, ...,
// output_mask)

IValues counted_grid_sampler(const IValues& a) {
  const Tensor x = tensor_at(a, 0), grid = tensor_at(a, 1);
  const Tensor y = at::empty({x.size(0), x.size(1), grid.size(1), grid.size(2)}, x.options());
  count_call("aten::grid_sampler_2d", 1, {x, grid}, {y});
  return {y};
}

// It adds into zeros.
IValues counted_grid_sampler_backward(const IValues& a) {
  const Tensor dy = tensor_at(a, 0), x = tensor_at(a, 1), grid = tensor_at(a, 2);
  const c10::List<bool> wanted = a.back().toBoolList();
  const Tensor dx = wanted[0] ? at::empty_like(x) : Tensor();
  const Tensor dgrid = at::empty_like(grid);
  count_call("aten::grid_sampler_2d_backward", wanted[0] ? 2 : 1, {dy, x, grid}, {dx, dx, dgrid});
  return {dx, dgrid};
}

// --- batch normalisation: native_batch_norm(input, weight, bias, mean, var, training, ...), and
// its derivative (grad, input, weight, mean, var, save_mean, save_invstd, ..., output_mask)

IValues counted_batch_norm(const IValues& a) {
  const Tensor x = tensor_at(a, 0), y = at::empty_like(x);
  const bool training = a[5].toBool();
  const Tensor mean = at::empty({training ? x.size(1) : 0}, x.options().dtype(at::kFloat));
  const Tensor inverse = at::empty_like(mean);
  // Statistics, then the result.
  if (training) {
    count_call("aten::native_batch_norm", 2, {x, x}, {y, mean, inverse});
  } else {
    count_call("aten::native_batch_norm", 1, {x}, {y});
  }
  return {y, mean, inverse};
}

IValues counted_batch_norm_backward(const IValues& a) {
  const Tensor dy = tensor_at(a, 0), x = tensor_at(a, 1), w = tensor_at(a, 2);
  const Tensor dx = at::empty_like(x);
  const Tensor dw = w.defined() ? at::empty_like(w) : Tensor();
  const Tensor db = w.defined() ? at::empty_like(w) : Tensor();
  count_call("aten::native_batch_norm_backward", 2, {dy, x, dy, x}, {dx, dw, db});
  return {dx, dw, db};
}

// --- reductions whose result has the shape of a sum: var and std (input, dim, correction, keepdim)

IValues counted_spread(const IValues& a, const std::string& name, bool with_mean) {
  const Tensor x = tensor_at(a, 0);
  at::OptionalIntArrayRef axes;
  std::vector<int64_t> given;
  if (a[1].isIntList()) axes = (given = a[1].toIntVector());
  const Tensor out = at::sum(x, axes, a.back().toBool());
  const Tensor mean = with_mean ? at::empty_like(out) : Tensor();
  count_call(name, 1, {x}, {out, mean});
  return with_mean ? IValues{out, mean} : IValues{out};
}

// --- operators over lists of tensors: LibTorch's kernels take so many tensors of each of `depth`
// lists, or 320 pieces of 65,536 numbers, a launch (ATen/native/cuda/MultiTensorApply.cuh).

int64_t launches_over(const std::vector<Tensor>& list, size_t depth) {
  constexpr std::array<int64_t, 5> kTensors = {110, 64, 48, 36, 30};
  constexpr int64_t kPieces = 320, kPiece = 65536;
  const int64_t most = kTensors.at(std::min<size_t>(std::max<size_t>(depth, 1), 5) - 1);
  int64_t launches = 0, tensors = 0, pieces = 0;
  for (const Tensor& t : list) {
    if (t.numel() == 0) continue;
    ++tensors;
    for (int64_t left = (t.numel() + kPiece - 1) / kPiece; left > 0; --left) {
      ++pieces;
      const bool full = (tensors == most && left == 1) || pieces == kPieces;
      if (!full) continue;
      ++launches;
      pieces = 0;
      tensors = left == 1 ? 0 : 1;  // a tensor that is cut goes on in the next launch
    }
  }
  return launches + (pieces > 0 ? 1 : 0);
}

bool is_list(const c10::IValue& value) { return value.isTensorList(); }

IValues over_lists(const c10::OperatorHandle& op, const IValues& a) {
  const auto& schema = op.schema();
  std::vector<Tensor> read, written, first;
  size_t depth = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    const auto* alias = schema.arguments()[i].alias_info();
    if (a[i].isTensor()) read.push_back(a[i].toTensor());
    if (!is_list(a[i]) || a[i].toTensorVector().empty()) continue;
    const std::vector<Tensor> list = a[i].toTensorVector();
    // The steps of an optimizer are single numbers beside its lists.
    if (schema.arguments()[i].name() != "state_steps") ++depth;
    if (first.empty()) first = list;
    read.insert(read.end(), list.begin(), list.end());
    if (alias != nullptr && alias->isWrite())
      written.insert(written.end(), list.begin(), list.end());
  }
  const bool norms = schema.name() == "aten::_foreach_norm";
  IValues results;
  if (!schema.returns().empty()) {
    std::vector<Tensor> made;
    for (const Tensor& t : first)
      made.push_back(norms ? at::empty({}, t.options()) : at::empty_like(t));
    written.insert(written.end(), made.begin(), made.end());
    results.emplace_back(made);
    ++depth;
  }
  count_call(schema.name(), launches_over(first, depth) + (norms ? 1 : 0), read, written);
  return results;
}

// --- padding by pictures' own pixels (input, [left, right, top, bottom]), and its derivative
// (grad, input, padding), which adds into zeros

bool pads(const std::string& name) {
  return name == "aten::reflection_pad2d" || name == "aten::replication_pad2d";
}
bool pads_backward(const std::string& name) {
  return name == "aten::reflection_pad2d_backward" || name == "aten::replication_pad2d_backward";
}

IValues padded(const std::string& name, const IValues& a) {
  const Tensor x = tensor_at(a, 0);
  const auto p = numbers_at(a, 1);
  std::vector<int64_t> sizes = x.sizes().vec();
  sizes.back() += p[0] + p[1];
  sizes[sizes.size() - 2] += p[2] + p[3];
  const Tensor y = empty_in(x, sizes, x.suggest_memory_format());
  count_call(name, 1, {x}, {y});
  return {y};
}

IValues padded_backward(const std::string& name, const IValues& a) {
  const Tensor dy = tensor_at(a, 0), dx = at::empty_like(tensor_at(a, 1));
  count_call(name, 2, {dy}, {dx, dx});
  return {dx};
}

// --- operators of one kernel whose result has the shape that all arguments broadcast to

bool has_shape_of_arguments(const std::string& name) {
  for (const char* one : {"aten::where", "aten::flip", "aten::relu", "aten::roll"}) {
    if (name == one) return true;
  }
  return false;
}

IValues elementwise(const std::string& name, const IValues& a) {
  std::vector<Tensor> read;
  for (const c10::IValue& value : a) {
    if (value.isTensor()) read.push_back(value.toTensor());
  }
  std::vector<int64_t> sizes;
  for (const Tensor& t : read) sizes = at::infer_size(sizes, t.sizes());
  Tensor out = at::empty(sizes, read.back().options());
  for (const Tensor& t : read) {
    if (t.sizes() == out.sizes() && t.is_non_overlapping_and_dense())
      out = at::empty_strided(sizes, t.strides(), read.back().options());
  }
  count_call(name, 1, read, {out});
  return {out};
}

// The argument that an operator without a shape function writes into and returns, if it does.
std::optional<size_t> written_by(const c10::OperatorHandle& op) {
  const auto& schema = op.schema();
  const bool known = op.hasKernelForDispatchKey(c10::DispatchKey::Meta) ||
                     op.hasKernelForDispatchKey(c10::DispatchKey::CompositeExplicitAutograd) ||
                     op.hasKernelForDispatchKey(c10::DispatchKey::CompositeImplicitAutograd);
  if (known || schema.returns().size() != 1) return std::nullopt;
  const auto* result = schema.returns()[0].alias_info();
  if (result == nullptr || !result->isWrite()) return std::nullopt;
  for (size_t i = 0; i < schema.arguments().size(); ++i) {
    const auto* into = schema.arguments()[i].alias_info();
    if (into != nullptr && into->isWrite()) return i;
  }
  return std::nullopt;
}

// A result that is given has no size yet where LibTorch made it for this call.
IValues in_place(const c10::OperatorHandle& op, const IValues& a, size_t into) {
  const bool is_out = op.schema().arguments()[into].kwarg_only();
  Tensor out = a[into].toTensor();
  std::vector<Tensor> read;
  std::vector<int64_t> sizes;
  for (size_t i = 0; i < a.size(); ++i) {
    if (!a[i].isTensor() || (is_out && i == into)) continue;
    read.push_back(a[i].toTensor());
    sizes = at::infer_size(sizes, read.back().sizes());
  }
  if (op.schema().name() == "aten::arange") {
    const double length = a[1].toScalar().toDouble() - a[0].toScalar().toDouble();
    sizes = {static_cast<int64_t>(std::ceil(length / a[2].toScalar().toDouble()))};
  }
  if (op.schema().name() == "aten::eye") sizes = {number_at(a, 0), number_at(a, into == 2 ? 1 : 0)};
  if (is_out && out.numel() == 0) out.resize_(sizes);
  count_call(op.schema().name(), 1, read, {out});
  return {out};
}

// --- any other operator: what comes out of it is seen on zeros on the CPU, where they are few.

bool is_unknown(const c10::OperatorHandle& op) {
  return !op.hasKernelForDispatchKey(c10::DispatchKey::Meta) &&
         !op.hasKernelForDispatchKey(c10::DispatchKey::CompositeExplicitAutograd) &&
         !op.hasKernelForDispatchKey(c10::DispatchKey::CompositeExplicitAutogradNonFunctional) &&
         !op.hasKernelForDispatchKey(c10::DispatchKey::CompositeImplicitAutograd) &&
         op.hasKernelForDispatchKey(c10::DispatchKey::CPU);
}

Tensor zeros_like_on_cpu(const Tensor& t) {
  return at::empty_strided(t.sizes(), t.strides(), t.options().device(at::kCPU)).zero_();
}

IValues as_on_cpu(const c10::OperatorHandle& op, const IValues& a) {
  constexpr double kMostBytes = 1e8;
  torch::jit::Stack stack;
  std::vector<Tensor> read, written;
  double bytes = 0;
  for (const c10::IValue& value : a) {
    if (value.isTensor() && value.toTensor().defined()) {
      read.push_back(value.toTensor());
      bytes += bytes_of(read.back());
    }
  }
  TORCH_CHECK(bytes <= kMostBytes, "the count has no rule for ", op.schema().name());
  for (const c10::IValue& value : a) {
    if (value.isDevice()) {
      stack.emplace_back(at::Device(at::kCPU));
    } else if (value.isTensor() && value.toTensor().defined()) {
      stack.emplace_back(zeros_like_on_cpu(value.toTensor()));
    } else {
      stack.push_back(value);
    }
  }
  op.callBoxed(&stack);
  for (c10::IValue& value : stack) {
    if (!value.isTensor() || !value.toTensor().defined()) continue;
    const Tensor out = value.toTensor();
    written.push_back(
        at::empty_strided(out.sizes(), out.strides(), out.options().device(at::kMeta)));
    value = written.back();
  }
  count_call(op.schema().name(), 1, read, written);
  return stack;
}

bool is_matrix_product(const std::string& name) {
  for (const char* one :
       {"aten::mm", "aten::addmm", "aten::bmm", "aten::baddbmm", "aten::addmv", "aten::mv"}) {
    if (name == one) return true;
  }
  return false;
}

// A matrix product's shape is LibTorch's; its operands are the floor's.
IValues counted_product(const c10::OperatorHandle& op, const IValues& a) {
  torch::jit::Stack stack(a.begin(), a.end());
  op.callBoxed(&stack);
  std::vector<Tensor> read;
  for (const c10::IValue& value : a) {
    if (value.isTensor()) read.push_back(value.toTensor());
  }
  count_product(op.schema().name().c_str(), read, stack.back().toTensor(), true);
  return stack;
}

}  // namespace

bool count_by_rule(const c10::OperatorHandle& op, torch::jit::Stack& stack) {
  const std::string& name = op.schema().name();
  const IValues a(stack.end() - static_cast<int64_t>(op.schema().arguments().size()), stack.end());
  IValues results;
  if (name == "aten::convolution") {
    results = counted_convolution(a);
  } else if (name == "aten::convolution_backward") {
    results = counted_convolution_backward(a);
  } else if (name == "aten::grid_sampler_2d") {
    results = counted_grid_sampler(a);
  } else if (name == "aten::grid_sampler_2d_backward") {
    results = counted_grid_sampler_backward(a);
  } else if (name == "aten::native_batch_norm") {
    results = counted_batch_norm(a);
  } else if (name == "aten::native_batch_norm_backward") {
    results = counted_batch_norm_backward(a);
  } else if ((name == "aten::var" || name == "aten::std" || name == "aten::var_mean") &&
             op.schema().overload_name() == "correction") {
    results = counted_spread(a, name, name == "aten::var_mean");
  } else if (name.starts_with("aten::_foreach_") || name.starts_with("aten::_fused_adam") ||
             name.starts_with("aten::_amp_foreach_")) {
    results = over_lists(op, a);
  } else if (is_matrix_product(name) && op.schema().overload_name().empty()) {
    results = counted_product(op, a);
  } else if (has_shape_of_arguments(name)) {
    results = elementwise(name, a);
  } else if (pads(name)) {
    results = padded(name, a);
  } else if (pads_backward(name)) {
    results = padded_backward(name, a);
  } else if (const auto into = written_by(op)) {
    results = in_place(op, a, *into);
  } else if (is_unknown(op)) {
    results = as_on_cpu(op, a);
  } else {
    return false;
  }
  torch::jit::drop(stack, a.size());
  stack.insert(stack.end(), results.begin(), results.end());
  return true;
}

}  // namespace gantrain

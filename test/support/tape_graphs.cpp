// SPDX-License-Identifier: Apache-2.0
#include "support/tape_graphs.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/library.h>

#include <algorithm>
#include <map>

#include "core/torch.h"
#include "ops/device_kernels.h"

namespace gantrain {

namespace {

using Tensors = std::vector<at::Tensor>;

// A key between autograd and the kernels that nothing else uses.
constexpr c10::DispatchKey kKey = c10::DispatchKey::Fake;

struct Call {
  std::function<Tensors()> again;  // calls it with the same arguments
  Tensors arguments, results;
  bool writes = false;  // into its arguments
};

struct Tape {
  std::vector<Call> calls;
  // What tensors held before recording: a GPU's tensors do not change while work is recorded.
  std::map<c10::StorageImpl*, std::pair<at::Tensor, at::Tensor>> before;
};

Tape* recording = nullptr;  // autograd's backward passes run in the thread that calls them
int64_t works = 0, replays = 0, fails_at = 0;
bool fails_of_memory = false;

// LibTorch's zero tensors, which stand for zeros, have no memory.
bool has_memory(const at::Tensor& tensor) {
  return tensor.defined() && tensor.has_storage() && tensor.storage().data() != nullptr;
}

Tensors tensors_in(const std::vector<c10::IValue>& values) {
  Tensors all;
  for (const c10::IValue& value : values) {
    if (value.isTensor() && has_memory(value.toTensor())) all.push_back(value.toTensor());
    if (value.isTensorList()) {
      for (const at::Tensor& tensor : value.toTensorVector()) {
        if (has_memory(tensor)) all.push_back(tensor);
      }
    }
  }
  return all;
}

// The same memory with a version counter of its own: what a replay writes must not look to autograd
// as if a tensor that it has saved had been changed in place. A GPU's graph passes it by, too.
c10::IValue alias_of(const c10::IValue& value) {
  if (value.isTensor() && value.toTensor().defined()) return value.toTensor().variable_data();
  if (value.isTensorList()) {
    c10::List<at::Tensor> aliases;
    for (const at::Tensor& tensor : value.toTensorVector())
      aliases.push_back(tensor.defined() ? tensor.variable_data() : tensor);
    return aliases;
  }
  if (!value.isList()) return value;
  c10::impl::GenericList aliases(value.toList().elementType());  // of optional tensors
  for (const c10::IValue& one : value.toListRef()) aliases.push_back(alias_of(one));
  return aliases;
}
std::vector<c10::IValue> aliases_of(const std::vector<c10::IValue>& values) {
  std::vector<c10::IValue> all;
  for (const c10::IValue& value : values) all.push_back(alias_of(value));
  return all;
}

bool writes(const c10::OperatorHandle& op) {
  const auto& arguments = op.schema().arguments();
  return std::any_of(arguments.begin(), arguments.end(), [](const c10::Argument& argument) {
    return argument.alias_info() != nullptr && argument.alias_info()->isWrite();
  });
}

at::Tensor bytes_of(const at::Tensor& tensor) {
  const c10::Storage& storage = tensor.storage();
  return at::from_blob(storage.mutable_data(),
                       {static_cast<int64_t>(storage.nbytes())},
                       at::TensorOptions(at::kByte));
}

// Keeps what a tensor held that this tape has not made itself.
void keep(const at::Tensor& tensor) {
  c10::StorageImpl* storage = tensor.storage().unsafeGetStorageImpl();
  if (recording->before.count(storage) > 0) return;
  recording->before[storage] = {tensor, bytes_of(tensor).clone()};
}

void check_permitted() {
  if (fails_at == 0 || static_cast<int64_t>(recording->calls.size()) + 1 < fails_at) return;
  TORCH_CHECK_WITH(
      OutOfMemoryError, !fails_of_memory, "CUDA out of memory. Tried to allocate 2.00 GiB");
  TORCH_CHECK(false, "operation failed due to a previous error during capture");
}

void note(const c10::OperatorHandle& op, c10::DispatchKeySet /*keys*/, torch::jit::Stack* stack) {
  const c10::impl::ExcludeDispatchKeyGuard below(kKey);
  const size_t taken = op.schema().arguments().size();
  const std::string name = op.schema().name();
  TORCH_CHECK(name != "aten::_local_scalar_dense" && name != "aten::is_nonzero",
              "operation not permitted when stream is capturing");
  check_permitted();
  std::vector<c10::IValue> arguments(stack->end() - static_cast<int64_t>(taken), stack->end());
  if (writes(op)) {
    for (const at::Tensor& tensor : tensors_in(arguments)) keep(tensor);
  }
  op.callBoxed(stack);
  const size_t given = op.schema().returns().size();
  std::vector<c10::IValue> results(stack->end() - static_cast<int64_t>(given), stack->end());
  for (const at::Tensor& made : tensors_in(results)) keep(made);
  const std::vector<c10::IValue> taken_again = aliases_of(arguments);
  const auto again = [op, taken_again] {
    torch::jit::Stack all(taken_again.begin(), taken_again.end());
    op.callBoxed(&all);
    return tensors_in(all);
  };
  recording->calls.push_back(
      {again, tensors_in(taken_again), tensors_in(aliases_of(results)), writes(op)});
}

// --- kernels of the device's table, which are no operators of LibTorch's dispatcher

void add(Tensors& all, const at::Tensor& t) {
  if (has_memory(t)) all.push_back(t);
}
void add(Tensors& all, const BiasActGradients& g) {
  for (const at::Tensor& t : {g.dx, g.db}) add(all, t);
}
void add(Tensors& all, const ActDerivatives& d) {
  for (const at::Tensor& t : {d.y, d.d, d.strength, d.bias}) add(all, t);
}
void add(Tensors& all, const ActPoint& at) {
  for (const at::Tensor& t : {at.grad, at.y, at.out}) add(all, t);
}
void add(Tensors& all, const ActTensors& a) {
  for (const at::Tensor& t : {a.d, a.noise, a.strength, a.bias}) add(all, t);
}
void add(Tensors& all, const DrawNumbers& how) { add(all, how.key); }
void add(Tensors& all, const AffineWarp& how) {
  for (const at::Tensor& t : {how.transforms, how.margins}) add(all, t);
}
void add(Tensors& all, const DrawnMatrices& how) { add(all, how.key.numbers); }
template <class... Parts>
void add(Tensors& all, const std::tuple<Parts...>& parts) {
  std::apply([&](const auto&... part) { (add(all, part), ...); }, parts);
}
template <class Number>
void add(Tensors& /*all*/, const Number& /*a number, or filters that never change*/) {}

template <class... Values>
Tensors all_tensors(const Values&... values) {
  Tensors all;
  (add(all, values), ...);
  return all;
}

// Calls a kernel and, while something is recorded, notes the call; what LibTorch does inside is a
// part of it.
template <class Result, class... Given>
Result noted(Result (*kernel)(Given...), const std::decay_t<Given>&... given) {
  const c10::impl::ExcludeDispatchKeyGuard below(kKey);
  if (recording == nullptr) return kernel(given...);
  check_permitted();
  const Result result = kernel(given...);
  const Tensors made = all_tensors(result);
  for (const at::Tensor& tensor : made) keep(tensor);
  Tensors aliases;
  for (const at::Tensor& tensor : made) aliases.push_back(tensor.variable_data());
  const auto again = [kernel, given...] { return all_tensors(kernel(given...)); };
  recording->calls.push_back({again, all_tensors(given...), aliases});
  return result;
}

const DeviceKernels* under = nullptr;  // the kernels that are noted

template <auto kMember>
struct Noted;
template <class Result, class... Given, Result (*DeviceKernels::*kMember)(Given...)>
struct Noted<kMember> {
  static Result call(Given... given) { return noted(under->*kMember, given...); }
};
template <class Result, class... Given, Result (*FusedKernels::*kMember)(Given...)>
struct Noted<kMember> {
  static Result call(Given... given) { return noted(under->fused->*kMember, given...); }
};

FusedKernels noted_fused{
    .act = Noted<&FusedKernels::act>::call,
    .act_gradient = Noted<&FusedKernels::act_gradient>::call,
    .act_second = Noted<&FusedKernels::act_second>::call,
    .plane_products = Noted<&FusedKernels::plane_products>::call,
    .scaled_planes = Noted<&FusedKernels::scaled_planes>::call,
    .minibatch_std = Noted<&FusedKernels::minibatch_std>::call,
    .minibatch_std_gradient = Noted<&FusedKernels::minibatch_std_gradient>::call,
    .pixel_norm = Noted<&FusedKernels::pixel_norm>::call,
    .pixel_norm_gradient = Noted<&FusedKernels::pixel_norm_gradient>::call,
    .adain = Noted<&FusedKernels::adain>::call,
    .adain_gradient = Noted<&FusedKernels::adain_gradient>::call,
    .filtered_lrelu = Noted<&FusedKernels::filtered_lrelu>::call,
    .filtered_slopes = Noted<&FusedKernels::filtered_slopes>::call,
};
constexpr DeviceKernels kNotedKernels{
    .upfirdn2d = Noted<&DeviceKernels::upfirdn2d>::call,
    .bias_act = Noted<&DeviceKernels::bias_act>::call,
    .bias_act_gradient = Noted<&DeviceKernels::bias_act_gradient>::call,
    .draw = Noted<&DeviceKernels::draw>::call,
    .fused = &noted_fused,
};

bool share_memory(const at::Tensor& a, const at::Tensor& b) {
  return a.has_storage() && b.has_storage() && a.storage().is_alias_of(b.storage());
}

class TapeGraph final : public DeviceGraph {
 public:
  explicit TapeGraph(Tape tape) : tape_(std::move(tape)) {}

  void replay() override {
    const torch::NoGradGuard no_grad;
    ++replays;
    for (const Call& call : tape_.calls) run(call);
  }

 private:
  // Results that are views, or arguments themselves, are there already.
  static void run(const Call& call) {
    const auto is_argument = [&](const at::Tensor& result) {
      return std::any_of(call.arguments.begin(), call.arguments.end(), [&](const at::Tensor& one) {
        return share_memory(result, one);
      });
    };
    const Tensors& known = call.results;
    if (!call.writes && !known.empty() && std::all_of(known.begin(), known.end(), is_argument))
      return;
    const Tensors made = call.again();
    for (size_t i = 0; i < known.size(); ++i) {
      at::Tensor result = known[i];
      if (!share_memory(result, made.at(i)) && !is_argument(result)) result.copy_(made[i]);
    }
  }

  Tape tape_;
};

class TapePool final : public GraphPool {
 public:
  std::unique_ptr<DeviceGraph> record(const std::function<void()>& work) override {
    Tape tape;
    recording = &tape;
    try {
      const c10::impl::IncludeDispatchKeyGuard noted(kKey);
      work();
    } catch (...) {
      end(tape);
      throw;
    }
    end(tape);
    ++works;
    return std::make_unique<TapeGraph>(std::move(tape));
  }

 private:
  // Puts back what tensors held; what the tape has made holds rubbish, as on a GPU.
  static void end(Tape& tape) {
    recording = nullptr;
    std::map<c10::StorageImpl*, bool> own;
    for (const Call& call : tape.calls) {
      if (call.writes) continue;
      for (const at::Tensor& made : call.results) {
        const bool fresh = std::none_of(call.arguments.begin(),
                                        call.arguments.end(),
                                        [&](const auto& one) { return share_memory(one, made); });
        if (fresh) own[made.storage().unsafeGetStorageImpl()] = true;
      }
    }
    for (auto& [storage, held] : tape.before) {
      if (own.count(storage) > 0) {
        bytes_of(held.first).fill_(0xA5);
      } else {
        bytes_of(held.first).copy_(held.second);
      }
    }
    tape.before.clear();
  }
};

GraphPool* make_tape_pool() { return new TapePool; }

}  // namespace

TapeGraphs::TapeGraphs() {
  works = replays = fails_at = 0;
  fails_of_memory = false;
  set_graph_pools(c10::DeviceType::CPU, make_tape_pool);
  under = &device_kernels(at::kCPU);
  // What a table lacks is composed.
  const bool warps = under->fused != nullptr && under->fused->affine_warp != nullptr;
  noted_fused.affine_warp = warps ? Noted<&FusedKernels::affine_warp>::call : nullptr;
  noted_fused.affine_warp_adjoint =
      warps ? Noted<&FusedKernels::affine_warp_adjoint>::call : nullptr;
  noted_fused.drawn_matrices = under->fused != nullptr && under->fused->drawn_matrices != nullptr
                                   ? Noted<&FusedKernels::drawn_matrices>::call
                                   : nullptr;
  if (under->fused != nullptr) set_device_kernels(at::kCPU, kNotedKernels);
}
TapeGraphs::~TapeGraphs() {
  set_device_kernels(at::kCPU, *under);
  set_graph_pools(c10::DeviceType::CPU, nullptr);
}
int64_t TapeGraphs::recorded() { return works; }
int64_t TapeGraphs::replayed() { return replays; }
void TapeGraphs::fail_at(int64_t operators, bool of_memory) {
  fails_at = operators;
  fails_of_memory = of_memory;
}

TORCH_LIBRARY_IMPL(_, Fake, m) { m.fallback(torch::CppFunction::makeFromBoxedFunction<&note>()); }

}  // namespace gantrain

// SPDX-License-Identifier: Apache-2.0
#include "ops/counting/gpu_count.h"

#include <torch/library.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "core/device.h"
#include "core/torch.h"
#include "ops/counting/counted.h"
#include "util/text.h"

namespace gantrain {

using at::Tensor;

void GpuWork::add(const GpuWork& more) {
  calls += more.calls;
  kernels += more.kernels;
  read += more.read;
  written += more.written;
  floor += more.floor;
}

namespace {

struct Counted {
  std::string phase;
  std::map<std::string, CountedPhase> phases;
  GpuOperators* recording = nullptr;  // of the graph that is recorded now
  std::unique_ptr<torch::Library> fallback;
  std::unique_ptr<c10::impl::IncludeDispatchKeyGuard> included;
};

Counted* counted = nullptr;

void add_all(GpuOperators& all, const GpuOperators& more) {
  for (const auto& [name, work] : more) all[name].add(work);
}

class CountedGraph final : public DeviceGraph {
 public:
  explicit CountedGraph(GpuOperators work) : work_(std::move(work)) {}
  void replay() override {
    if (counted == nullptr || counted->phase.empty()) return;
    CountedPhase& now = counted->phases[counted->phase];
    add_all(now.graphs, work_);
    ++now.replays;
  }

 private:
  GpuOperators work_;
};

class CountedPool final : public GraphPool {
 public:
  std::unique_ptr<DeviceGraph> record(const std::function<void()>& work) override {
    GpuOperators given;
    counted->recording = &given;
    try {
      work();
    } catch (...) {
      counted->recording = nullptr;
      throw;
    }
    counted->recording = nullptr;
    return std::make_unique<CountedGraph>(std::move(given));
  }
};

GraphPool* make_counted_pool() { return new CountedPool; }

// --- operators of LibTorch

void append_tensors(std::vector<Tensor>& all, const c10::IValue& value) {
  if (value.isTensor()) {
    all.push_back(value.toTensor());
  } else if (value.isTensorList()) {
    for (const Tensor& one : value.toTensorVector()) all.push_back(one);
  } else if (value.isList()) {  // of optional tensors
    for (const c10::IValue& one : value.toListRef()) append_tensors(all, one);
  }
}

bool is_on_meta(const IValues& values) {
  std::vector<Tensor> all;
  for (const c10::IValue& value : values) append_tensors(all, value);
  return std::any_of(
      all.begin(), all.end(), [](const Tensor& t) { return t.defined() && t.is_meta(); });
}

bool is_written(const c10::Argument& argument) {
  return argument.alias_info() != nullptr && argument.alias_info()->isWrite();
}

// Operators that only overwrite what they write into.
bool overwrites(std::string_view name, const c10::Argument& argument) {
  constexpr std::array<std::string_view, 7> kNames = {
      "copy_", "fill_", "zero_", "normal_", "uniform_", "random_", "bernoulli_"};
  return argument.kwarg_only() ||  // out
         contains(kNames, name.substr(6));
}

// Operators that make tensors and launch nothing, views among them.
bool launches_nothing(const c10::OperatorHandle& op) {
  constexpr std::array<std::string_view, 10> kNames = {"aten::empty",
                                                       "aten::empty_strided",
                                                       "aten::empty_like",
                                                       "aten::new_empty",
                                                       "aten::new_empty_strided",
                                                       "aten::resize_",
                                                       "aten::set_",
                                                       "aten::_unsafe_view",
                                                       "aten::_reshape_alias",
                                                       "aten::lift_fresh"};
  const std::string& name = op.schema().name();
  if (contains(kNames, name)) return true;
  const auto& results = op.schema().returns();
  const auto is_view = [](const c10::Argument& result) {
    return result.alias_info() != nullptr && !result.alias_info()->isWrite();
  };
  return !results.empty() && std::all_of(results.begin(), results.end(), is_view);
}

// Whether LibTorch makes it of other operators, which are counted instead. copy_ is a kernel for
// all devices.
bool is_composed(const c10::OperatorHandle& op) {
  if (op.schema().name() == "aten::copy_") return false;
  if (op.hasKernelForDispatchKey(c10::DispatchKey::Meta)) return false;
  return op.hasKernelForDispatchKey(c10::DispatchKey::CompositeExplicitAutograd) ||
         op.hasKernelForDispatchKey(c10::DispatchKey::CompositeExplicitAutogradNonFunctional) ||
         op.hasKernelForDispatchKey(c10::DispatchKey::CompositeImplicitAutograd);
}

void count_leaf(const c10::OperatorHandle& op, const IValues& arguments, const IValues& results) {
  const auto& schema = op.schema();
  std::vector<Tensor> read, written;
  for (size_t i = 0; i < arguments.size(); ++i) {
    const c10::Argument& argument = schema.arguments()[i];
    if (is_written(argument)) append_tensors(written, arguments[i]);
    if (!is_written(argument) || !overwrites(schema.name(), argument))
      append_tensors(read, arguments[i]);
  }
  for (size_t i = 0; i < results.size(); ++i) {
    if (schema.returns()[i].alias_info() == nullptr) append_tensors(written, results[i]);
  }
  count_call(schema.name(), 1, read, written);
}

// A copy to the CPU: there are no numbers to copy.
bool is_copied_off(const c10::OperatorHandle& op, const IValues& arguments) {
  return op.schema().name() == "aten::copy_" && !arguments[0].toTensor().is_meta() &&
         arguments[1].toTensor().is_meta();
}

void note_operator(const c10::OperatorHandle& op,
                   c10::DispatchKeySet keys,
                   torch::jit::Stack* stack) {
  const auto last = [&](size_t count) {
    return IValues(stack->end() - static_cast<int64_t>(count), stack->end());
  };
  const IValues arguments = last(op.schema().arguments().size());
  const bool nothing = launches_nothing(op);
  if (!nothing && is_on_meta(arguments)) {
    const c10::impl::ExcludeDispatchKeyGuard below(kCountKey);
    if (count_by_rule(op, *stack)) return;
    if (is_copied_off(op, arguments)) {
      count_call("copy to the host", 1, {arguments[1].toTensor()}, {});
      arguments[0].toTensor().zero_();
      torch::jit::drop(*stack, arguments.size());
      stack->push_back(arguments[0]);
      return;
    }
  }
  if (!nothing && is_composed(op)) {
    op.redispatchBoxed(keys & c10::DispatchKeySet(c10::DispatchKeySet::FULL_AFTER, kCountKey),
                       stack);
    return;
  }
  const c10::impl::ExcludeDispatchKeyGuard below(kCountKey);
  op.callBoxed(stack);
  const IValues results = last(op.schema().returns().size());
  if (!nothing && (is_on_meta(arguments) || is_on_meta(results)))
    count_leaf(op, arguments, results);
}

}  // namespace

double bytes_of(const Tensor& tensor) {
  if (!tensor.defined()) return 0;
  double numbers = 1;
  for (int64_t axis = 0; axis < tensor.dim(); ++axis) {
    if (tensor.stride(axis) != 0 || tensor.size(axis) == 0)
      numbers *= static_cast<double>(tensor.size(axis));
  }
  return numbers * static_cast<double>(tensor.element_size());
}

void count_call(const std::string& name,
                int64_t kernels,
                const std::vector<Tensor>& read,
                const std::vector<Tensor>& written,
                double floor) {
  if (counted == nullptr || (counted->recording == nullptr && counted->phase.empty())) return;
  GpuWork work{1, static_cast<double>(kernels), 0, 0, floor};
  for (const Tensor& tensor : read) work.read += bytes_of(tensor);
  for (const Tensor& tensor : written) work.written += bytes_of(tensor);
  GpuOperators& all =
      counted->recording != nullptr ? *counted->recording : counted->phases[counted->phase].eager;
  all[name].add(work);
}

GpuCount::GpuCount() {
  TORCH_CHECK(counted == nullptr, "one count at a time");
  counted = new Counted;
  set_counts_on_meta(true);
  set_device_kernels(at::kMeta, kCountedKernels);
  set_graph_pools(at::kMeta, make_counted_pool);
  counted->fallback = std::make_unique<torch::Library>(
      torch::Library::IMPL, "_", kCountKey, __FILE__, static_cast<uint32_t>(__LINE__));
  counted->fallback->fallback(torch::CppFunction::makeFromBoxedFunction<&note_operator>());
  counted->included = std::make_unique<c10::impl::IncludeDispatchKeyGuard>(kCountKey);
}

GpuCount::~GpuCount() {
  delete counted;
  counted = nullptr;
  set_graph_pools(at::kMeta, nullptr);
  set_device_kernels(at::kMeta, kComposedKernels);
  set_counts_on_meta(false);
}

void GpuCount::enter(const std::string& phase) { counted->phase = phase; }

const std::map<std::string, CountedPhase>& GpuCount::phases() const { return counted->phases; }

}  // namespace gantrain

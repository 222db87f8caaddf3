// SPDX-License-Identifier: Apache-2.0
#include "support/tape_graphs.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/library.h>

#include <algorithm>
#include <map>

#include "core/torch.h"

namespace gantrain {

namespace {

// A key between autograd and the kernels that nothing else uses.
constexpr c10::DispatchKey kKey = c10::DispatchKey::Fake;

struct Call {
  c10::OperatorHandle op;
  std::vector<c10::IValue> arguments;
  std::vector<c10::IValue> results;
};

struct Tape {
  std::vector<Call> calls;
  // What tensors held before recording: a GPU's tensors do not change while work is recorded.
  std::map<c10::StorageImpl*, std::pair<at::Tensor, at::Tensor>> before;
};

Tape* recording = nullptr;  // autograd's backward passes run in the thread that calls them
int64_t works = 0, replays = 0, fails_at = 0;

// LibTorch's zero tensors, which stand for zeros, have no memory.
bool has_memory(const at::Tensor& tensor) {
  return tensor.defined() && tensor.has_storage() && tensor.storage().data() != nullptr;
}

std::vector<at::Tensor> tensors_in(const std::vector<c10::IValue>& values) {
  std::vector<at::Tensor> all;
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

void note(const c10::OperatorHandle& op, c10::DispatchKeySet /*keys*/, torch::jit::Stack* stack) {
  const c10::impl::ExcludeDispatchKeyGuard below(kKey);
  const size_t taken = op.schema().arguments().size();
  const std::string name = op.schema().name();
  TORCH_CHECK(name != "aten::_local_scalar_dense" && name != "aten::is_nonzero",
              "operation not permitted when stream is capturing");
  TORCH_CHECK(fails_at == 0 || static_cast<int64_t>(recording->calls.size()) + 1 < fails_at,
              "operation failed due to a previous error during capture");
  std::vector<c10::IValue> arguments(stack->end() - static_cast<int64_t>(taken), stack->end());
  if (writes(op)) {
    for (const at::Tensor& tensor : tensors_in(arguments)) keep(tensor);
  }
  op.callBoxed(stack);
  const size_t given = op.schema().returns().size();
  std::vector<c10::IValue> results(stack->end() - static_cast<int64_t>(given), stack->end());
  for (const at::Tensor& made : tensors_in(results)) keep(made);
  recording->calls.push_back({op, aliases_of(arguments), aliases_of(results)});
}

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
    const std::vector<at::Tensor> arguments = tensors_in(call.arguments);
    const std::vector<at::Tensor> known = tensors_in(call.results);
    const auto is_argument = [&](const at::Tensor& result) {
      return std::any_of(arguments.begin(), arguments.end(), [&](const at::Tensor& argument) {
        return share_memory(result, argument);
      });
    };
    if (!writes(call.op) && !known.empty() && std::all_of(known.begin(), known.end(), is_argument))
      return;
    torch::jit::Stack stack(call.arguments.begin(), call.arguments.end());
    call.op.callBoxed(&stack);
    const std::vector<at::Tensor> made = tensors_in(stack);
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
      if (writes(call.op)) continue;
      for (const at::Tensor& made : tensors_in(call.results)) {
        const std::vector<at::Tensor> arguments = tensors_in(call.arguments);
        const bool fresh = std::none_of(arguments.begin(), arguments.end(), [&](const auto& one) {
          return share_memory(one, made);
        });
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
  set_graph_pools(c10::DeviceType::CPU, make_tape_pool);
}
TapeGraphs::~TapeGraphs() { set_graph_pools(c10::DeviceType::CPU, nullptr); }
int64_t TapeGraphs::recorded() { return works; }
int64_t TapeGraphs::replayed() { return replays; }
void TapeGraphs::fail_at(int64_t operators) { fails_at = operators; }

TORCH_LIBRARY_IMPL(_, Fake, m) { m.fallback(torch::CppFunction::makeFromBoxedFunction<&note>()); }

}  // namespace gantrain

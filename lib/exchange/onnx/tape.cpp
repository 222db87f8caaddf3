// SPDX-License-Identifier: Apache-2.0
#include <torch/library.h>

#include <algorithm>
#include <map>

#include "core/torch.h"
#include "exchange/onnx/graph.h"
#include "ops/kernels.h"

namespace gantrain {

namespace {

// A key between autograd and the kernels that nothing else in this process uses.
constexpr c10::DispatchKey kTapeKey = c10::DispatchKey::Fake;

using Impl = c10::TensorImpl;

struct Recorder {
  Tape tape;
  const std::set<std::string>* whole = nullptr;
  // Where a tensor stands in the tape. The weak pointers keep addresses from being used twice, and
  // no tensor's memory.
  std::map<const Impl*, int64_t> places;
  std::vector<c10::weak_intrusive_ptr<Impl, c10::UndefinedTensorImpl>> known;

  int64_t place_of(const Tensor& tensor) const {
    const auto found = places.find(tensor.unsafeGetTensorImpl());
    return found == places.end() ? -1 : found->second;
  }

  int64_t add(const Tensor& tensor) {
    const auto place = static_cast<int64_t>(tape.values.size());
    TapeValue value{tensor.sizes().vec(), tensor.scalar_type()};
    if (tensor.is_floating_point() && tensor.numel() > 0)
      value.largest = tensor.abs().max().item<double>();
    tape.values.push_back(value);
    places[tensor.unsafeGetTensorImpl()] = place;
    known.emplace_back(tensor.getIntrusivePtr());
    return place;
  }
};

Recorder* recorder = nullptr;

// The tensors of an argument, in its order; undefined ones, too.
std::vector<Tensor> tensors_in(const c10::IValue& value) {
  if (value.isTensor()) return {value.toTensor()};
  if (value.isTensorList()) return value.toTensorVector();
  std::vector<Tensor> all;
  if (!value.isList()) return all;
  for (const c10::IValue& one : value.toListRef()) {  // of optional tensors
    if (one.isTensor()) all.push_back(one.toTensor());
  }
  return all;
}

TapeArgument noted(const c10::IValue& value) {
  TapeArgument argument;
  for (const Tensor& tensor : tensors_in(value)) {
    const int64_t place = tensor.defined() ? recorder->place_of(tensor) : -1;
    argument.tensors.push_back({place, place < 0 ? tensor : Tensor()});
  }
  if (argument.tensors.empty()) argument.other = value;
  return argument;
}

bool is_written(const c10::Argument& argument) {
  return argument.alias_info() != nullptr && argument.alias_info()->isWrite();
}

// What is written into a tensor must not be seen by others that share its memory.
void check_alone(const Tensor& written, const std::string& name) {
  for (const auto& weak : recorder->known) {
    const auto one = weak.lock();
    if (!one.defined() || one.get() == written.unsafeGetTensorImpl() || !one->has_storage())
      continue;
    TORCH_CHECK(one->storage().unsafeGetStorageImpl() != written.storage().unsafeGetStorageImpl(),
                name,
                " writes into a tensor that shares its memory with another one");
  }
}

// Whether LibTorch makes it of other operators, which are noted instead.
bool is_composed(const c10::OperatorHandle& op) {
  if (recorder->whole->count(op.schema().name()) > 0) return false;
  if (op.hasKernelForDispatchKey(c10::DispatchKey::CPU)) return false;
  return op.hasKernelForDispatchKey(c10::DispatchKey::CompositeExplicitAutograd) ||
         op.hasKernelForDispatchKey(c10::DispatchKey::CompositeExplicitAutogradNonFunctional) ||
         op.hasKernelForDispatchKey(c10::DispatchKey::CompositeImplicitAutograd);
}

// Whether what it returns is the same for all values of its arguments, whose form alone counts.
bool makes_constants(const std::string& name) {
  return name == "aten::empty_like" || name == "aten::full_like" ||
         name.rfind("aten::new_", 0) == 0;
}

void note_read(const std::vector<c10::IValue>& arguments) {
  for (const c10::IValue& value : arguments) {
    for (const Tensor& tensor : tensors_in(value)) {
      if (tensor.defined() && tensor.has_storage())
        recorder->tape.read.insert(tensor.storage().data());
    }
  }
}

bool follows_from_inputs(const std::vector<TapeArgument>& arguments) {
  return std::any_of(arguments.begin(), arguments.end(), [](const TapeArgument& argument) {
    return std::any_of(argument.tensors.begin(), argument.tensors.end(), [](const TapeTensor& t) {
      return t.value >= 0;
    });
  });
}

void note(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack) {
  const auto& schema = op.schema();
  const auto last = [&](size_t count) {
    return std::vector<c10::IValue>(stack->end() - static_cast<int64_t>(count), stack->end());
  };
  const std::vector<c10::IValue> given = last(schema.arguments().size());
  note_read(given);
  TapeCall call{schema.name()};
  for (const c10::IValue& value : given) call.arguments.push_back(noted(value));
  const bool follows = follows_from_inputs(call.arguments);
  if (follows && is_composed(op)) {
    op.redispatchBoxed(keys & c10::DispatchKeySet(c10::DispatchKeySet::FULL_AFTER, kTapeKey),
                       stack);
    // The first result is what counts: others may be memory for a backward pass.
    for (const Tensor& tensor : tensors_in(last(schema.returns().size()).at(0))) {
      TORCH_CHECK(
          !tensor.defined() || recorder->place_of(tensor) >= 0 || makes_constants(call.name),
          call.name,
          " computes without operators that can be noted");
    }
    return;
  }
  const c10::impl::ExcludeDispatchKeyGuard below(kTapeKey);
  if (follows) {
    TORCH_CHECK(call.name != "aten::_local_scalar_dense" && call.name != "aten::is_nonzero",
                "a number depends on the latents");
    for (size_t i = 0; i < given.size(); ++i) {
      if (!is_written(schema.arguments()[i])) continue;
      for (const Tensor& written : tensors_in(given[i])) check_alone(written, call.name);
      for (TapeTensor& before : call.arguments[i].tensors) {
        if (before.value < 0) before.constant = before.constant.clone();
      }
    }
  }
  op.callBoxed(stack);
  if (!follows) return;
  for (const c10::IValue& result : last(schema.returns().size())) {
    for (const Tensor& tensor : tensors_in(result))
      call.results.push_back(tensor.defined() ? recorder->add(tensor) : -1);
  }
  recorder->tape.calls.push_back(std::move(call));
}

// Notes operators while it lives.
class Recording {
 public:
  explicit Recording(Recorder& one)
      : library_(torch::Library::IMPL, "_", kTapeKey, __FILE__, static_cast<uint32_t>(__LINE__)) {
    TORCH_CHECK(recorder == nullptr, "one tape at a time");
    library_.fallback(torch::CppFunction::makeFromBoxedFunction<&note>());
    recorder = &one;
  }
  ~Recording() { recorder = nullptr; }
  Recording(const Recording&) = delete;
  Recording& operator=(const Recording&) = delete;

 private:
  torch::Library library_;
};

}  // namespace

Tape record(const std::vector<Tensor>& inputs,
            const std::set<std::string>& whole,
            const std::function<Tensor()>& function) {
  const torch::NoGradGuard no_grad;
  const WithKernels composed(KernelSet::kRef);
  Recorder one;
  one.whole = &whole;
  for (const Tensor& input : inputs) one.add(input);
  const Recording recording(one);
  // Autograd's own operators would wrap tensors anew.
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  const c10::impl::IncludeDispatchKeyGuard included(kTapeKey);
  const Tensor result = function();
  const int64_t place = one.place_of(result);
  one.tape.result = {place, place < 0 ? result : Tensor()};
  return std::move(one.tape);
}

}  // namespace gantrain

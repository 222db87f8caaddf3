// SPDX-License-Identifier: Apache-2.0
#include "exchange/onnx/graph.h"

// The namespace that LibTorch's build gives to its copy of the ONNX library.
#define ONNX_NAMESPACE onnx_torch
#include <torch/csrc/jit/ir/ir.h>
#include <torch/csrc/jit/serialization/export.h>
#include <torch/library.h>

#include <algorithm>
#include <map>

#include "core/torch.h"
#include "ops/kernels.h"
#include "util/hash.h"

namespace gantrain {

namespace {

// A value this large leaves float16 room for one 16 times as large.
constexpr double kMostInHalf = 4096;

Tensor shared_by_all(const Tensor& two, const Tensor& three) {
  TORCH_CHECK(two.dim() == three.dim(), "a constant changes with the batch");
  if (two.sizes() == three.sizes()) {
    TORCH_CHECK(two.data_ptr() == three.data_ptr() || at::equal(two, three),
                "a constant changes with the batch");
    return two;
  }
  const Tensor row = two.narrow(0, 0, 1);
  TORCH_CHECK(two.size(0) == 2 && three.size(0) == 3 && at::equal(row.expand_as(two), two) &&
                  at::equal(row.expand_as(three), three),
              "a constant changes with the batch: ",
              two.sizes(),
              ", ",
              three.sizes());
  return row;
}

int64_t onnx_type(at::ScalarType type) {  // TensorProto.DataType
  switch (type) {
    case at::kFloat:
      return 1;
    case at::kLong:
      return 7;
    case at::kBool:
      return 9;
    case at::kHalf:
      return 10;
    default:
      TORCH_CHECK(false, "numbers of type ", type);
      return 0;
  }
}

Extents paired(at::IntArrayRef a, at::IntArrayRef b) {
  TORCH_CHECK(a.size() == b.size(), "another number of axes with another batch");
  Extents all;
  for (size_t k = 0; k < a.size(); ++k) all.push_back({a[k], b[k]});
  return all;
}

}  // namespace

Writer::Writer(const OnnxModel& model)
    : model_(model), graph_(std::make_shared<torch::jit::Graph>()) {
  GraphValues taken;
  for (const OnnxInput& one : model.inputs) {
    if (!one.times.empty()) continue;
    taken.push_back(
        input(one.name, one.of_two.sizes(), one.of_three.sizes(), one.of_two.scalar_type()));
  }
  std::map<std::string, GraphValue*> numbers;
  for (const std::string& name : model.numbers) {
    GraphValue* number = input(name, {1}, {1}, at::kFloat);
    numbers[name] = number;
  }
  for (size_t place = 0, next = 0; place < model.inputs.size(); ++place) {
    const OnnxInput& one = model.inputs[place];
    if (one.times.empty()) {
      values_[place] = taken.at(next++);
      continue;
    }
    GraphValue* number = node("Squeeze", {numbers.at(one.times), ints({0})}, at::kFloat);
    values_[place] = node("Mul", {constant(one.of_two, at::kFloat), number}, at::kFloat);
  }
  TORCH_CHECK(model.two.calls.size() == model.three.calls.size(),
              "other operators with another batch");
  for (size_t i = 0; i < model.two.calls.size(); ++i) {
    const TapeCall& call = model.two.calls[i];
    values_[call.results.at(0)] =
        translated(Operator(*this, call, model.three.calls[i]), call.name);
  }
}

void Writer::name_batch(const std::string& name, at::IntArrayRef two, at::IntArrayRef three) {
  if (!two.empty() && two[0] != three[0]) batch_axes_[name][0] = "batch";
}

GraphValue* Writer::input(const std::string& name,
                          at::IntArrayRef two,
                          at::IntArrayRef three,
                          at::ScalarType type) {
  GraphValue* value = graph_->addInput(name);
  value->setType(at::TensorType::createContiguous(type, at::kCPU, two));
  types_[value] = type;
  name_batch(name, two, three);
  if (batched_ == nullptr && batch_axes_.count(name) > 0) batched_ = value;
  return value;
}

GraphValue* Writer::node(const std::string& kind, const GraphValues& inputs, at::ScalarType type) {
  torch::jit::Node* made =
      graph_->insertNode(graph_->create(c10::Symbol::fromQualString("onnx::" + kind), inputs));
  types_[made->output()] = type;
  return made->output();
}

GraphValue* Writer::constant(const Tensor& tensor, at::ScalarType type) {
  constexpr int64_t kSmall = 64;  // numbers that are compared by value
  const Tensor own = tensor.detach().to(type).contiguous().clone();
  std::string key = fmt::format("{} {} ", static_cast<int>(type), fmt::join(own.sizes(), "x"));
  if (own.numel() <= kSmall) {
    key.append(static_cast<const char*>(own.const_data_ptr()), own.nbytes());
  } else {
    key += sha256({static_cast<const char*>(own.const_data_ptr()), own.nbytes()});
  }
  const auto found = constants_.find(key);
  if (found != constants_.end()) return found->second;
  const std::string name = "constant" + std::to_string(constants_.size());
  GraphValue* value = graph_->addInput(name);
  value->setType(at::TensorType::create(own));
  initializers_[name] = own;
  types_[value] = type;
  return constants_[key] = value;
}

GraphValue* Writer::ints(const Ints& numbers) {
  return constant(torch::tensor(numbers, at::kLong), at::kLong);
}

GraphValue* Writer::absent() {
  if (absent_ == nullptr) absent_ = graph_->insertNode(graph_->createNone())->output();
  return absent_;
}

GraphValue* Writer::in_type(GraphValue* value, at::ScalarType type) {
  if (types_.at(value) == type) return value;
  GraphValue*& made = cast_[{value, type}];
  if (made != nullptr) return made;
  made = node("Cast", {value}, type);
  made->node()->i_(c10::Symbol::attr("to"), onnx_type(type));
  return made;
}

GraphValue* Writer::for_batch(GraphValue* value, int64_t axes) {
  TORCH_CHECK(batched_ != nullptr, "no input has a batch");
  GraphValue* shape = node("Shape", {batched_}, at::kLong);
  shape = node("Slice", {shape, ints({0}), ints({1}), ints({0})}, at::kLong);
  if (axes > 1) {
    shape = node("Concat", {shape, ints(Ints(axes - 1, 1))}, at::kLong);
    shape->node()->i_(at::attr::axis, 0);
  }
  return node("Expand", {value, shape}, types_.at(value));
}

GraphValue* Writer::value_of(const TapeTensor& two, const TapeTensor& three, at::ScalarType type) {
  TORCH_CHECK(two.value == three.value, "another tensor with another batch");
  if (two.value >= 0) return in_type(values_.at(two.value), type);
  return constant(shared_by_all(two.constant, three.constant), type);
}

std::string Writer::file() {
  const TapeTensor& result = model_.two.result;
  TORCH_CHECK(result.value >= 0, "the pictures do not follow from the latents");
  GraphValue* out = in_type(values_.at(result.value), at::kFloat);
  const Ints two = model_.two.values[result.value].shape;
  out->setDebugName(model_.output);
  out->setType(at::TensorType::createContiguous(at::kFloat, at::kCPU, two));
  name_batch(model_.output, two, model_.three.values.at(model_.three.result.value).shape);
  graph_->registerOutput(out);
  const auto proto = std::get<0>(torch::jit::export_onnx(graph_,
                                                         initializers_,
                                                         kOnnxOpset,
                                                         batch_axes_,
                                                         /*defer_weight_export=*/false,
                                                         torch::onnx::OperatorExportTypes::ONNX,
                                                         /*strip_doc_string=*/true,
                                                         /*keep_initializers_as_inputs=*/false));
  std::string bytes = torch::jit::serialize_model_proto_to_string(proto);
  torch::jit::check_onnx_proto(bytes);
  return bytes;
}

std::string onnx_file(const OnnxModel& model) { return Writer(model).file(); }

Operator::Operator(Writer& writer, const TapeCall& two, const TapeCall& three)
    : writer_(writer), two_(two), three_(three) {
  TORCH_CHECK(two.name == three.name && two.arguments.size() == three.arguments.size() &&
                  two.results == three.results,
              two.name,
              ": another operator with another batch");
  type_ = writer_.model().two.values.at(two.results.at(0)).type;
  if (type_ == at::kFloat && writer_.model().half && takes_half()) type_ = at::kHalf;
}

// Maps of pictures from the first convolution on, of values that float16 holds with room.
bool Operator::takes_half() const {
  // Squares and what undoes them.
  static const std::set<std::string> wide = {"aten::pow",
                                             "aten::mean",
                                             "aten::sum",
                                             "aten::rsqrt",
                                             "aten::sqrt",
                                             "aten::reciprocal",
                                             "aten::linalg_vector_norm"};
  if (wide.count(two_.name) > 0) return false;
  const auto& values = writer_.model().two.values;
  bool any = two_.name == "aten::convolution";
  const auto largest = [&](int64_t place) {
    return std::max(values.at(place).largest, writer_.model().three.values.at(place).largest);
  };
  double most = largest(two_.results[0]);
  for (const TapeArgument& argument : two_.arguments) {
    for (const TapeTensor& t : argument.tensors) {
      if (t.value < 0) continue;
      any = any || writer_.is_half(t);
      most = std::max(most, largest(t.value));
    }
  }
  return any && values.at(two_.results[0]).shape.size() >= 4 && most <= kMostInHalf;
}

Tensor Operator::fixed_tensor(size_t i) const {
  const TapeTensor& t = two_.arguments.at(i).tensors.at(0);
  TORCH_CHECK(t.value < 0, two_.name, ": a tensor that follows from the latents");
  return shared_by_all(t.constant, three_.arguments.at(i).tensors.at(0).constant);
}

Extents Operator::extents(size_t i) const {
  const auto read = [&](const TapeCall& call) {
    const c10::IValue& value = call.arguments.at(i).other;
    if (value.isIntList()) return value.toIntVector();
    return value.isNone() ? Ints() : Ints{value.toScalar().toLong()};
  };
  const Ints a = read(two_), b = read(three_);
  TORCH_CHECK(a.size() == b.size(), two_.name, ": other axes with another batch");
  Extents all;
  for (size_t k = 0; k < a.size(); ++k) all.push_back({a[k], b[k]});
  return all;
}

Ints Operator::wholes(size_t i) const {
  Ints all;
  for (const Extent& e : extents(i)) {
    TORCH_CHECK(e.fixed(), two_.name, ": a number grows with the batch");
    all.push_back(e.two);
  }
  return all;
}

GraphValue* Operator::in(size_t i, std::optional<at::ScalarType> type, size_t k) const {
  const TapeArgument &a = two_.arguments.at(i), &b = three_.arguments.at(i);
  if (a.tensors.empty()) return scalar(number(i));
  return writer_.value_of(a.tensors.at(k), b.tensors.at(k), type.value_or(type_));
}

GraphValue* Operator::scalar(double number) const {
  return writer_.constant(torch::full({}, number, at::kDouble), type_);
}

Extents Operator::shape(size_t i, size_t k) const {
  const TapeTensor &a = two_.arguments.at(i).tensors.at(k), &b = three_.arguments[i].tensors.at(k);
  if (a.value < 0) return paired(a.constant.sizes(), b.constant.sizes());
  return paired(writer_.model().two.values.at(a.value).shape,
                writer_.model().three.values.at(b.value).shape);
}

Extents Operator::result_shape(size_t k) const {
  return paired(writer_.model().two.values.at(two_.results.at(k)).shape,
                writer_.model().three.values.at(three_.results.at(k)).shape);
}

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

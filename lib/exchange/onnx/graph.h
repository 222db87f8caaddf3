// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

namespace torch::jit {
struct Graph;
struct Value;
}  // namespace torch::jit

namespace gantrain {

// --- what is recorded

// A tensor that an operator takes: one that follows from the tape's inputs, by its place in
// Tape::values, or a constant.
struct TapeTensor {
  int64_t value = -1;  // -1: `constant`
  at::Tensor constant;
};

// An argument of an operator: tensors, or anything else.
struct TapeArgument {
  std::vector<TapeTensor> tensors;  // empty: `other`
  c10::IValue other;
};

// An operator of LibTorch's dispatcher, below autograd, at least one of whose tensors follows from
// the inputs.
struct TapeCall {
  std::string name;  // "aten::convolution"
  std::vector<TapeArgument> arguments;
  std::vector<int64_t> results;  // places in Tape::values
};

struct TapeValue {
  std::vector<int64_t> shape;
  at::ScalarType type = at::kFloat;
  double largest = 0;  // of its absolute values
};

// What a function computed: the operators that follow from its inputs, in their order. What does
// not follow from them is a constant, with the value that it had.
struct Tape {
  std::vector<TapeValue> values;  // those of the inputs come first
  std::vector<TapeCall> calls;
  TapeTensor result;
  std::set<const void*> read;  // memory of all tensors that an operator took
};

// Runs `function`, whose tensors lie on the CPU, and notes the operators that it calls. Operators
// that LibTorch makes of others are noted as these others, unless their name is one of `whole`. The
// function takes the paths that compose LibTorch's operators (KernelSet::kRef), and no gradients
// are recorded. Throws c10::Error for what a tape cannot hold: a number read from a tensor that
// follows from the inputs, or such a tensor written into one that others share. One at a time.
Tape record(const std::vector<at::Tensor>& inputs,
            const std::set<std::string>& whole,
            const std::function<at::Tensor()>& function);

// An input of the function that was recorded, as the ONNX graph has it.
struct OnnxInput {
  std::string name;
  at::Tensor of_two, of_three;  // what the two tapes were given: a batch of 2 and one of 3
  // The name of a number, OnnxModel::numbers, or "". With a name this is no input of the graph, but
  // the tensor times that number.
  std::string times = {};
};

// What an ONNX graph is made of. The same function was recorded with two sizes of the batch: what
// grows with it is the batch in the graph, where it may have any size.
struct OnnxModel {
  Tape two, three;
  std::vector<OnnxInput> inputs;     // in the tapes' order
  std::vector<std::string> numbers;  // further inputs, float32 [1]
  std::string output;
  // Whether pictures are computed in float16, from the first convolution on, but where their values
  // came near what float16 can hold.
  bool half = false;
};

inline constexpr int64_t kOnnxOpset = 17;

// The operators of LibTorch that can be said in ONNX.
const std::set<std::string>& onnx_operators();

// Returns the file's bytes, checked by the library of the format. Throws c10::Error for what cannot
// be said in ONNX.
std::string onnx_file(const OnnxModel& model);

// --- how it is written: one translation for each operator

// A number in both tapes. Where they differ it grows with the batch.
struct Extent {
  int64_t two = 0, three = 0;

  bool fixed() const { return two == three; }
  bool operator==(const Extent&) const = default;
};
using Extents = std::vector<Extent>;
using Ints = std::vector<int64_t>;
using GraphValue = torch::jit::Value;
using GraphValues = std::vector<GraphValue*>;

// A graph of LibTorch's IR whose nodes are ONNX operators. LibTorch's own copy of the ONNX library
// makes the file of it.
class Writer {
 public:
  explicit Writer(const OnnxModel& model);

  std::string file();

  // One node with one result of this type.
  GraphValue* node(const std::string& kind, const GraphValues& inputs, at::ScalarType type);
  // A tensor that stands in the file.
  GraphValue* constant(const at::Tensor& tensor, at::ScalarType type);
  GraphValue* ints(const Ints& numbers);
  GraphValue* absent();  // an input that is left out
  GraphValue* in_type(GraphValue* value, at::ScalarType type);
  // The value with the batch's extent along axis 0, where it had 1.
  GraphValue* for_batch(GraphValue* value, int64_t axes);

  const OnnxModel& model() const { return model_; }
  // What a tensor of a tape is in the graph; constants have the type that is asked for.
  GraphValue* value_of(const TapeTensor& two, const TapeTensor& three, at::ScalarType type);
  bool is_half(const TapeTensor& two) const {
    return two.value >= 0 && types_.at(values_.at(two.value)) == at::kHalf;
  }

 private:
  GraphValue* input(const std::string& name,
                    at::IntArrayRef two,
                    at::IntArrayRef three,
                    at::ScalarType type);
  void name_batch(const std::string& name, at::IntArrayRef two, at::IntArrayRef three);

  const OnnxModel& model_;
  std::shared_ptr<torch::jit::Graph> graph_;
  GraphValue* absent_ = nullptr;
  GraphValue* batched_ = nullptr;  // an input whose axis 0 is the batch
  std::map<std::string, at::Tensor> initializers_;
  std::map<std::string, GraphValue*> constants_;
  std::map<GraphValue*, at::ScalarType> types_;
  std::map<std::pair<GraphValue*, at::ScalarType>, GraphValue*> cast_;
  std::map<int64_t, GraphValue*> values_;  // by places of the tapes
  std::unordered_map<std::string, std::unordered_map<int64_t, std::string>> batch_axes_;
};

// One operator of the tapes.
class Operator {
 public:
  Operator(Writer& writer, const TapeCall& two, const TapeCall& three);

  bool given(size_t i) const {
    const TapeArgument& a = two_.arguments.at(i);
    return a.tensors.empty() ? !a.other.isNone()
                             : a.tensors[0].value >= 0 || a.tensors[0].constant.defined();
  }
  size_t count(size_t i) const { return two_.arguments.at(i).tensors.size(); }
  // An argument, a tensor or a number; of a list the k-th.
  GraphValue* in(size_t i, std::optional<at::ScalarType> type = {}, size_t k = 0) const;
  // A tensor that does not follow from the inputs.
  at::Tensor fixed_tensor(size_t i) const;
  double number(size_t i) const { return two_.arguments.at(i).other.toScalar().toDouble(); }
  double number_or(size_t i, double other) const { return given(i) ? number(i) : other; }
  bool flag(size_t i) const { return two_.arguments.at(i).other.toBool(); }
  int64_t whole(size_t i) const {
    const Extent e = extents(i).at(0);
    TORCH_CHECK(e.fixed(), two_.name, ": a number grows with the batch");
    return e.two;
  }
  Extents extents(size_t i) const;  // an integer or a list of them
  Ints wholes(size_t i) const;
  Extents shape(size_t i, size_t k = 0) const;
  Extents result_shape(size_t k = 0) const;
  int64_t axis(size_t i, int64_t axes) const {
    const int64_t a = whole(i);
    return a < 0 ? a + axes : a;
  }

  GraphValue* node(const std::string& kind, const GraphValues& inputs) const {
    return writer_.node(kind, inputs, type_);
  }
  GraphValue* scalar(double number) const;
  at::ScalarType type() const { return type_; }

  Writer& writer() const { return writer_; }

 private:
  bool takes_half() const;

  Writer& writer_;
  const TapeCall &two_, &three_;
  at::ScalarType type_;  // that it computes in
};

// Writes an operator of onnx_operators() into the graph; returns its result.
GraphValue* translated(const Operator& op, const std::string& name);

}  // namespace gantrain

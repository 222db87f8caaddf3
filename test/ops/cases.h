// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "ops/kernels.h"
#include "ops/upfirdn2d/upfirdn2d.h"
#include "support/catch.h"
#include "support/tensor_checks.h"

namespace gantrain {

constexpr double kOperatorTolerance = 1e-5;  // scaled error against the stored float32 values

// One case of a fixture of operators: what it is, and its tensors, which are all to be looked at.
class OperatorCase {
 public:
  OperatorCase(std::string name, nlohmann::json what, std::map<std::string, at::Tensor> tensors)
      : name(std::move(name)), what(std::move(what)), tensors_(std::move(tensors)) {}

  // Undefined where the case has none of that name.
  at::Tensor operator[](const std::string& tensor) {
    seen_.insert(tensor);
    const auto found = tensors_.find(tensor);
    return found == tensors_.end() ? at::Tensor() : found->second;
  }

  // The input, ready to be differentiated by.
  at::Tensor leaf(const std::string& tensor) {
    const at::Tensor t = (*this)[tensor];
    return t.defined() ? t.clone().requires_grad_(true) : t;
  }

  void check(const std::string& tensor, const at::Tensor& mine) {
    CAPTURE(name, what.dump(), tensor);
    REQUIRE((*this)[tensor].defined());
    CHECK(scaled_error(mine.detach(), (*this)[tensor]) < kOperatorTolerance);
  }

  // sum(y * dy)'s derivatives against the stored ones: d<input> for each leaf that is defined.
  void check_gradients(const at::Tensor& y, const std::map<std::string, at::Tensor>& leaves) {
    std::vector<at::Tensor> inputs;
    std::vector<std::string> names;
    for (const auto& [input, tensor] : leaves) {
      if (!tensor.defined()) continue;
      inputs.push_back(tensor);
      names.push_back("d" + input);
    }
    const auto found = torch::autograd::grad({y}, inputs, {(*this)["dy"]}, /*retain_graph=*/true);
    for (size_t i = 0; i < names.size(); ++i) check(names[i], found[i]);
  }

  void check_all_seen() const {
    for (const auto& [tensor, _] : tensors_) {
      CAPTURE(name, tensor);
      CHECK(seen_.count(tensor) == 1);
    }
  }

  const std::string name;
  const nlohmann::json what;

 private:
  std::map<std::string, at::Tensor> tensors_;
  std::set<std::string> seen_;
};

// Runs `body` on every case of the file whose "op" is among `ops` (none: on every case), with both
// sets of kernels, and fails if there are none, if a tensor belongs to no case, or if one was not
// looked at.
inline void for_each_case(const std::string& file,
                          const std::set<std::string>& ops,
                          const std::function<void(OperatorCase&)>& body) {
  const TensorFile fixtures = fixture(file);
  const auto cases = nlohmann::json::parse(fixtures.metadata.at("cases"));
  std::map<std::string, std::map<std::string, at::Tensor>> tensors;
  for (const auto& [key, tensor] : fixtures.tensors) {
    const size_t slash = key.find('/');
    REQUIRE(cases.contains(key.substr(0, slash)));
    tensors[key.substr(0, slash)][key.substr(slash + 1)] = tensor;
  }
  for (const KernelSet set : {KernelSet::kAuto, KernelSet::kRef}) {
    const WithKernels with(set);
    int ran = 0;
    for (const auto& [name, what] : cases.items()) {
      if (!ops.empty() && ops.count(what.at("op")) == 0) continue;
      CAPTURE(name, what.dump(), names(set)[static_cast<size_t>(set)]);
      REQUIRE(tensors.count(name) == 1);
      OperatorCase one(name, what, tensors.at(name));
      body(one);
      one.check_all_seen();
      ++ran;
    }
    CHECK(ran > 0);
  }
}

// n, [x, y] or, for paddings, [x0, x1, y0, y1].
inline Scale2d scale_of(const nlohmann::json& n) {
  if (n.is_array()) return {n[0], n[1]};
  return {n, n};
}
inline Padding2d padding_of(const nlohmann::json& n) {
  if (!n.is_array()) return {n, n, n, n};
  if (n.size() == 2) return {n[0], n[0], n[1], n[1]};
  return {n[0], n[1], n[2], n[3]};
}

}  // namespace gantrain

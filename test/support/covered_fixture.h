// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <set>
#include <string>
#include <vector>

#include "support/tensor_checks.h"

namespace gantrain {

// A fixture that knows which of its tensors a test has used, so that none is passed over.
class CoveredFixture {
 public:
  explicit CoveredFixture(const std::string& name) : file_(fixture(name)) {}

  bool has(const std::string& key) const { return file_.tensors.count(key) != 0; }
  const at::Tensor& operator[](const std::string& key) {
    used_.insert(key);
    return file_.tensors.at(key);
  }
  std::vector<std::string> keys() const {
    std::vector<std::string> all;
    for (const auto& item : file_.tensors) all.push_back(item.first);
    return all;
  }
  std::vector<std::string> unused() const {
    std::vector<std::string> all;
    for (const std::string& key : keys()) {
      if (used_.count(key) == 0) all.push_back(key);
    }
    return all;
  }

 private:
  TensorFile file_;
  std::set<std::string> used_;
};

// max|a - b| against `relative` of the reference's largest value, plus `absolute`: below 1 is
// equal.
inline double error_in_tolerances(const at::Tensor& a,
                                  const at::Tensor& reference,
                                  double relative,
                                  double absolute) {
  TORCH_CHECK(
      a.sizes() == reference.sizes(), "shapes differ: ", a.sizes(), " and ", reference.sizes());
  const at::Tensor r = reference.to(at::kDouble);
  const double allowed = relative * r.abs().max().item<double>() + absolute;
  return (a.detach().to(at::kDouble) - r).abs().max().item<double>() / allowed;
}

}  // namespace gantrain

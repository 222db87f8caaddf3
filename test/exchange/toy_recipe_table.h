// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/torch.h"
#include "gan/model_json.h"
#include "gan/recipe.h"

namespace gantrain {

// A generator whose only tensor is "weight" [2], with three stages.
class TwoNumbers final : public Generator {
 public:
  TwoNumbers() { network_->register_parameter("weight", torch::zeros({2})); }
  std::shared_ptr<torch::nn::Module> network() override { return network_; }
  int64_t z_dim() const override { return 2; }
  std::vector<int64_t> levels() const override { return {4, 8, 16}; }
  at::Tensor images(const at::Tensor& z, const at::Tensor&, const SynthesisOptions&) override {
    return z;
  }

 private:
  std::shared_ptr<torch::nn::Module> network_ = std::make_shared<torch::nn::Module>("toy");
};

// Two recipes of that generator: "plain", which recognises "weight", and "official", which reads
// files where it is called "authors/weight".
inline RecipeTable toy_recipe_table() {
  static const RecipeFacts plain = {.name = "plain"};
  static const RecipeFacts official = {.name = "official", .has_official_names = true};
  using Tensors = std::map<std::string, at::Tensor>;
  const auto make = [](const Json&, const Tensors&, const std::string&) {
    return std::unique_ptr<Generator>(std::make_unique<TwoNumbers>());
  };
  const auto import_official = [](const TensorFile& file, const std::string&) {
    ModelContent model{{{"recipe", "official"}}, {}};
    for (const auto& [name, tensor] : file.tensors)
      if (name == "authors/weight") model.tensors["weight"] = tensor;
    return model;
  };
  return {
      {plain, nullptr, make, [](const Tensors& tensors) { return tensors.count("weight") == 1; }},
      {official, nullptr, make, [](const Tensors&) { return false; }, nullptr, import_official}};
}

}  // namespace gantrain

// SPDX-License-Identifier: Apache-2.0
#include "export_config.h"

#include "config/config.h"
#include "core/tensors.h"
#include "core/torch.h"
#include "draw/latents.h"
#include "gan/model_json.h"
#include "recipes.h"
#include "recipes/dcgan/networks.h"
#include "recipes/pggan/trained_generator.h"
#include "recipes/r3gan/shape.h"
#include "recipes/stylegan1/trained_generator.h"
#include "recipes/stylegan2/shape.h"
#include "recipes/stylegan3/shape.h"
#include "train/run_folder.h"
#include "util/error.h"
#include "util/hash.h"

namespace gantrain {

using Tensors = std::map<std::string, at::Tensor>;

namespace {

Json said_model(const ExportedModel& exported) {
  const auto at = exported.metadata.find("gantrain.model");
  if (at == exported.metadata.end()) return {};
  return parse_json(at->second, exported.file.string() + " (gantrain.model)", Exit::kInput);
}

// Sizes that the file does not state are read off its tensors.
Json dcgan_model(const Tensors& tensors, const std::string& source) {
  const dcgan::Shape s = dcgan::generator_shape(tensors, source);
  return {{"recipe", "dcgan"},
          {"z_dim", s.latent},
          {"img_resolution", Value<Size>::to_json(s.resolution)},
          {"img_channels", s.image_channels},
          {"channels", s.channels},
          {"norm", s.norm == dcgan::Norm::kBatch ? "batch" : "none"}};
}

template <class Shape>
Json read_over(Shape shape, const Json& said, const std::string& source) {
  read_model(said, source, shape);
  return model_of(shape);
}

Json complete_model(const ExportedModel& exported) {
  const Tensors tensors(exported.tensors.begin(), exported.tensors.end());
  const std::string source = exported.file.string();
  const Json said = said_model(exported);
  if (exported.recipe == "dcgan") return dcgan_model(tensors, source);
  if (exported.recipe == "pggan")
    return read_over(pggan::generator_shape(tensors, source), said, source);
  if (exported.recipe == "stylegan1")
    return read_over(stylegan1::generator_shape(tensors, source), said, source);
  if (exported.recipe == "stylegan2")
    return stylegan2::to_json(stylegan2::generator_shape(said, tensors, source));
  if (exported.recipe == "stylegan3")
    return stylegan3::to_json(stylegan3::generator_shape(said, tensors, source));
  if (exported.recipe == "r3gan")
    return r3gan::to_json(r3gan::generator_shape(said, tensors, source));
  fail(Exit::kInput, "{}: recipe {} cannot be exported to Python", source, exported.recipe);
}

std::string recipe_of(const ExportedModel& exported, const Tensors& tensors) {
  const Json said = said_model(exported);
  if (said.is_object() && said.contains("recipe")) return text_of(said["recipe"]);
  for (const RecipeRow& row : recipe_rows()) {
    if (row.recognises(tensors)) return row.facts.name;
  }
  throw std::logic_error("a generator of no recipe");  // it was loaded
}

SynthesisOptions options_of(const ModelFile& model, double trunc) {
  SynthesisOptions options;
  options.trunc = trunc;
  options.level = model.level.value_or(options.level);
  options.alpha = model.alpha.value_or(options.alpha);
  return options;
}

// About a thousand values of a picture. The step is odd, so that they lie in all columns.
constexpr int64_t kValues = 1000;

Json case_of(ExportedModel& exported, int64_t seed, double trunc) {
  Generator& generator = *exported.model.generator;
  const int64_t classes = generator.classes();
  const at::Tensor label = classes > 0 ? torch::full({1}, seed % classes, at::kLong) : at::Tensor();
  const at::Tensor z = latents_of_seeds({seed}, generator.z_dim());
  const at::Tensor picture =
      generator.images(z, label, options_of(exported.model, trunc))[0].contiguous();
  const auto* values = picture.const_data_ptr<float>();
  const int64_t stride = (picture.numel() / kValues) | 1;
  Json test = {{"seed", seed}, {"trunc", trunc}, {"shape", picture.sizes().vec()}};
  if (classes > 0) test["class"] = seed % classes;
  test["sha256"] = sha256({reinterpret_cast<const char*>(values), picture.nbytes()});
  test["stride"] = stride;
  test["values"] = Json::array();
  for (int64_t i = 0; i < picture.numel(); i += stride) test["values"].push_back(values[i]);
  return test;
}

}  // namespace

ExportedModel load_exported(const std::string& file_or_run) {
  ExportedModel exported;
  exported.file = find_model(file_or_run);
  exported.model = load_generator(exported.file, recipe_rows());
  TensorFile content = load_safetensors(exported.file);
  exported.metadata = std::move(content.metadata);
  exported.recipe = recipe_of(exported, content.tensors);
  exported.tensors = state_of(*exported.model.generator->network());
  return exported;
}

Json config_of(const ExportedModel& exported) {
  const Generator& generator = *exported.model.generator;
  Json config = {{"format", "gantrain-generator"},
                 {"gantrain", kVersion},
                 {"recipe", exported.recipe},
                 {"model", complete_model(exported)}};
  const bool as_it_is = exported.recipe == "dcgan" || exported.recipe == "r3gan";
  config["z"] = {{"dim", generator.z_dim()},
                 {"drawn", "numpy.random.RandomState(seed).randn(dim), as float32"},
                 {"normalised", as_it_is ? "no" : "x / sqrt(mean(x^2) + 1e-8)"}};
  config["classes"] = {{"count", generator.classes()}, {"table", to_json(exported.model.classes)}};
  config["stage"] = nullptr;
  if (exported.model.level || exported.model.alpha) {
    const int64_t full = generator.levels().empty() ? 0 : generator.levels().back();
    config["stage"] = {{"level", exported.model.level.value_or(full)},
                       {"alpha", exported.model.alpha.value_or(1)}};
  }
  if (generator.num_ws() > 0) {
    config["truncation"] = {
        {"average", exported.recipe == "stylegan1" ? "dlatent_avg" : "mapping.w_avg"},
        {"psi", 1},
        {"layers", generator.num_ws()}};
  }
  if (generator.has_noise()) config["noise_mode"] = "const";
  config["epsilon"] = {{"norms", 1e-8}, {"batch_norm", 1e-5}};
  config["pictures"] = "[N, C, H, W], about in [-1, 1]; 8 bits: floor(x * 127.5 + 128)";
  return config;
}

Json self_test_of(ExportedModel& exported) {
  constexpr double kPsi = 0.7;
  Json cases = Json::array();
  for (int64_t seed = 0; seed < 4; ++seed) {
    const bool pulled = seed >= 2 && exported.model.generator->num_ws() > 0;
    cases.push_back(case_of(exported, seed, pulled ? kPsi : 1));
  }
  return {{"tolerance", 1e-4}, {"drawn_by", kVersion}, {"cases", cases}};
}

}  // namespace gantrain

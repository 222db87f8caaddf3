// SPDX-License-Identifier: Apache-2.0
#include "gan/model_json.h"

#include <utility>

#include "config/config.h"
#include "core/torch.h"

namespace gantrain {

namespace detail {

namespace {

// "mapping_kwargs.num_layers" -> "mapping_kwargs", "num_layers"; "z_dim" -> "", "z_dim".
std::pair<std::string, std::string> group_and_key(const std::string& path) {
  const size_t dot = path.rfind('.');
  if (dot == std::string::npos) return {"", path};
  return {path.substr(0, dot), path.substr(dot + 1)};
}

const Json* member_of(const Json& object, const std::string& key) {
  const auto at = object.find(key);
  return at == object.end() || at->is_null() ? nullptr : &*at;
}

}  // namespace

const Json* model_entry(const Json& model,
                        const std::string& source,
                        const std::string& path,
                        const std::set<std::string>& outside) {
  const auto [group, key] = group_and_key(path);
  if (!group.empty()) {
    if (const Json* inner = member_of(model, group)) {
      if (!inner->is_object()) refuse_model_entry(source, group, *inner, "an object");
      if (const Json* found = member_of(*inner, key)) return found;
    }
  }
  return !group.empty() && outside.count(key) != 0 ? nullptr : member_of(model, key);
}

Json& new_model_entry(Json& model, const std::string& path) {
  const auto [group, key] = group_and_key(path);
  return group.empty() ? model[key] : model[group][key];
}

void refuse_model_entry(const std::string& source,
                        const std::string& path,
                        const Json& given,
                        const std::string& allowed) {
  refuse_file(
      source, "{} = {} in the network's configuration; {} is needed", path, given.dump(), allowed);
}

}  // namespace detail

const at::Tensor& GeneratorTensors::get(const std::string& name) const {
  const auto at = tensors.find(name);
  if (at == tensors.end()) refuse_file(source, "tensor {} is missing: not {}", name, kind);
  return at->second;
}

const at::Tensor& GeneratorTensors::get(const std::string& name, int64_t axes) const {
  const at::Tensor& tensor = get(name);
  if (tensor.dim() != axes || tensor.numel() == 0) {
    refuse_file(source,
                "tensor {} has shape [{}]; {}'s has {} axes, none empty",
                name,
                fmt::join(tensor.sizes(), ", "),
                kind,
                axes);
  }
  return tensor;
}

int64_t GeneratorTensors::size(const std::string& name, int64_t axes, int64_t axis) const {
  const at::Tensor& tensor = get(name);
  if (tensor.dim() != axes)
    refuse_file(source,
                "tensor {} has shape [{}], {} dimensions are needed",
                name,
                fmt::join(tensor.sizes(), ", "),
                axes);
  return tensor.size(axis);
}

Json official_arguments(const TensorFile& file, const std::string& source) {
  const auto text = file.metadata.find("config");
  if (text == file.metadata.end()) return Json::object();
  Json all = parse_json(text->second, source + " (config)", Exit::kInput);
  if (!all.is_object()) refuse_file(source, "config is no JSON object");
  if (all.contains("G") && all["G"].is_object()) {
    const Json own = all["G"];
    for (const auto& item : own.items()) all[item.key()] = item.value();
  }
  return all;
}

}  // namespace gantrain

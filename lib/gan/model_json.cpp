// SPDX-License-Identifier: Apache-2.0
#include "gan/model_json.h"

#include "config/config.h"

namespace gantrain {

Json official_arguments(const TensorFile& file, const std::string& source) {
  const auto text = file.metadata.find("config");
  if (text == file.metadata.end()) return Json::object();
  Json all = parse_json(text->second, source + " (config)", Exit::kInput);
  if (!all.is_object()) fail(Exit::kInput, "{}: config is no JSON object", source);
  if (all.contains("G") && all["G"].is_object()) {
    const Json own = all["G"];
    for (const auto& item : own.items()) all[item.key()] = item.value();
  }
  return all;
}

}  // namespace gantrain

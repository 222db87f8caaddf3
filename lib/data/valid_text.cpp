// SPDX-License-Identifier: Apache-2.0
#include "data/valid_text.h"

#include <nlohmann/json.hpp>

namespace gantrain {

std::string valid_text(const std::string& name) {
  using Json = nlohmann::json;
  return Json::parse(Json(name).dump(-1, ' ', false, Json::error_handler_t::replace));
}

}  // namespace gantrain

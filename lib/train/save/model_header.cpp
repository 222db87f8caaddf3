// SPDX-License-Identifier: Apache-2.0
#include "train/save/model_header.h"

#include <fstream>

namespace gantrain {

Json header_of_model(const std::filesystem::path& file) {
  constexpr uint64_t kMost = 16 << 20;  // bytes
  std::ifstream stream(file, std::ios::binary);
  uint64_t length = 0;
  if (!stream.read(reinterpret_cast<char*>(&length), sizeof(length)) || length > kMost) return {};
  std::string header(length, '\0');
  if (!stream.read(header.data(), static_cast<std::streamsize>(length))) return {};
  const Json json = Json::parse(header, nullptr, /*allow_exceptions=*/false);
  return json.is_object() ? json : Json();
}

Json model_in_header(const Json& header) {
  if (!header.is_object() || !header.contains("__metadata__")) return {};
  const Json& metadata = header["__metadata__"];
  if (!metadata.is_object() || !metadata.contains("gantrain.model")) return {};
  const Json& model = metadata["gantrain.model"];
  return model.is_string() ? Json::parse(model.get<std::string>(), nullptr, false) : Json();
}

}  // namespace gantrain

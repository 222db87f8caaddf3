// SPDX-License-Identifier: Apache-2.0
#include "page/model_classes.h"

#include <algorithm>
#include <array>
#include <fstream>

#include "config/value.h"
#include "util/text.h"

namespace gantrain {

namespace fs = std::filesystem;

namespace {

constexpr uint64_t kLongestHeader = 100'000'000;  // bytes, as safetensors itself limits it

fs::path newest_model(const fs::path& run_folder) {
  fs::path newest;
  std::error_code ignored;
  for (const fs::directory_entry& entry : fs::directory_iterator(run_folder, ignored)) {
    const std::string name = entry.path().filename();
    const bool is_model = starts_with(name, "model-") && ends_with(name, ".safetensors");
    if (is_model && name > newest.filename().string()) newest = entry.path();
  }
  return newest;
}

// The header of a safetensors file: its length as 8 bytes, little-endian, then JSON. Null if it
// cannot be read.
Json header_of(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  std::array<unsigned char, 8> bytes{};
  if (!in.read(reinterpret_cast<char*>(bytes.data()), bytes.size())) return {};
  uint64_t length = 0;
  for (size_t i = 0; i < bytes.size(); ++i) length |= static_cast<uint64_t>(bytes[i]) << (8 * i);
  std::error_code error;
  if (length > kLongestHeader || length > fs::file_size(file, error) || error) return {};
  std::string text(length, '\0');
  if (!in.read(text.data(), static_cast<std::streamsize>(length))) return {};
  return Json::parse(text, nullptr, /*allow_exceptions=*/false);
}

}  // namespace

std::vector<std::string> classes_of_models(const fs::path& run_folder) {
  const Json header = header_of(newest_model(run_folder));
  if (!header.is_object()) return {};
  const Json metadata = header.value("__metadata__", Json::object());
  if (!metadata.is_object() || !metadata.contains("gantrain.classes")) return {};
  const Json& table = metadata["gantrain.classes"];
  if (!table.is_string()) return {};
  std::vector<std::string> names;
  const Json rows = Json::parse(table.get<std::string>(), nullptr, /*allow_exceptions=*/false);
  if (!rows.is_array()) return {};
  for (const Json& row : rows) {
    const bool named = row.is_object() && row.contains("name") && row["name"].is_string();
    names.push_back(named ? row["name"].get<std::string>() : "");
  }
  return names;
}

}  // namespace gantrain

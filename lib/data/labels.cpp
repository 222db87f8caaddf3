// SPDX-License-Identifier: Apache-2.0
#include "data/labels.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <unordered_map>

#include "util/error.h"

namespace gantrain {

namespace {

constexpr int64_t kMaxClasses = 1 << 20;

using Json = nlohmann::json;

std::unordered_map<std::string, int64_t> read_pairs(const Json& pairs, const std::string& name) {
  std::unordered_map<std::string, int64_t> label_of;
  for (const Json& pair : pairs) {
    if (!pair.is_array() || pair.size() != 2 || !pair[0].is_string()) {
      fail(Exit::kInput, "{}: each of \"labels\" must be [\"path\", class]", name);
    }
    std::string path = pair[0].get<std::string>();
    std::replace(path.begin(), path.end(), '\\', '/');
    const bool whole = pair[1].is_number_integer();
    const int64_t label = whole ? pair[1].get<int64_t>() : -1;
    if (label < 0 || label >= kMaxClasses) {
      fail(Exit::kInput, "{}: the class of {} must be a whole number from 0 up", name, path);
    }
    label_of[path] = label;
  }
  return label_of;
}

}  // namespace

size_t common_folders(const std::vector<std::string>& paths) {
  const auto [low, high] = std::minmax_element(paths.begin(), paths.end());
  const auto end = std::mismatch(low->begin(), low->end(), high->begin(), high->end()).first;
  const size_t same = static_cast<size_t>(end - low->begin());
  const size_t slash = low->substr(0, same).rfind('/');
  return slash == std::string::npos ? 0 : slash + 1;
}

Labels labels_of_folders(const std::vector<std::string>& pictures) {
  if (pictures.empty()) return {};
  const size_t skip = common_folders(pictures);
  std::map<std::string, int64_t> class_of;
  for (const std::string& path : pictures) {
    const size_t slash = path.find('/', skip);
    if (slash == std::string::npos) return {};
    class_of[path.substr(skip, slash - skip)] = 0;
  }
  if (class_of.size() < 2) return {};
  Labels labels;
  for (auto& [folder, number] : class_of) number = labels.classes++;
  for (const std::string& path : pictures) {
    labels.of.push_back(class_of.at(path.substr(skip, path.find('/', skip) - skip)));
  }
  return labels;
}

Labels labels_of_json(std::string_view json,
                      const std::string& name,
                      const std::vector<std::string>& pictures) {
  const Json content = Json::parse(json, nullptr, /*allow_exceptions=*/false);
  if (!content.is_object()) fail(Exit::kInput, "{}: not a JSON object", name);
  if (!content.contains("labels") || content["labels"].is_null()) return {};
  if (!content["labels"].is_array()) {
    fail(Exit::kInput, "{}: \"labels\" must be null or a list of [\"path\", class]", name);
  }
  const auto label_of = read_pairs(content["labels"], name);
  Labels labels;
  for (const std::string& path : pictures) {
    const auto found = label_of.find(path);
    if (found == label_of.end()) fail(Exit::kInput, "{}: no label for {}", name, path);
    labels.of.push_back(found->second);
    labels.classes = std::max(labels.classes, found->second + 1);
  }
  return labels;
}

}  // namespace gantrain

// SPDX-License-Identifier: Apache-2.0
#include "page/run_log.h"

#include <cctype>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "util/text.h"

namespace gantrain {

namespace fs = std::filesystem;

namespace {

using Json = nlohmann::json;

// The lines of a file that are JSON objects; none if there is no such file.
std::vector<Json> objects_of(const fs::path& path) {
  std::vector<Json> objects;
  std::ifstream in(path);
  for (std::string line; std::getline(in, line);) {
    Json object = Json::parse(line, nullptr, /*allow_exceptions=*/false);
    if (object.is_object()) objects.push_back(std::move(object));
  }
  return objects;
}

double number_or_nan(const Json& value) {
  return value.is_number() ? value.get<double>() : std::numeric_limits<double>::quiet_NaN();
}

// Drops the points at this place or later, which were written before the run resumed from an
// earlier state.
void append(Curve& curve, double kimg, double value) {
  while (!curve.empty() && curve.back().first >= kimg) curve.pop_back();
  curve.emplace_back(kimg, value);
}

std::optional<double> kimg_of_row(const Json& row) {
  const auto kimg = row.find("Progress/kimg");
  if (kimg == row.end() || !kimg->is_object() || !kimg->contains("mean")) return std::nullopt;
  const Json& mean = (*kimg)["mean"];
  return mean.is_number() ? std::optional(mean.get<double>()) : std::nullopt;
}

std::optional<double> kimg_of_metric(const Json& line) {
  if (const auto kimg = line.find("kimg"); kimg != line.end() && kimg->is_number()) {
    return kimg->get<double>();
  }
  const auto snapshot = line.find("snapshot");
  if (snapshot == line.end() || !snapshot->is_string()) return std::nullopt;
  return kimg_in_name(fs::path(snapshot->get<std::string>()).filename());
}

// What names of curves end with, by the recipes of one file.
class RecipeNames {
 public:
  // Returns "" for the first recipe, " (50000 fakes)" for another one, and " (recipe 3)" where that
  // would not tell it from an earlier one.
  const std::string& of(const Json& line) {
    const Json recipe = line.value("recipe", Json());
    const auto [known, is_new] = names_.try_emplace(recipe.dump());
    if (!is_new) return known->second;
    const bool counted = recipe.is_object() && recipe.contains("fakes");
    const std::string fakes = counted ? " (" + recipe["fakes"].dump() + " fakes)" : "";
    const bool tells = used_.insert(fakes).second && counted;
    if (names_.size() > 1)
      known->second = tells ? fakes : " (recipe " + std::to_string(names_.size()) + ")";
    return known->second;
  }

 private:
  std::map<std::string, std::string> names_;  // by recipe
  std::set<std::string> used_;
};

}  // namespace

std::optional<double> kimg_in_name(const std::string& name) {
  const auto digit = [&](size_t i) { return i < name.size() && std::isdigit(name[i]) != 0; };
  size_t first = 0;
  while (first < name.size() && !digit(first)) ++first;
  size_t end = first;
  while (digit(end) || (end > first && end < name.size() && name[end] == '.' && digit(end + 1))) {
    ++end;
  }
  return parse_double(name.substr(first, end - first));
}

std::optional<double> kimg_of_line(const std::string& line) {
  const Json row = Json::parse(line, nullptr, /*allow_exceptions=*/false);
  if (!row.is_object()) return std::nullopt;
  const auto kimg = kimg_of_row(row);
  return kimg ? kimg : kimg_of_metric(row);
}

std::map<std::string, Curve> read_stats(const fs::path& run_folder) {
  std::map<std::string, Curve> curves;
  for (const Json& row : objects_of(run_folder / "stats.jsonl")) {
    const auto kimg = kimg_of_row(row);
    if (!kimg) continue;
    for (const auto& [name, value] : row.items()) {
      if (!value.is_object() || !value.contains("mean")) continue;
      append(curves[name], *kimg, number_or_nan(value["mean"]));
    }
  }
  return curves;
}

std::map<std::string, Curve> read_metrics(const fs::path& run_folder) {
  std::map<std::string, Curve> curves;
  std::error_code ignored;
  for (const fs::directory_entry& entry : fs::directory_iterator(run_folder, ignored)) {
    const std::string file = entry.path().filename();
    if (!starts_with(file, "metric-") || !ends_with(file, ".jsonl")) continue;
    const std::string metric = entry.path().stem().string().substr(7);
    RecipeNames recipes;
    for (const Json& line : objects_of(entry.path())) {
      const auto kimg = kimg_of_metric(line);
      const auto results = line.find("results");
      if (!kimg || results == line.end() || !results->is_object()) continue;
      const std::string& recipe = recipes.of(line);
      for (const auto& [name, value] : results->items()) {
        const std::string own = name == metric ? name : metric + "/" + name;
        append(curves[own + recipe], *kimg, number_or_nan(value));
      }
    }
  }
  return curves;
}

}  // namespace gantrain

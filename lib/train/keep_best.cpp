// SPDX-License-Identifier: Apache-2.0
#include "train/keep_best.h"

#include <cmath>

#include "config/config.h"
#include "core/safetensors.h"
#include "metrics/metric_table.h"
#include "util/error.h"
#include "util/file.h"
#include "util/log.h"
#include "util/text.h"

namespace gantrain {

namespace fs = std::filesystem;

namespace {

double kimg_of(int64_t images) { return static_cast<double>(images) / 1e3; }

// Throws UserError(kInput) where the model is not the one that the record is about: a session that
// ended between the two files leaves a newer model. Models of earlier versions do not tell.
void check_model(const fs::path& model, double kimg) {
  const TensorFile file = load_safetensors(model);
  const auto own = file.metadata.find("gantrain.kimg");
  if (own == file.metadata.end() || parse_double(own->second) == kimg) return;
  fail(Exit::kInput,
       "{}: is of {} kimg, {} is about {}",
       model.string(),
       own->second,
       KeepBest::kRecord,
       number(kimg));
}

// Returns the record of a folder, or nothing where there is none. Throws UserError(kInput) where it
// is broken, or about another model.
std::optional<BestModel> read_best(const fs::path& folder) {
  const fs::path path = folder / KeepBest::kRecord;
  if (!fs::exists(path) || !fs::exists(folder / KeepBest::kModel)) return std::nullopt;
  const Json json = parse_json(read_file(path), path.string(), Exit::kInput);
  const auto has = [&](const char* key, auto is) { return json.contains(key) && is(json[key]); };
  const auto is_number = [](const Json& value) { return value.is_number(); };
  const bool sound = json.is_object() && has("value", is_number) && has("kimg", is_number) &&
                     has("metric", [](const Json& value) { return value.is_string(); });
  if (!sound) fail(Exit::kInput, "{}: metric, value or kimg is missing", path.string());
  check_model(folder / KeepBest::kModel, json["kimg"]);
  return BestModel{json["metric"], json["value"], json["kimg"], json.value("recipe", Json())};
}

}  // namespace

KeepBest::KeepBest(fs::path folder, const std::string& metric, int64_t images_seen)
    : folder_(std::move(folder)), metric_(find_metric(metric).name) {
  try {
    best_ = read_best(folder_);
  } catch (const UserError& e) {
    if (e.code() != Exit::kInput) throw;
    forget(e.what());
  }
  if (!best_) return;
  if (best_->metric != metric_) {
    forget(fmt::format("{} was chosen by {}", kModel, best_->metric));
  } else if (best_->kimg > kimg_of(images_seen)) {
    forget(
        fmt::format("{} is of {} kimg, which this run leaves behind", kModel, number(best_->kimg)));
  } else {
    info("best    {} {:.4g} at {} kimg so far", metric_, best_->value, number(best_->kimg));
  }
}

void KeepBest::forget(const std::string& why) {
  best_.reset();
  for (const char* name : {kModel, kRecord}) {
    std::error_code error;
    fs::rename(folder_ / name, folder_ / (std::string("superseded-") + name), error);
  }
  warn("{}: the search for the best model begins anew (the old one: superseded-*)", why);
}

bool KeepBest::is_better(double value) const {
  if (!best_) return true;
  return find_metric(metric_).lower_is_better ? value < best_->value : value > best_->value;
}

bool KeepBest::offer(const Json& line, int64_t images_seen, const SaveModel& save) {
  if (line.at("metric") != metric_) return false;
  const Json& results = line.at("results");
  const char* key = find_metric(metric_).key;
  if (!results.contains(key) || !results[key].is_number()) return false;
  const auto value = results[key].get<double>();
  if (!std::isfinite(value)) return false;
  const Json recipe = line.value("recipe", Json());
  if (best_ && !same_recipe(best_->recipe, recipe))
    forget(fmt::format("{} was measured by another recipe", metric_));
  if (!is_better(value)) return false;
  best_ = BestModel{metric_, value, kimg_of(images_seen), recipe};
  const Json record = {{"metric", metric_},
                       {"value", value},
                       {"kimg", best_->kimg},
                       {"recipe", recipe},
                       {"results", results},
                       {"model", kModel}};
  save(folder_ / kModel,
       [path = folder_ / kRecord, text = record.dump(2) + "\n"] { write_file(path, text); });
  info("best    {} {:.4g} at {} kimg: {}", metric_, value, number(best_->kimg), kModel);
  return true;
}

}  // namespace gantrain

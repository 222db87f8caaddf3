// SPDX-License-Identifier: Apache-2.0
#include "report/stats.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "util/file.h"
#include "util/time.h"

namespace gantrain {

namespace {

using Json = nlohmann::ordered_json;

// Finite numbers as they are, others as null: JSON knows no NaN.
Json finite_or_null(double value) { return std::isfinite(value) ? Json(value) : Json(nullptr); }

Json whole(double count) { return Json(static_cast<int64_t>(std::llround(count))); }

}  // namespace

double Moments::std() const {
  if (num == 0) return std::numeric_limits<double>::quiet_NaN();
  const double average = mean();
  return std::sqrt(std::max(0.0, sum_of_squares / num - average * average));
}

void Stats::add(const std::string& name, double value) { add(name, 1, value, value * value); }

void Stats::add(const std::string& name, double num, double sum, double sum_of_squares) {
  Moments& moments = values_[name];
  if (!std::isfinite(sum) || !std::isfinite(sum_of_squares)) {
    moments.bad += num;
    return;
  }
  moments.num += num;
  moments.sum += sum;
  moments.sum_of_squares += sum_of_squares;
}

std::vector<std::string> Stats::names() const {
  std::vector<std::string> names;
  for (const auto& [name, moments] : values_) names.push_back(name);
  return names;
}

std::vector<double> Stats::pack(const std::vector<std::string>& names) const {
  std::vector<double> packed;
  for (const std::string& name : names) {
    const auto found = values_.find(name);
    const Moments m = found == values_.end() ? Moments{} : found->second;
    packed.insert(packed.end(), {m.num, m.sum, m.sum_of_squares, m.bad});
  }
  return packed;
}

void Stats::unpack(const std::vector<std::string>& names, const std::vector<double>& packed) {
  if (packed.size() != 4 * names.size()) throw std::logic_error("Stats::unpack: wrong size");
  for (size_t i = 0; i < names.size(); ++i) {
    const double* m = &packed[4 * i];
    values_[names[i]] = {.num = m[0], .sum = m[1], .sum_of_squares = m[2], .bad = m[3]};
  }
}

std::optional<double> Stats::mean(const std::string& name) const {
  const auto found = values_.find(name);
  if (found == values_.end() || found->second.num == 0) return std::nullopt;
  return found->second.mean();
}

std::string Stats::to_json_line(double timestamp) const {
  Json line = Json::object();
  for (const auto& [name, moments] : values_) {
    if (moments.num == 0 && moments.bad == 0) continue;
    Json entry = Json::object();
    entry["num"] = whole(moments.num);
    entry["mean"] = finite_or_null(moments.mean());
    entry["std"] = finite_or_null(moments.std());
    if (moments.bad > 0) entry["bad"] = whole(moments.bad);
    line[name] = std::move(entry);
  }
  line["timestamp"] = timestamp;
  // Names are ours, but a name with broken UTF-8 must not end a run.
  return line.dump(-1, ' ', false, Json::error_handler_t::replace);
}

void append_stats(const std::filesystem::path& folder, const Stats& stats) {
  append_line(folder / "stats.jsonl", stats.to_json_line(unix_seconds()));
}

}  // namespace gantrain

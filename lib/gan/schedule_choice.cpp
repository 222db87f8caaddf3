// SPDX-License-Identifier: Apache-2.0
#include "gan/schedule_choice.h"

#include <algorithm>
#include <cmath>

#include "gan/picture_size.h"
#include "util/error.h"
#include "util/text.h"

namespace gantrain {

namespace {

constexpr int64_t kGroup = 4;  // samples of a minibatch standard deviation

// Whether a key was neither given by the user nor chosen before.
bool is_free(const Config& config, const std::string& key) {
  return !config.given(key) && !starts_with(config.origin(key), "auto");
}

bool is_auto(const Config& config, const std::string& key) {
  return text_of(config.get(key)) == "auto";
}

const ScheduleRow& row_for(const std::vector<ScheduleRow>& rows, int64_t ranks) {
  const ScheduleRow* best = &rows.front();
  for (const ScheduleRow& row : rows) {
    if (row.ranks <= ranks) best = &row;
  }
  return *best;
}

int64_t cut_for(int64_t batch, int64_t ranks) {
  const int64_t of_rank = std::max<int64_t>(batch / ranks, 1);
  return (of_rank >= kGroup ? of_rank / kGroup * kGroup : of_rank) * ranks;
}

std::string text_of_table(const SizeTable& table) {
  std::vector<std::string> parts;
  for (const auto& [size, value] : table) {
    if (size != 0) parts.push_back(fmt::format("{}:{}", size, number(value)));
  }
  if (table.count(0) > 0) parts.push_back(number(table.at(0)));
  return join(parts, ",");
}

double value_of(const SizeTable& table, int64_t size) {
  const auto at = table.find(size);
  if (at != table.end()) return at->second;
  return table.count(0) > 0 ? table.at(0) : 1;
}

SizeTable table_of(const Config& config, const std::string& key, const std::string& automatic) {
  return parse_size_table(is_auto(config, key) ? automatic : text_of(config.get(key)), key);
}

// Scales the learning rates of a table of batches to the batch that the user has given.
SizeTable scaled(const SizeTable& rates,
                 const SizeTable& table,
                 int64_t batch,
                 const std::string& rule) {
  SizeTable result;
  for (int64_t size = 4; size <= 1024; size *= 2) {
    const double ratio = static_cast<double>(batch) / value_of(table, size);
    result[size] = value_of(rates, size) * (rule == "linear" ? ratio : std::sqrt(ratio));
  }
  return result;
}

}  // namespace

std::vector<std::string> choose_schedule(Config& config,
                                         int64_t ranks,
                                         const std::vector<ScheduleRow>& rows) {
  std::vector<std::string> lines;
  const std::string why = fmt::format("auto ({} rank{})", ranks, ranks == 1 ? "" : "s");
  const ScheduleRow& row = row_for(rows, ranks);
  SizeTable batches = table_of(config, "schedule.batch", row.batch);
  if (is_auto(config, "schedule.batch")) {
    for (auto& [size, batch] : batches)
      batch = static_cast<double>(cut_for(static_cast<int64_t>(batch), ranks));
  }
  const SizeTable rates = table_of(config, "schedule.lr_factor", row.lr_factor);
  const bool own_batch = config.given("train.batch");
  const std::string rule = text_of(config.get("train.lr_scale"));
  if (own_batch && rule != "none" && is_free(config, "schedule.lr_factor")) {
    const auto batch = config.get("train.batch").get<int64_t>();
    config.set("schedule.lr_factor",
               text_of_table(scaled(rates, batches, batch, rule)),
               "auto (--lr-scale " + rule + ")");
  } else if (is_auto(config, "schedule.lr_factor")) {
    config.set("schedule.lr_factor", text_of_table(rates), why);
  }
  if (own_batch && is_free(config, "schedule.batch")) {
    config.set("schedule.batch", text_of(config.get("train.batch")), "auto (train.batch)");
  } else if (is_auto(config, "schedule.batch")) {
    config.set("schedule.batch", text_of_table(batches), why);
    lines.push_back(fmt::format("auto    schedule.batch {}, lr_factor {}: the table of {} device{}",
                                text_of_table(batches),
                                text_of(config.get("schedule.lr_factor")),
                                row.ranks,
                                row.ranks == 1 ? "" : "s"));
  }
  if (is_free(config, "train.batch"))
    config.set("train.batch", schedule_of(config).stages().front().batch, "auto (schedule.batch)");
  return lines;
}

Schedule schedule_of(const Config& config) {
  const Size resolution = resolution_of(config);
  check_growing_resolution(resolution);
  return make_schedule(config.read<ScheduleOptions>("schedule."), resolution.width);
}

void check_growing_resolution(const Size& resolution) {
  if (!resolution.is_square()) {
    fail(Exit::kUsage,
         "data.resolution = {}: networks that grow (pggan, stylegan1) are built for squares alone; "
         "the presets stylegan2..., dcgan, dcgan-tiny, lsgan and wgan-gp take rectangles",
         to_text(resolution));
  }
  const int64_t side = resolution.width;
  const bool power_of_two = (side & (side - 1)) == 0;
  if (power_of_two && side >= 4 && side <= 1024) return;
  fail(Exit::kUsage,
       "data.resolution = {}: networks that grow by doubling are built for powers of two from 4 to "
       "1024",
       side);
}

}  // namespace gantrain

// SPDX-License-Identifier: Apache-2.0
#include "gan/schedule.h"

#include <algorithm>
#include <cmath>

#include "gan/recipe_facts.h"
#include "util/error.h"
#include "util/text.h"
#include "util/wording.h"

namespace gantrain {

double rate_factor(const std::string& rule, double ratio) {
  if (rule == "none") return 1;
  return rule == "linear" ? ratio : std::sqrt(ratio);
}

bool scale_rates(Config& config, double ratio) {
  const std::string rule = text_of(config.get("train.lr_scale"));
  const double factor = rate_factor(rule, ratio);
  bool scales = false;
  for (const Key& key : config.schema()) {
    if (rule == "none" || !ends_with(key.path, ".lr") || config.given(key.path)) continue;
    const auto rate = Value<Scheduled>::from_text(text_of(config.get(key.path))).value();
    config.set(key.path,
               Value<Scheduled>::to_json(scaled(rate, factor)),
               fmt::format("--lr-scale {} (x {})", rule, shortest(factor)));
    scales = true;
  }
  return scales;
}

SizeTable parse_size_table(const std::string& text, const std::string& key) {
  SizeTable table;
  for (const std::string& part : split(text, ',')) {
    const std::vector<std::string> pair = split(part, ':');
    const auto size = pair.size() == 2 ? parse_int(trim(pair[0])) : std::optional<int64_t>(0);
    const auto value = parse_double(trim(pair.back()));
    const bool named_twice = size && table.count(*size) > 0;
    if (pair.size() > 2 || !size || !value || *value <= 0 || named_twice ||
        (pair.size() == 2 && *size < 4)) {
      fail(Exit::kUsage,
           "{} = {}: {} is not RESOLUTION:VALUE with a resolution of its own, or one value for all "
           "others",
           key,
           text,
           trim(part));
    }
    table[*size] = *value;
  }
  return table;
}

namespace {

double value_at(const SizeTable& table, int64_t resolution, const char* key) {
  const auto at = table.find(resolution);
  if (at != table.end()) return at->second;
  const auto others = table.find(0);
  if (others == table.end())
    fail(Exit::kUsage, "{}: no value for {} pixels, and none for all others", key, resolution);
  return others->second;
}

}  // namespace

int64_t Schedule::stage_at(int64_t images_seen) const {
  const auto after = std::upper_bound(
      stages_.begin(), stages_.end(), images_seen, [](int64_t images, const Stage& stage) {
        return images < stage.first;
      });
  return after - stages_.begin() - 1;
}

double Schedule::alpha_at(int64_t images_seen) const {
  const Stage& stage = stages_[static_cast<size_t>(stage_at(images_seen))];
  if (!stage.fading) return 1;
  return static_cast<double>(images_seen - stage.first) / static_cast<double>(stage.length);
}

int64_t Schedule::iterations_to(int64_t images) const {
  int64_t seen = 0, iterations = 0;
  for (size_t i = 0; i < stages_.size() && seen < images; ++i) {
    const bool last = i + 1 == stages_.size();
    const int64_t end = last ? images : std::min(images, stages_[i + 1].first);
    if (end <= seen) continue;  // the batch before went over all of it
    const int64_t steps = (end - seen + stages_[i].batch - 1) / stages_[i].batch;
    seen += steps * stages_[i].batch;
    iterations += steps;
  }
  return iterations;
}

std::string Schedule::name_of(int64_t stage) const {
  const Stage& s = stages_[static_cast<size_t>(stage)];
  return fmt::format("stage {} of {}: {} pixels, {}",
                     stage + 1,
                     stages_.size(),
                     s.resolution,
                     s.fading ? "fading in" : "stable");
}

Schedule make_schedule(const ScheduleOptions& o, int64_t resolution) {
  if (o.start > resolution) {
    fail(
        Exit::kUsage, "schedule.start = {}: larger than data.resolution = {}", o.start, resolution);
  }
  const SizeTable batches = parse_size_table(o.batch, "schedule.batch");
  const SizeTable rates = parse_size_table(o.lr_factor, "schedule.lr_factor");
  std::vector<Stage> stages;
  int64_t first = 0;
  for (int64_t r = o.start; r <= resolution; r *= 2) {
    const double batch = value_at(batches, r, "schedule.batch");
    if (batch != static_cast<double>(static_cast<int64_t>(batch)))
      fail(Exit::kUsage, "schedule.batch: {} is no number of images", shortest(batch));
    for (const bool fading : {true, false}) {
      const int64_t length = fading ? o.fade.images : o.stable.images;
      if (fading && (r == o.start || length == 0)) continue;
      stages.push_back({first,
                        length,
                        r,
                        fading,
                        static_cast<int64_t>(batch),
                        value_at(rates, r, "schedule.lr_factor")});
      first += length;
    }
  }
  return Schedule(std::move(stages));
}

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
    if (size != 0) parts.push_back(fmt::format("{}:{}", size, shortest(value)));
  }
  if (table.count(0) > 0) parts.push_back(shortest(table.at(0)));
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

// Whether the command gives the value, which then goes before what a file gives.
bool is_of_the_command(const Config& config, const std::string& key) {
  return starts_with(config.origin(key), "flag") || starts_with(config.origin(key), "env");
}

// Whether train.batch, which the user has given, decides about a table.
bool yields_to_batch(const Config& config, const std::string& key) {
  return !config.said_by_user(key) ||
         (is_of_the_command(config, "train.batch") && !is_of_the_command(config, key));
}

bool differs_from(const SizeTable& table, int64_t batch) {
  return std::ranges::any_of(
      table, [batch](const auto& row) { return row.second != static_cast<double>(batch); });
}

// Whether the batch of all stages is train.batch, which the user has given. Where files give both,
// as config.json does, the table goes first. Throws UserError(kUsage) where the command gives both.
bool decides(const Config& config, const SizeTable& table) {
  if (!config.said_by_user("train.batch")) return false;
  if (yields_to_batch(config, "schedule.batch")) return true;
  const auto batch = config.get("train.batch").get<int64_t>();
  if (is_of_the_command(config, "train.batch") && differs_from(table, batch)) {
    fail(Exit::kUsage,
         "train.batch = {} ({}) and schedule.batch = {} ({}): give one of the two",
         batch,
         config.origin("train.batch"),
         text_of(config.get("schedule.batch")),
         config.origin("schedule.batch"));
  }
  return false;
}

// Scales the learning rates of a table of batches to the batch that the user has given.
SizeTable scaled(const SizeTable& rates,
                 const SizeTable& table,
                 int64_t batch,
                 const std::string& rule) {
  SizeTable result;
  for (int64_t size = 4; size <= 1024; size *= 2) {
    const double ratio = static_cast<double>(batch) / value_of(table, size);
    result[size] = value_of(rates, size) * rate_factor(rule, ratio);
  }
  return result;
}

}  // namespace

std::vector<std::string> choose_schedule(Config& config,
                                         int64_t ranks,
                                         const std::vector<ScheduleRow>& rows) {
  std::vector<std::string> lines;
  const std::string why = fmt::format("auto ({})", counted(ranks, "rank"));
  const ScheduleRow& row = row_for(rows, ranks);
  SizeTable batches = table_of(config, "schedule.batch", row.batch);
  if (is_auto(config, "schedule.batch")) {
    for (auto& [size, batch] : batches)
      batch = static_cast<double>(cut_for(static_cast<int64_t>(batch), ranks));
  }
  const SizeTable rates = table_of(config, "schedule.lr_factor", row.lr_factor);
  const bool own_batch = decides(config, batches);
  const std::string rule = text_of(config.get("train.lr_scale"));
  const auto batch = own_batch ? config.get("train.batch").get<int64_t>() : 0;
  if (own_batch && rule != "none" && yields_to_batch(config, "schedule.lr_factor")) {
    config.set("schedule.lr_factor",
               text_of_table(scaled(rates, batches, batch, rule)),
               "auto (--lr-scale " + rule + ")");
  } else if (is_auto(config, "schedule.lr_factor")) {
    config.set("schedule.lr_factor", text_of_table(rates), why);
  }
  if (own_batch) {
    config.set("schedule.batch", text_of(config.get("train.batch")), "auto (train.batch)");
    if (rule == "none" && differs_from(batches, batch))
      lines.push_back(
          fmt::format("batch   {} instead of {}: {}", batch, text_of_table(batches), kRatesStay));
  } else if (is_auto(config, "schedule.batch")) {
    config.set("schedule.batch", text_of_table(batches), why);
    lines.push_back(fmt::format("auto    schedule.batch {}, lr_factor {}: the table of {}",
                                text_of_table(batches),
                                text_of(config.get("schedule.lr_factor")),
                                counted(row.ranks, "device")));
  }
  if (is_free(config, "train.batch"))
    config.set("train.batch", schedule_of(config).stages().front().batch, "auto (schedule.batch)");
  return lines;
}

std::vector<ScheduleRow> karras_schedules(const std::array<std::string, 4>& lr_factors) {
  return {{1, "4:128,8:128,16:128,32:64,64:32,128:16,256:8,512:4,4", lr_factors[0]},
          {2, "4:256,8:256,16:128,32:64,64:32,128:16,8", lr_factors[1]},
          {4, "4:512,8:256,16:128,32:64,64:32,16", lr_factors[2]},
          {8, "4:512,8:256,16:128,32:64,32", lr_factors[3]}};
}

Schedule schedule_of(const Config& config) {
  const Size resolution = resolution_of(config);
  check_growing_resolution(resolution);
  return make_schedule(config.read<ScheduleOptions>(), resolution.width);
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
       "1024; nearest: {}",
       side,
       powers_of_two_near(side, 4, 1024));
}

std::vector<int64_t> levels_up_to(int64_t resolution) {
  std::vector<int64_t> levels;
  for (int64_t pixels = 4; pixels <= resolution; pixels *= 2) levels.push_back(pixels);
  return levels;
}

int64_t level_of(const SynthesisOptions& options, const std::vector<int64_t>& levels) {
  if (!(options.alpha >= 0 && options.alpha <= 1))
    fail(Exit::kUsage, "--alpha {}: 0 to 1 is allowed", options.alpha);
  if (options.level == 0) return levels.back();
  if (!contains(levels, options.level)) {
    fail(Exit::kUsage,
         "--level {}: this generator's are {}",
         options.level,
         fmt::join(levels, ", "));
  }
  return options.level;
}

SynthesisOptions options_at(const Schedule& schedule, int64_t number, int64_t images_seen) {
  const Stage& stage = schedule.stages()[static_cast<size_t>(number)];
  SynthesisOptions options;
  options.level = stage.resolution;
  // The last iteration of a fade may have gone over its end.
  if (schedule.stage_at(images_seen) == number) options.alpha = schedule.alpha_at(images_seen);
  return options;
}

}  // namespace gantrain

// SPDX-License-Identifier: Apache-2.0
#include "gan/schedule.h"

#include <algorithm>

#include "util/error.h"
#include "util/text.h"

namespace gantrain {

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
      fail(Exit::kUsage, "schedule.batch: {} is no number of images", number(batch));
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

}  // namespace gantrain

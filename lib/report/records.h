// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace gantrain {

// Moments of one value since the last clear(): number, sum and sum of squares.
struct Moments {
  double num = 0;
  double sum = 0;
  double sum_of_squares = 0;
  double bad = 0;  // how many were not finite; the other three leave these out

  double mean() const { return sum / num; }  // NaN if nothing finite was seen
  double std() const;                        // population standard deviation
};

// The named values of one tick, kept so that one all-reduce adds up the parts of all ranks.
class Stats {
 public:
  void add(const std::string& name, double value);
  // Adds several values at once. If a sum is not finite, all `num` values count as bad.
  void add(const std::string& name, double num, double sum, double sum_of_squares);

  // Returns the names, sorted. Every rank must pack the same names; a value that was not seen is
  // packed as zeros.
  std::vector<std::string> names() const;
  // Returns four doubles for each name, to be summed over ranks: num, sum, sum of squares, bad.
  std::vector<double> pack(const std::vector<std::string>& names) const;
  // Replaces the named values by packed ones, as pack() made them and an all-reduce summed them.
  void unpack(const std::vector<std::string>& names, const std::vector<double>& packed);

  // Returns the mean, or nothing if the name was not seen or was never finite.
  std::optional<double> mean(const std::string& name) const;
  // Returns all values, sorted by name.
  const std::map<std::string, Moments>& all() const { return values_; }
  void clear() { values_.clear(); }

  // Returns a line of stats.jsonl:
  // {"Loss/D/loss":{"num":4,"mean":0.7,"std":0.1},...,"timestamp":1768209271.5}. Values that were
  // not finite add "bad":count; where none was finite, mean and std are null. Values not seen are
  // left out.
  std::string to_json_line(double timestamp) const;

 private:
  std::map<std::string, Moments> values_;
};

// Appends to_json_line(now) to FOLDER/stats.jsonl. Throws UserError(kDisk).
void append_stats(const std::filesystem::path& folder, const Stats& stats);

// The size of an encoded picture, which TensorBoard stores beside the bytes.
struct PictureSize {
  int64_t width = 0;
  int64_t height = 0;
  int64_t channels = 0;
};

// Writes one TensorBoard event file, FOLDER/events.out.tfevents.<time>.<host>.<pid>, which it makes
// at once. Events are kept in memory until flush(), or until there are 64 KB; a record is always
// written whole. One thread at a time may use it. Throws UserError(kDisk) that names the file.
class EventWriter {
 public:
  explicit EventWriter(const std::filesystem::path& folder);
  ~EventWriter();  // flushes; events that cannot be written are lost
  EventWriter(const EventWriter&) = delete;
  EventWriter& operator=(const EventWriter&) = delete;

  // Tells readers to forget events of earlier files in the folder at this step and later. A resumed
  // run calls it first.
  void resume_at(int64_t step);

  void scalar(std::string_view tag, int64_t step, double value);
  void image_png(std::string_view tag, int64_t step, std::string_view png, const PictureSize& size);
  void text(std::string_view tag, int64_t step, std::string_view markdown);
  void flush();

  const std::filesystem::path& path() const { return path_; }

 private:
  void record(const std::string& event);
  void summary(int64_t step, const std::string& value);

  std::filesystem::path path_;
  std::string pending_;
  int descriptor_ = -1;
};

// The records that an event file begins with.
struct EventRecords {
  int64_t count = 0;
  size_t bytes = 0;  // of these records; what follows is cut off or broken
};

// Counts the records whose two checksums are right, up to the first that is not whole.
EventRecords count_event_records(std::string_view file);

}  // namespace gantrain

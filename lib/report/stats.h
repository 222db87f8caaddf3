// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
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

}  // namespace gantrain

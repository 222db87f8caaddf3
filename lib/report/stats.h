// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace gantrain {

// What was seen of one value since the last clear(): how often, its sum and sum of squares.
struct Moments {
  double num = 0;
  double sum = 0;
  double sum_of_squares = 0;
  double bad = 0;  // how many were not finite; those are in none of the other three

  double mean() const { return sum / num; }  // NaN if nothing finite was seen
  double std() const;                        // of the population
};

// Named values of one tick, kept so that the ranks' parts add up in one all-reduce.
class Stats {
 public:
  void add(const std::string& name, double value);
  // Several at once. If a sum is not finite, all `num` of them count as bad.
  void add(const std::string& name, double num, double sum, double sum_of_squares);

  // Sorted; every rank must pack the same names (a value that was not seen packs as zeros).
  std::vector<std::string> names() const;
  // Four doubles a name, to be summed over ranks: num, sum, sum of squares, bad.
  std::vector<double> pack(const std::vector<std::string>& names) const;
  // Replaces the named values by those that pack() made (and an all-reduce summed).
  void unpack(const std::vector<std::string>& names, const std::vector<double>& packed);

  // Nothing if the name was not seen, or was never finite.
  std::optional<double> mean(const std::string& name) const;
  // All names with something in them, sorted.
  const std::map<std::string, Moments>& all() const { return values_; }
  void clear() { values_.clear(); }

  // {"Loss/D/loss":{"num":4,"mean":0.7,"std":0.1},...,"timestamp":1768209271.5}. Values that were
  // not finite add "bad":count; without any finite value mean and std are null. Values not seen are
  // left out.
  std::string to_json_line(double timestamp) const;

 private:
  std::map<std::string, Moments> values_;
};

// Appends to_json_line(now) to FOLDER/stats.jsonl. Throws UserError(kDisk).
void append_stats(const std::filesystem::path& folder, const Stats& stats);

}  // namespace gantrain

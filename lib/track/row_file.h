// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "track/track.h"

namespace gantrain {

// How far a file was sent. A resumed run cuts its files back, and begins them anew; that is seen by
// the last line that was sent.
struct Cursor {
  int64_t offset = 0;  // bytes
  int64_t step = -1;   // of the last row; rows of this and earlier steps are there
  int64_t length = 0;  // of the line that ends at the offset, with its newline
  std::string hash;    // of that line
  std::string recipe;  // hash of how the metric is measured; others are not mixed with it
  int64_t maybe = -1;  // up to this step rows may be there: a request with them had no answer
};

template <class Field>
void fields(Cursor& c, Field&& field) {
  field("offset", c.offset);
  field("step", c.step);
  field("length", c.length);
  field("hash", c.hash);
  field("recipe", c.recipe);
  field("maybe", c.maybe);
}

// The rows of a file that were not sent yet.
struct Piece {
  std::vector<TrackedRow> rows;
  Cursor after;                  // when they are sent
  int64_t of_other_recipes = 0;  // rows of a metric that is measured another way now: left out
};

// stats.jsonl or metric-*.jsonl of a run folder, read while the run may write it.
class RowFile {
 public:
  RowFile(const std::filesystem::path& run, std::string name)
      : path_(run / name), name_(std::move(name)) {}

  // Returns what follows the cursor, about so many values at most; nothing where nothing follows.
  // `began_anew` is called where the file is not the one that was read before.
  std::optional<Piece> next(const Cursor& cursor,
                            size_t most_values,
                            const std::function<void()>& began_anew) const;
  // Hash of the first line; "" while there is none.
  std::string first_line() const;

 private:
  void take(std::string_view line, Piece& piece, size_t& values) const;

  std::filesystem::path path_;
  std::string name_;
};

}  // namespace gantrain

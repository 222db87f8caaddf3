// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>

#include "config/value.h"
#include "launch/where/network.h"
#include "track/track.h"
#include "util/file.h"
#include "util/hash.h"
#include "util/text.h"

namespace gantrain {

namespace {

constexpr size_t kPiece = 4 << 20;  // bytes of a file that are read together

std::string hash_of(std::string_view bytes) { return fmt::format("{:016x}", hash64(bytes)); }

double number_in(const Json& json, const char* name) {
  const auto found = json.find(name);
  return found != json.end() && found->is_number() ? found->get<double>() : NAN;
}

UniqueFd opened(const std::filesystem::path& path) {
  UniqueFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  struct stat status {};
  if (file && (::fstat(file.get(), &status) != 0 || !S_ISREG(status.st_mode))) file.close();
  return file;
}

std::string read_at(int file, int64_t offset, size_t most) {
  std::string text(most, '\0');
  size_t done = 0;
  while (done < most) {
    const ssize_t got =
        ::pread(file, text.data() + done, most - done, offset + static_cast<int64_t>(done));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    done += static_cast<size_t>(got);
  }
  text.resize(done);
  return text;
}

bool is_same(int file, const Cursor& cursor) {
  if (cursor.offset == 0) return true;
  const int64_t begin = cursor.offset - cursor.length;
  if (begin < 0) return false;
  return hash_of(read_at(file, begin, static_cast<size_t>(cursor.length))) == cursor.hash;
}

int64_t step_of(double kimg) {
  const bool fits = kimg >= 0 && kimg < 1e12;  // false for NaN
  return fits ? std::llround(kimg * 1e3) : -1;
}

// Means, as TensorBoard has them; where no value was finite there is none.
void read_stats_row(const Json& json, TrackedRow& row) {
  for (const auto& [name, entry] : json.items()) {
    const double mean = entry.is_object() ? number_in(entry, "mean") : NAN;
    if (name == "Progress/kimg") row.step = step_of(mean);
    if (std::isfinite(mean)) row.values.emplace_back(name, mean);
  }
}

// `gantrain metrics` appends what it measures later, with other numbers of pictures perhaps.
void read_metric_row(const Json& json, TrackedRow& row, Piece& piece) {
  const std::string recipe = json.contains("recipe") ? hash_of(json["recipe"].dump()) : "none";
  if (piece.after.recipe.empty()) piece.after.recipe = recipe;
  if (recipe != piece.after.recipe) {
    ++piece.of_other_recipes;
    return;
  }
  if (!json.contains("results") || !json["results"].is_object()) return;
  row.step = step_of(number_in(json, "kimg"));
  for (const auto& [name, value] : json["results"].items()) {
    if (value.is_number() && std::isfinite(value.get<double>()))
      row.values.emplace_back("Metrics/" + name, value.get<double>());
  }
}

}  // namespace

std::optional<Piece> RowFile::next(const Cursor& cursor,
                                   size_t most_values,
                                   const std::function<void()>& began_anew) const {
  const UniqueFd file = opened(path_);
  if (!file) return std::nullopt;
  Piece piece{.after = cursor};
  if (!is_same(file.get(), cursor)) {
    began_anew();
    piece.after.offset = 0;
  }
  size_t values = 0;
  for (std::string text; values < most_values;) {
    text = read_at(file.get(), piece.after.offset, kPiece);
    const size_t end = text.rfind('\n');
    if (end == std::string::npos) break;
    for (size_t at = 0; at <= end && values < most_values;) {
      const size_t newline = text.find('\n', at);
      take(std::string_view(text).substr(at, newline - at), piece, values);
      at = newline + 1;
    }
    if (!piece.rows.empty()) break;
  }
  if (piece.rows.empty() && piece.after.offset == cursor.offset) return std::nullopt;
  return piece;
}

std::string RowFile::first_line() const {
  const UniqueFd file = opened(path_);
  if (!file) return "";
  const std::string text = read_at(file.get(), 0, 64 << 10);
  const size_t end = text.find('\n');
  return end == std::string::npos ? "" : hash_of(std::string_view(text).substr(0, end));
}

void RowFile::take(std::string_view line, Piece& piece, size_t& values) const {
  piece.after.length = static_cast<int64_t>(line.size() + 1);
  piece.after.offset += piece.after.length;
  piece.after.hash = hash_of(std::string(line) + "\n");
  const Json json = parse_foreign(line);
  if (!json.is_object()) return;
  TrackedRow row{name_, -1, number_in(json, "timestamp"), {}};
  const bool is_metric = name_ != "stats.jsonl";
  is_metric ? read_metric_row(json, row, piece) : read_stats_row(json, row);
  Cursor& after = piece.after;
  const bool is_later = row.step > after.step;
  const bool is_new = is_later || (!after.steps.empty() && !contains(after.steps, row.step));
  if (row.step < 0 || !is_new || row.values.empty()) return;
  if (!std::isfinite(row.time) || row.time < 0) row.time = 0;
  after.step = std::max(after.step, row.step);
  if (is_metric) after.steps.push_back(row.step);
  values += row.values.size();
  piece.rows.push_back(std::move(row));
}

}  // namespace gantrain

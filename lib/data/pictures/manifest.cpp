// SPDX-License-Identifier: Apache-2.0
#include "data/pictures/manifest.h"

#include <algorithm>
#include <atomic>
#include <map>
#include <unordered_map>

#include "config/config.h"
#include "data/labels/labels.h"
#include "data/load/threads.h"
#include "util/error.h"
#include "util/file.h"
#include "util/hash.h"
#include "util/system.h"
#include "util/text.h"
#include "util/wording.h"

namespace gantrain {

namespace {

constexpr const char* kFile = "data-manifest.jsonl";
constexpr const char* kFormat = "gantrain.data-manifest.1";
constexpr size_t kNamesShown = 3;
constexpr int64_t kPiece = 64;  // pictures that a thread marks at a time
constexpr int64_t kMaxThreads = 8;

using KnownRows = std::unordered_map<std::string_view, const ManifestRow*>;

// Returns whether the picture could be read. Throws what is wrong with it unless `lenient`.
bool mark_one(const Dataset& dataset, const ManifestRow* known, bool lenient, ManifestRow& row) {
  if (row.picture < 0 || !row.mark.hash.empty()) return true;  // -1: left out of the data set
  const auto place = dataset.picture_file(row.picture);
  if (!place) return true;
  try {
    row.stamp = place->source->stamp(place->file);
    const bool untouched = known != nullptr && !row.stamp.empty() && known->stamp == row.stamp;
    row.mark = untouched ? known->mark : place->source->mark(place->file);
    return true;
  } catch (const UserError& error) {
    if (!lenient || error.code() != Exit::kInput) throw;
    row.mark = {};
    row.stamp = "";
    return false;
  }
}

// Adds text with its length before it, so that no two lists of texts look alike.
void add(Digest& digest, std::string_view text) {
  const uint64_t length = text.size();
  digest.update(&length, sizeof(length));
  digest.update(text.data(), text.size());
}

// The names of one kind of change.
struct Kind {
  const char* what;
  std::vector<std::string> names = {};

  std::string text(bool first) const {
    const size_t shown = std::min(names.size(), kNamesShown);
    const auto end = names.begin() + static_cast<std::ptrdiff_t>(shown);
    const auto count = static_cast<int64_t>(names.size());
    return fmt::format("{} {} ({}{})",
                       first ? counted(count, "picture") : std::to_string(count),
                       what,
                       fmt::join(names.begin(), end, ", "),
                       shown < names.size() ? ", ..." : "");
  }
};

// The rows in the order of their names. Rows of the same name keep their order.
std::vector<const ManifestRow*> by_name(const Manifest& manifest) {
  std::vector<const ManifestRow*> rows;
  for (const ManifestRow& row : manifest.rows) rows.push_back(&row);
  std::ranges::stable_sort(
      rows, [](const ManifestRow* a, const ManifestRow* b) { return a->name < b->name; });
  return rows;
}

// How the mark was made: "xxh3" or "crc32".
std::string_view kind_of(const FileMark& mark) {
  return std::string_view(mark.hash).substr(0, mark.hash.find(':'));
}

// Hashes of two kinds say nothing about each other: the same pictures were put into an archive, or
// taken out of one.
bool is_altered(const ManifestRow& before, const ManifestRow& now) {
  const bool known = !before.mark.hash.empty() && !now.mark.hash.empty();
  if (!known) return false;
  if (kind_of(before.mark) != kind_of(now.mark)) return before.mark.bytes != now.mark.bytes;
  return before.mark != now.mark;
}

ManifestRow read_row(const Json& line, const std::string& where) {
  const bool sound = line.is_array() && line.size() == 5 && line[0].is_string() &&
                     line[1].is_number_integer() && line[2].is_string() &&
                     line[3].is_number_integer() && line[4].is_string();
  if (!sound) fail(Exit::kInput, "{}: not [name, bytes, hash, label, stamp]", where);
  return {.name = line[0],
          .mark = {.bytes = line[1], .hash = line[2]},
          .label = line[3],
          .stamp = line[4]};
}

}  // namespace

Manifest list_pictures(const Dataset& dataset, const std::string& path) {
  Manifest manifest{.path = path, .rows = {}};
  Labels vectors{.classes = 0, .of = {}, .names = {}, .vectors = dataset.vectors()};
  for (int64_t i = 0; i < dataset.size(); ++i) {
    const auto place = dataset.picture_file(i);
    if (!place) return {.path = path, .rows = {}};
    manifest.rows.push_back(
        {.name = valid_text(place->source->files()[place->file]),
         .mark = {},
         .label = dataset.classes() > 0 ? dataset.label(i) : vectors.number_of(i),
         .stamp = "",
         .picture = i});
  }
  return manifest;
}

int64_t threads_for_marks() { return std::clamp<int64_t>(usable_cores(), 1, kMaxThreads); }

int64_t mark_pictures(const Dataset& dataset, const MarkWork& work, Manifest& manifest) {
  KnownRows known_rows;
  if (work.known != nullptr) {
    for (const ManifestRow& row : work.known->rows) {
      if (!row.mark.hash.empty()) known_rows.emplace(row.name, &row);
    }
  }
  const auto count = static_cast<int64_t>(manifest.rows.size());
  const WorkSize size = {.count = (count + kPiece - 1) / kPiece, .threads = work.threads};
  std::atomic<int64_t> unreadable = 0;
  const auto mark_piece = [&](int64_t piece, size_t) {
    for (int64_t i = piece * kPiece; i < std::min(count, (piece + 1) * kPiece); ++i) {
      ManifestRow& row = manifest.rows[static_cast<size_t>(i)];
      const auto found = known_rows.find(row.name);
      if (work.known != nullptr && found == known_rows.end()) continue;
      const ManifestRow* known = work.known == nullptr ? nullptr : found->second;
      if (!mark_one(dataset, known, work.lenient, row)) unreadable += 1;
    }
  };
  work_in_order(
      size, mark_piece, [](int64_t, size_t) {}, work.stop);
  return unreadable;
}

std::string digest_of(const Manifest& manifest) {
  Digest digest;
  for (const ManifestRow& row : manifest.rows) {
    add(digest, row.name);
    add(digest, row.mark.hash);
    const int64_t numbers[] = {row.mark.bytes, row.label};
    digest.update(numbers, sizeof(numbers));
  }
  return digest.hex();
}

std::string data_digest(const Dataset& dataset, const StopCheck& stop) {
  Manifest manifest = list_pictures(dataset, "");
  if (manifest.rows.empty()) {
    Digest digest;
    add(digest, dataset.description());
    return digest.hex();
  }
  mark_pictures(dataset, {.threads = threads_for_marks(), .stop = stop}, manifest);
  if (manifest.rows.back().mark.hash.empty())
    fail(Exit::kStopped, "stopped while the data was hashed");
  return digest_of(manifest);
}

std::string changes(const Manifest& before, const Manifest& now) {
  if (before.rows.empty() != now.rows.empty()) {
    return fmt::format("{} ({} pictures) -> {} ({} pictures)",
                       before.path,
                       before.rows.empty() ? "computed" : std::to_string(before.rows.size()),
                       now.path,
                       now.rows.empty() ? "computed" : std::to_string(now.rows.size()));
  }
  Kind added{"added"}, removed{"removed"}, altered{"altered"}, relabelled{"with another label"};
  const auto old_rows = by_name(before), new_rows = by_name(now);
  size_t i = 0, j = 0;
  while (i < old_rows.size() || j < new_rows.size()) {
    const int order = i == old_rows.size()   ? 1
                      : j == new_rows.size() ? -1
                                             : old_rows[i]->name.compare(new_rows[j]->name);
    if (order < 0) removed.names.push_back(old_rows[i]->name);
    if (order > 0) added.names.push_back(new_rows[j]->name);
    if (order == 0 && is_altered(*old_rows[i], *new_rows[j]))
      altered.names.push_back(new_rows[j]->name);
    if (order == 0 && old_rows[i]->label != new_rows[j]->label)
      relabelled.names.push_back(new_rows[j]->name);
    i += order <= 0 ? 1 : 0;
    j += order >= 0 ? 1 : 0;
  }
  std::vector<std::string> parts;
  for (const Kind* kind : {&added, &removed, &altered, &relabelled}) {
    if (!kind->names.empty()) parts.push_back(kind->text(parts.empty()));
  }
  return join(parts, ", ");
}

namespace {

bool is_readable(const Dataset& dataset, int64_t picture) {
  const auto place = dataset.picture_file(picture);
  if (!place) return true;
  try {
    place->source->look(place->file, /*headers_only=*/false);
    return true;
  } catch (const UserError& e) {
    if (e.code() != Exit::kInput) throw;
    return false;
  }
}

}  // namespace

std::vector<std::string> take_broken(const Dataset& dataset,
                                     const Manifest& before,
                                     Manifest& now) {
  std::vector<std::string> broken = dataset.left_out();
  std::ranges::sort(broken);
  std::map<std::string_view, ManifestRow*> rows;
  for (ManifestRow& row : now.rows) rows.emplace(row.name, &row);
  std::vector<std::string> taken;
  std::vector<ManifestRow> left_out;
  for (const ManifestRow& row : before.rows) {
    const auto found = rows.find(row.name);
    const bool gone = found == rows.end() && std::ranges::binary_search(broken, row.name);
    const bool altered = found != rows.end() && is_altered(row, *found->second) &&
                         !is_readable(dataset, found->second->picture);
    if (gone) left_out.push_back(row);
    if (altered) found->second->mark = row.mark;
    if (gone || altered) taken.push_back(row.name);
  }
  now.rows.insert(now.rows.end(), left_out.begin(), left_out.end());
  return taken;
}

void write_manifest(const fs::path& folder, const Manifest& manifest) {
  const auto marked = static_cast<int64_t>(std::ranges::count_if(
      manifest.rows, [](const ManifestRow& row) { return !row.mark.hash.empty(); }));
  const auto pictures = static_cast<int64_t>(manifest.rows.size());
  const std::string path = valid_text(manifest.path);
  const Json header = {{"format", kFormat},
                       {"path", path},
                       {"pictures", pictures},
                       {"marked", marked},
                       {"digest", marked == pictures ? Json(digest_of(manifest)) : Json()}};
  AtomicFile file(folder / kFile);
  file.write(header.dump() + "\n");
  for (const ManifestRow& row : manifest.rows) {
    const Json line = {row.name, row.mark.bytes, row.mark.hash, row.label, row.stamp};
    file.write(line.dump() + "\n");
  }
  file.commit();
}

std::optional<Manifest> read_manifest(const fs::path& folder) {
  const fs::path path = folder / kFile;
  std::error_code error;
  if (!fs::exists(path, error)) return std::nullopt;
  constexpr int64_t kMost = int64_t{1} << 30;  // bytes: ten million pictures
  const std::string content = read_regular_file(path, kMost);
  Manifest manifest;
  size_t number = 0;
  for (const std::string& line : split(content, '\n')) {
    number += 1;
    if (line.empty()) continue;
    const std::string where = fmt::format("{}:{}", path.string(), number);
    const Json json = parse_json(line, where, Exit::kInput);
    if (number > 1) {
      manifest.rows.push_back(read_row(json, where));
      continue;
    }
    if (!json.is_object() || json.value("format", Json()) != kFormat)
      fail(Exit::kInput, "{}: not a manifest of gantrain's data of this version", path.string());
    manifest.path = json.contains("path") ? text_of(json["path"]) : "";
  }
  return manifest;
}

}  // namespace gantrain

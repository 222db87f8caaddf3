// SPDX-License-Identifier: Apache-2.0
// What has changed from one manifest to another one.
#include <algorithm>
#include <limits>
#include <map>
#include <unordered_map>
#include <utility>

#include "data/containers/source.h"
#include "data/pictures/manifest.h"
#include "util/error.h"
#include "util/hash.h"
#include "util/text.h"
#include "util/wording.h"

namespace gantrain {

namespace {

constexpr size_t kNamesShown = 3;

using Hashes = std::vector<PictureHash>;

// Returns the name of a row, "" where it is not known.
using NameOf = std::function<std::string(size_t row)>;

// Pictures that have changed in one way.
struct Kind {
  const char* what;
  int64_t count = 0;
  std::vector<size_t> first = {};  // rows

  void add(size_t row) {
    count += 1;
    first.insert(std::ranges::upper_bound(first, row), row);
    if (first.size() > kNamesShown) first.pop_back();
  }

  std::string text(bool begins, const NameOf& name_of) const {
    std::vector<std::string> names;
    for (const size_t row : first) names.push_back(name_of(row));
    std::erase(names, "");
    const bool more = static_cast<int64_t>(names.size()) < count;
    return fmt::format("{} {}{}",
                       begins ? counted(count, "picture") : std::to_string(count),
                       what,
                       names.empty() ? "" : " (" + join(names, ", ") + (more ? ", ...)" : ")"));
  }
};

struct Changes {
  Kind added{"added"}, removed{"removed"}, altered{"altered"}, relabelled{"with another label"};

  std::string text(const NameOf& old_name, const NameOf& new_name) const {
    std::vector<std::string> parts;
    for (const Kind* kind : {&added, &removed, &altered, &relabelled}) {
      if (kind->count > 0)
        parts.push_back(kind->text(parts.empty(), kind == &removed ? old_name : new_name));
    }
    return join(parts, ", ");
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

// What has changed from a list to a list.
std::string changes_of_lists(const Manifest& before, const Manifest& now) {
  Changes all;
  const auto old_rows = by_name(before), new_rows = by_name(now);
  size_t i = 0, j = 0;
  while (i < old_rows.size() || j < new_rows.size()) {
    const int order = i == old_rows.size()   ? 1
                      : j == new_rows.size() ? -1
                                             : old_rows[i]->name.compare(new_rows[j]->name);
    if (order < 0) all.removed.add(i);
    if (order > 0) all.added.add(j);
    if (order == 0 && is_altered(*old_rows[i], *new_rows[j])) all.altered.add(j);
    if (order == 0 && old_rows[i]->label != new_rows[j]->label) all.relabelled.add(j);
    i += order <= 0 ? 1 : 0;
    j += order >= 0 ? 1 : 0;
  }
  return all.text([&](size_t row) { return old_rows[row]->name; },
                  [&](size_t row) { return new_rows[row]->name; });
}

bool is_altered(const PictureHash& before, const PictureHash& now) {
  if (before.kind == 0 || now.kind == 0) return false;
  return before.size != now.size || (before.kind == now.kind && before.content != now.content);
}

// In which row a picture is.
struct HashPlace {
  uint64_t name;
  size_t row;
};

// The rows from `begin` to before `end` in the order of their hashes.
std::vector<HashPlace> sorted(const Hashes& hashes, size_t begin, size_t end) {
  std::vector<HashPlace> places;
  places.reserve(end - begin);
  for (size_t row = begin; row < end; ++row) places.push_back({hashes[row].name, row});
  std::ranges::sort(
      places, {}, [](const HashPlace& place) { return std::pair(place.name, place.row); });
  return places;
}

constexpr size_t kNone = std::numeric_limits<size_t>::max();

// Calls `use` with the row of each picture before and now, kNone where it was or is not there. Rows
// that stand as they stood, from either end, are not sorted.
template <class Use>
void each_pair(const Hashes& before, const Hashes& now, const Use& use) {
  const size_t least = std::min(before.size(), now.size());
  size_t head = 0, tail = 0;
  while (head < least && before[head].name == now[head].name) ++head;
  const auto from_end = [](const Hashes& all, size_t i) { return all[all.size() - 1 - i].name; };
  while (tail < least - head && from_end(before, tail) == from_end(now, tail)) ++tail;
  const std::vector<HashPlace> old_places = sorted(before, head, before.size() - tail);
  const std::vector<HashPlace> new_places = sorted(now, head, now.size() - tail);
  for (size_t row = 0; row < head; ++row) use(row, row);
  for (size_t i = 0, j = 0; i < old_places.size() || j < new_places.size();) {
    const bool old_comes = i < old_places.size() &&
                           (j == new_places.size() || old_places[i].name <= new_places[j].name);
    const bool new_comes = j < new_places.size() &&
                           (i == old_places.size() || new_places[j].name <= old_places[i].name);
    use(old_comes ? old_places[i++].row : kNone, new_comes ? new_places[j++].row : kNone);
  }
  for (size_t i = tail; i > 0; --i) use(before.size() - i, now.size() - i);
}

// What has changed where one of both has hashes.
std::string changes_of_hashes(const Manifest& before, const Manifest& now, const Dataset* dataset) {
  Changes all;
  Hashes old_memory, new_memory;
  const Hashes& old_hashes = hashes_of(before, old_memory);
  const Hashes& new_hashes = hashes_of(now, new_memory);
  each_pair(old_hashes, new_hashes, [&](size_t i, size_t j) {
    if (j == kNone) return all.removed.add(i);
    if (i == kNone) return all.added.add(j);
    if (is_altered(old_hashes[i], new_hashes[j])) all.altered.add(j);
    if (old_hashes[i].label != new_hashes[j].label) all.relabelled.add(j);
  });
  const auto name = [](const Manifest& manifest, const Dataset* data, size_t row) -> std::string {
    if (!manifest.rows.empty()) return manifest.rows[row].name;
    return data == nullptr ? "" : manifest_name(*data, static_cast<int64_t>(row));
  };
  return all.text([&](size_t row) { return name(before, nullptr, row); },
                  [&](size_t row) { return name(now, dataset, row); });
}

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

// take_broken() where one of both has hashes; `broken` are the names that are left out now.
std::vector<std::string> take_broken_hashes(const Dataset& dataset,
                                            const Manifest& before,
                                            const std::vector<std::string>& broken,
                                            Hashes& now) {
  Hashes memory, left_out;
  const Hashes& old_hashes = hashes_of(before, memory);
  std::unordered_map<uint64_t, const std::string*> names;
  for (const std::string& name : broken) names.emplace(hash64(name), &name);
  std::vector<std::string> taken;
  each_pair(old_hashes, now, [&](size_t i, size_t j) {
    if (i == kNone) return;
    const auto picture = static_cast<int64_t>(j);
    const auto found = j == kNone ? names.find(old_hashes[i].name) : names.end();
    if (found != names.end()) {
      left_out.push_back(old_hashes[i]);
      taken.push_back(*found->second);
    } else if (j != kNone && is_altered(old_hashes[i], now[j]) && !is_readable(dataset, picture)) {
      now[j].take_mark(old_hashes[i]);
      taken.push_back(manifest_name(dataset, picture));
    }
  });
  now.insert(now.end(), left_out.begin(), left_out.end());
  std::ranges::sort(taken);
  return taken;
}

}  // namespace

std::string changes(const Manifest& before, const Manifest& now, const Dataset* dataset) {
  const auto pictures = [](const Manifest& manifest) {
    return manifest.size() == 0 ? "computed" : std::to_string(manifest.size());
  };
  const bool computed = before.size() == 0 && now.size() == 0;
  if ((before.size() == 0) != (now.size() == 0) || (computed && before.path != now.path)) {
    return fmt::format("{} ({} pictures) -> {} ({} pictures)",
                       before.path,
                       pictures(before),
                       now.path,
                       pictures(now));
  }
  const bool lists = before.hashes.empty() && now.hashes.empty();
  return lists ? changes_of_lists(before, now) : changes_of_hashes(before, now, dataset);
}

std::vector<std::string> take_broken(const Dataset& dataset,
                                     const Manifest& before,
                                     Manifest& now) {
  std::vector<std::string> broken = dataset.left_out();
  std::ranges::sort(broken);
  if (!now.hashes.empty()) return take_broken_hashes(dataset, before, broken, now.hashes);
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

}  // namespace gantrain

// SPDX-License-Identifier: Apache-2.0
#include "data/pictures/manifest.h"

#include <fcntl.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <limits>
#include <mutex>
#include <unordered_map>

#include "config/config.h"
#include "data/labels/labels.h"
#include "data/load/threads.h"
#include "util/error.h"
#include "util/file.h"
#include "util/hash.h"
#include "util/log.h"
#include "util/system.h"
#include "util/text.h"
#include "util/wording.h"

namespace gantrain {

std::string manifest_name(const Dataset& dataset, int64_t picture) {
  const auto place = dataset.picture_file(picture);
  return place ? valid_text(place->source->files()[place->file]) : "";
}

namespace {

constexpr const char* kListFile = "data-manifest.jsonl";
constexpr const char* kListFormat = "gantrain.data-manifest.1";
constexpr const char* kHashesFormat = "gantrain.data-manifest.2";
constexpr int64_t kPiece = 64;  // pictures that a thread marks at a time
constexpr int64_t kMaxThreads = 8;

using Hashes = std::vector<PictureHash>;
using KnownRows = std::unordered_map<std::string_view, const ManifestRow*>;

// Makes rows, without marks, of the pictures of a data set.
class Listing {
 public:
  explicit Listing(const Dataset& dataset) : dataset_(dataset) {
    vectors_.vectors = dataset.vectors();
  }

  // Whether there are files; else pictures are computed.
  bool has_files() const { return dataset_.picture_file(0).has_value(); }
  ManifestRow row(int64_t picture) const {
    return {.name = manifest_name(dataset_, picture),
            .mark = {},
            .label = dataset_.classes() > 0 ? dataset_.label(picture) : vectors_.number_of(picture),
            .stamp = "",
            .picture = picture};
  }

 private:
  const Dataset& dataset_;
  Labels vectors_;
};

// What a picture's file has now. Without a mark it is as it was.
struct Found {
  std::string stamp;
  std::optional<FileMark> mark;
};

// Reads the file unless `is_known`, asked with its stamp, says that it is as it was. Returns
// nothing, if `lenient`, where it cannot be read.
std::optional<Found> look_at(const PictureFile& place,
                             bool lenient,
                             const std::function<bool(const std::string&)>& is_known) {
  try {
    Found found = {place.source->stamp(place.file), {}};
    if (found.stamp.empty() || !is_known(found.stamp)) found.mark = place.source->mark(place.file);
    return found;
  } catch (const UserError& error) {
    if (!lenient || error.code() != Exit::kInput) throw;
    return std::nullopt;
  }
}

// Returns whether the picture could be read. Throws what is wrong with it unless `lenient`.
bool mark_row(const Dataset& dataset, const ManifestRow* known, bool lenient, ManifestRow& row) {
  if (row.picture < 0 || !row.mark.hash.empty()) return true;  // -1: left out of the data set
  const auto place = dataset.picture_file(row.picture);
  if (!place) return true;
  const auto found = look_at(*place, lenient, [&](const std::string& stamp) {
    return known != nullptr && known->stamp == stamp;
  });
  row.stamp = found ? found->stamp : "";
  row.mark = !found ? FileMark{} : found->mark ? *found->mark : known->mark;
  return found.has_value();
}

// Adds text with its length before it, so that no two lists of texts look alike.
void add(Digest& digest, std::string_view text) {
  const uint64_t length = text.size();
  digest.update(&length, sizeof(length));
  digest.update(text.data(), text.size());
}

void add(Digest& digest, const ManifestRow& row) {
  add(digest, row.name);
  add(digest, row.mark.hash);
  const int64_t numbers[] = {row.mark.bytes, row.label};
  digest.update(numbers, sizeof(numbers));
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

constexpr uint64_t kBits20 = (1 << 20) - 1;

uint64_t stamp_bits(const std::string& stamp) {
  return stamp.empty() ? 0 : hash64(stamp) % kBits20 + 1;
}

void set_mark(const FileMark& mark, PictureHash& hash) {
  if (mark.hash.empty()) return;
  hash.kind = starts_with(mark.hash, "crc32:") ? 2 : 1;
  hash.size = hash64(std::to_string(mark.bytes)) & 63;
  hash.content = hash64(mark.hash) & kBits20;
}

}  // namespace

PictureHash hash_of(const ManifestRow& row) {
  PictureHash hash{.name = hash64(row.name)};
  hash.label = static_cast<uint64_t>(row.label + 1) & 0xffff;
  hash.stamp = stamp_bits(row.stamp);
  set_mark(row.mark, hash);
  return hash;
}

const Hashes& hashes_of(const Manifest& manifest, Hashes& memory) {
  if (manifest.rows.empty()) return manifest.hashes;
  for (const ManifestRow& row : manifest.rows) memory.push_back(hash_of(row));
  return memory;
}

namespace {

// Finds the pictures of an earlier manifest. Where a picture stands as it stood, from either end,
// nothing is sorted.
class KnownHashes {
 public:
  // `rows`: of the manifest for which they are looked for.
  KnownHashes(const Manifest* manifest, size_t rows)
      : rows_(rows), hashes_(manifest == nullptr ? memory_ : hashes_of(*manifest, memory_)) {}

  // Returns null where there is none of that name. `row`: where it stands now.
  const PictureHash* find(uint64_t name, size_t row) const {
    for (const size_t place : {row, row + hashes_.size() - rows_})
      if (place < hashes_.size() && hashes_[place].name == name) return &hashes_[place];
    std::call_once(once_, [this] {
      sorted_ = hashes_;
      std::ranges::sort(sorted_, {}, &PictureHash::name);
    });
    const auto found = std::ranges::lower_bound(sorted_, name, {}, &PictureHash::name);
    return found != sorted_.end() && found->name == name ? &*found : nullptr;
  }

 private:
  size_t rows_;
  Hashes memory_;
  const Hashes& hashes_;
  mutable std::once_flag once_;
  mutable Hashes sorted_;
};

}  // namespace

Manifest list_pictures(const Dataset& dataset, const std::string& path, int64_t most_listed) {
  Manifest manifest{.path = path, .rows = {}};
  const Listing listing(dataset);
  if (!listing.has_files()) return manifest;
  const bool is_list = dataset.size() <= most_listed;
  if (!is_list) manifest.hashes.reserve(static_cast<size_t>(dataset.size()));
  for (int64_t i = 0; i < dataset.size(); ++i) {
    if (is_list)
      manifest.rows.push_back(listing.row(i));
    else
      manifest.hashes.push_back(hash_of(listing.row(i)));
  }
  return manifest;
}

Manifest list_again(const Dataset& dataset,
                    const std::string& path,
                    const Manifest& before,
                    int64_t most_listed) {
  const bool was_long = static_cast<int64_t>(before.rows.size()) > most_listed;
  const int64_t most = !before.hashes.empty() ? 0
                       : was_long             ? std::numeric_limits<int64_t>::max()
                                              : most_listed;
  return list_pictures(dataset, path, most);
}

int64_t threads_for_marks() { return std::clamp<int64_t>(usable_cores(), 1, kMaxThreads); }

namespace {

// Calls `mark` with each row on several threads. Returns how often it returned false.
int64_t mark_all(size_t rows, const MarkWork& work, const std::function<bool(size_t row)>& mark) {
  const auto count = static_cast<int64_t>(rows);
  const WorkSize size = {.count = (count + kPiece - 1) / kPiece, .threads = work.threads};
  std::atomic<int64_t> unreadable = 0;
  const auto mark_piece = [&](int64_t piece, size_t) {
    for (int64_t i = piece * kPiece; i < std::min(count, (piece + 1) * kPiece); ++i)
      if (!mark(static_cast<size_t>(i))) unreadable += 1;
  };
  work_in_order(
      size, mark_piece, [](int64_t, size_t) {}, work.stop);
  return unreadable;
}

int64_t mark_list(const Dataset& dataset, const MarkWork& work, std::vector<ManifestRow>& rows) {
  KnownRows known_rows;
  if (work.known != nullptr) {
    for (const ManifestRow& row : work.known->rows) {
      if (!row.mark.hash.empty()) known_rows.emplace(row.name, &row);
    }
  }
  return mark_all(rows.size(), work, [&](size_t i) {
    ManifestRow& row = rows[i];
    const auto picture = static_cast<int64_t>(i);
    if (row.picture < 0 && picture < dataset.size() && row.name == manifest_name(dataset, picture))
      row.picture = picture;
    const auto found = known_rows.find(row.name);
    if (work.known != nullptr && found == known_rows.end()) return true;
    return mark_row(dataset, work.known == nullptr ? nullptr : found->second, work.lenient, row);
  });
}

int64_t mark_hashes(const Dataset& dataset, const MarkWork& work, Hashes& hashes) {
  const KnownHashes all_known(work.known, hashes.size());
  return mark_all(hashes.size(), work, [&](size_t i) {
    PictureHash& hash = hashes[i];
    const auto picture = static_cast<int64_t>(i);
    if (hash.kind != 0 || picture >= dataset.size()) return true;
    if (hash.name != hash64(manifest_name(dataset, picture))) return true;
    const PictureHash* known = work.known == nullptr ? nullptr : all_known.find(hash.name, i);
    if (work.known != nullptr && (known == nullptr || known->kind == 0)) return true;
    const auto found =
        look_at(*dataset.picture_file(picture), work.lenient, [&](const std::string& stamp) {
          return known != nullptr && known->stamp == stamp_bits(stamp);
        });
    if (!found) return false;
    hash.stamp = stamp_bits(found->stamp);
    if (found->mark)
      set_mark(*found->mark, hash);
    else
      hash.take_mark(*known);
    return true;
  });
}

}  // namespace

int64_t mark_pictures(const Dataset& dataset, const MarkWork& work, Manifest& manifest) {
  return manifest.hashes.empty() ? mark_list(dataset, work, manifest.rows)
                                 : mark_hashes(dataset, work, manifest.hashes);
}

bool is_marked(const Manifest& manifest) {
  return std::ranges::all_of(manifest.rows,
                             [](const auto& row) { return !row.mark.hash.empty(); }) &&
         std::ranges::all_of(manifest.hashes, [](const auto& hash) { return hash.kind != 0; });
}

std::string digest_of(const Manifest& manifest) {
  Digest digest;
  for (const ManifestRow& row : manifest.rows) add(digest, row);
  return digest.hex();
}

std::string data_digest(const Dataset& dataset, const StopCheck& stop) {
  Digest digest;
  const Listing listing(dataset);
  if (!listing.has_files()) {
    add(digest, dataset.description());
    return digest.hex();
  }
  using Rows = std::vector<ManifestRow>;
  const auto make = [&](int64_t piece) {
    Rows rows;
    for (int64_t i = piece * kPiece; i < std::min(dataset.size(), (piece + 1) * kPiece); ++i) {
      rows.push_back(listing.row(i));
      mark_row(dataset, nullptr, dataset.has_stand_ins(), rows.back());
    }
    return rows;
  };
  const auto take = [&](int64_t, Rows&& rows) {
    for (const ManifestRow& row : rows) add(digest, row);
  };
  const WorkSize size = {(dataset.size() + kPiece - 1) / kPiece, threads_for_marks()};
  if (!work_in_order<Rows>(size, make, take, stop))
    fail(Exit::kStopped, "stopped while the data was hashed");
  return digest.hex();
}

std::string sampled_digest(const Dataset& dataset, int64_t read) {
  Digest digest;
  Manifest some;
  const Listing listing(dataset);
  const int64_t count = listing.has_files() ? dataset.size() : 0;
  for (int64_t i = 0; i < count; ++i) add(digest, listing.row(i));
  for (const int64_t i : evenly_spaced(count, read)) some.rows.push_back(listing.row(i));
  const MarkWork work{.threads = threads_for_marks(), .lenient = dataset.has_stand_ins()};
  mark_pictures(dataset, work, some);
  return digest.hex() + digest_of(some);
}

namespace {

void write_list(const fs::path& file_path, const Manifest& manifest) {
  const auto marked = static_cast<int64_t>(std::ranges::count_if(
      manifest.rows, [](const ManifestRow& row) { return !row.mark.hash.empty(); }));
  const auto pictures = static_cast<int64_t>(manifest.rows.size());
  const Json header = {{"format", kListFormat},
                       {"path", valid_text(manifest.path)},
                       {"pictures", pictures},
                       {"marked", marked},
                       {"digest", marked == pictures ? Json(digest_of(manifest)) : Json()}};
  AtomicFile file(file_path);
  std::string text = header.dump() + "\n";
  for (const ManifestRow& row : manifest.rows) {
    const Json line = {row.name, row.mark.bytes, row.mark.hash, row.label, row.stamp};
    text += line.dump() + "\n";
    if (text.size() < (1 << 20)) continue;
    file.write(text);
    text.clear();
  }
  file.write(text);
  file.commit();
}

Manifest read_list(const fs::path& path) {
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
    if (!json.is_object() || json.value("format", Json()) != kListFormat)
      fail(Exit::kInput, "{}: not a manifest of gantrain's data of this version", path.string());
    manifest.path = json.contains("path") ? text_of(json["path"]) : "";
  }
  return manifest;
}

// The bytes of a PictureHash in memory are those in the file.
static_assert(std::endian::native == std::endian::little);
constexpr size_t kDigits = 32;
constexpr uint64_t kMostHashes = uint64_t{1} << 30;  // 16 GiB

void write_hashes(const fs::path& path, const Manifest& manifest) {
  const Json header = {{"format", kHashesFormat},
                       {"path", valid_text(manifest.path)},
                       {"pictures", manifest.hashes.size()}};
  const std::string line = header.dump() + "\n";
  const size_t bytes = manifest.hashes.size() * sizeof(PictureHash);
  Digest digest;
  digest.update(line.data(), line.size());
  digest.update(manifest.hashes.data(), bytes);
  AtomicFile file(path);
  file.write(line);
  file.write(manifest.hashes.data(), bytes);
  file.write(digest.hex());
  file.commit();
}

int open_hashes(const fs::path& path) {
  try {
    return open_regular(path, O_RDONLY);
  } catch (const UserError& error) {
    fail(Exit::kInput, "{}", error.what());
  }
}

// Whether the digits at the end are the checksum of all before them.
bool is_whole(const RandomAccessFile& file, const std::string& head, int64_t end) {
  Digest digest;
  digest.update(head.data(), head.size());
  std::string piece(size_t{1} << 20, '\0');
  for (auto at = static_cast<int64_t>(head.size()); at < end;) {
    const auto wanted = std::min(piece.size(), static_cast<size_t>(end - at));
    if (file.read(at, piece.data(), wanted) != wanted) return false;
    digest.update(piece.data(), wanted);
    at += static_cast<int64_t>(wanted);
  }
  std::string digits(kDigits, '\0');
  return file.read(end, digits.data(), kDigits) == kDigits && digest.hex() == digits;
}

}  // namespace

void write_manifest(const fs::path& folder, const Manifest& manifest) {
  const bool is_list = manifest.hashes.empty();
  if (is_list)
    write_list(folder / kListFile, manifest);
  else
    write_hashes(folder / kHashesFile, manifest);
  std::error_code error;
  fs::remove(folder / (is_list ? kHashesFile : kListFile), error);
}

Manifest read_hashes(const fs::path& path) {
  constexpr size_t kMostOfHeader = size_t{64} << 10;
  const std::string name = path.string();
  const RandomAccessFile file(open_hashes(path), name);
  std::string head(kMostOfHeader, '\0');
  head.resize(file.read(0, head.data(), head.size()));
  head.resize(std::min(head.find('\n'), head.size() - 1) + 1);
  const Json header = parse_foreign(head);
  if (!header.is_object() || header.value("format", Json()) != kHashesFormat ||
      !header.value("pictures", Json()).is_number_unsigned())
    fail(Exit::kInput, "{}: not a manifest of gantrain's data of this version", name);
  const auto pictures = header["pictures"].get<uint64_t>();
  const int64_t rest = file.size() - static_cast<int64_t>(head.size() + kDigits);
  if (rest < 0 || static_cast<uint64_t>(rest) / sizeof(PictureHash) != pictures ||
      static_cast<uint64_t>(rest) % sizeof(PictureHash) != 0)
    fail(Exit::kInput, "{}: broken: {} bytes do not hold {} pictures", name, file.size(), pictures);
  Manifest manifest{.path = header.contains("path") ? text_of(header["path"]) : "", .rows = {}};
  const auto at = static_cast<int64_t>(head.size());
  // Before as much memory is taken as the file says.
  if (pictures > kMostHashes || !is_whole(file, head, at + rest))
    fail(Exit::kInput, "{}: broken: its checksum is another one", name);
  manifest.hashes.resize(pictures);
  const auto bytes = static_cast<size_t>(rest);
  if (file.read(at, reinterpret_cast<char*>(manifest.hashes.data()), bytes) != bytes)
    fail(Exit::kInput, "{}: broken: it has become shorter", name);
  return manifest;
}

// After a crash between a new list and the end of the old hashes both are there. Where it came
// between new hashes and the end of the old list, --force data is asked for once more.
std::optional<Manifest> read_manifest(const fs::path& folder) {
  std::error_code error;
  if (fs::exists(folder / kListFile, error)) return read_list(folder / kListFile);
  if (fs::exists(folder / kHashesFile, error)) return read_hashes(folder / kHashesFile);
  return std::nullopt;
}

std::optional<Manifest> try_manifest(const fs::path& folder) {
  try {
    return read_manifest(folder);
  } catch (const UserError& e) {
    warn("{}; whether the data has changed is not known", e.what());
    return std::nullopt;
  }
}

}  // namespace gantrain

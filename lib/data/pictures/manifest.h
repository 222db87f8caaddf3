// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "data/containers/source.h"
#include "data/pictures/dataset.h"

namespace gantrain {

// Returns 32 hexadecimal digits for what a data set holds: the names, contents (FileMark) and
// labels of its pictures in their order, or the description() of computed ones. Data that was moved
// keeps its digest. The same on every rank and node that sees the same pictures. Throws
// UserError(kInput) where a file cannot be read, unless the data set has stand-ins (then it counts
// by its name), UserError(kStopped) where `stop` returns true.
std::string data_digest(const Dataset& dataset, const StopCheck& stop = {});

// Returns 64 such digits for the names and labels of all pictures and the contents of up to `read`
// of them, evenly spread over them: so much takes a bounded time on any disk.
std::string sampled_digest(const Dataset& dataset, int64_t read = 2000);

// One picture of a data set as a run has found it.
struct ManifestRow {
  std::string name;        // in its folder or archive
  FileMark mark = {};      // without a hash while nobody has read the file yet
  int64_t label = -1;      // the class, or a hash of the vector; -1: the data has no labels
  std::string stamp = "";  // Source::stamp() when the mark was made
  int64_t picture = -1;    // its index in the data set; -1: not known, or left out
};

// A picture of a very large data set: 16 bytes, where a ManifestRow takes about 200. Of n pictures
// two have the same hash of their names with a probability of n^2 / 2^65, 1.3e-4 for 70 million,
// and that is harmless: pictures of one hash are compared in their order. Only a picture that was
// removed and another of its hash that was added pass for one that was altered.
// An altered picture passes for the same one with a probability of 2^-19: its stamp or its content
// must have the same bits. One with another label does so with 2^-16 where labels are vectors, and
// never where they are fewer than 65,536 classes.
struct PictureHash {
  uint64_t name = 0;
  uint64_t label : 16 = 0;    // of ManifestRow::label + 1
  uint64_t stamp : 20 = 0;    // a hash; 0: none
  uint64_t kind : 2 = 0;      // of the mark: 0 none, 1 "xxh3", 2 "crc32"
  uint64_t size : 6 = 0;      // a hash of the mark's bytes
  uint64_t content : 20 = 0;  // of the mark's hash

  void take_mark(const PictureHash& from) {
    kind = from.kind;
    size = from.size;
    content = from.content;
  }
  bool operator==(const PictureHash&) const = default;
};
static_assert(sizeof(PictureHash) == 16);

PictureHash hash_of(const ManifestRow& row);

// Of more pictures a manifest keeps hashes.
inline constexpr int64_t kMostListed = 4'000'000;

// What a run trains on, kept in its folder so that a resume can tell what has changed.
struct Manifest {
  std::string path;               // data.path; another one is no change, unless it is computed
  std::vector<ManifestRow> rows;  // none for computed pictures
  // In place of rows. The first are the pictures of the data set, in their order.
  std::vector<PictureHash> hashes = {};

  size_t size() const { return rows.size() + hashes.size(); }
};

// Returns the hashes of a manifest; those of a list are made in `memory`.
const std::vector<PictureHash>& hashes_of(const Manifest& manifest,
                                          std::vector<PictureHash>& memory);

// Returns what a manifest calls a picture: its name in its folder or archive, "" where it is
// computed.
std::string manifest_name(const Dataset& dataset, int64_t picture);

// Returns the names and labels of all pictures, without marks, as hashes where there are more than
// `most_listed` pictures; nothing of computed pictures.
Manifest list_pictures(const Dataset& dataset,
                       const std::string& path,
                       int64_t most_listed = kMostListed);

// Does the same for a comparison with `before`: as hashes where that has hashes, or where there are
// more than `most_listed` pictures now and were not then. A longer list, of an earlier version,
// goes on as a list.
Manifest list_again(const Dataset& dataset,
                    const std::string& path,
                    const Manifest& before,
                    int64_t most_listed = kMostListed);

// How mark_pictures() works.
struct MarkWork {
  int64_t threads = 1;
  // An earlier manifest, or null. With it, only pictures that are marked there are marked; one
  // whose stamp is the same there is not read again. Hashes are of no use for a list.
  const Manifest* known = nullptr;
  // Leaves pictures that cannot be read without a mark, and does not throw.
  bool lenient = false;
  StopCheck stop = {};
};

// Returns as many threads as keep a disk busy.
int64_t threads_for_marks();

// Fills in the marks that are missing in a list_pictures(), or in a manifest that was read from a
// file, of pictures that stand where they stand in the data set. Stops early, with rows left
// without marks, where `stop` returns true. Returns how many pictures could not be read where
// work.lenient allows it; else throws UserError(kInput) that names the first.
int64_t mark_pictures(const Dataset& dataset, const MarkWork& work, Manifest& manifest);

// Whether all pictures have marks.
bool is_marked(const Manifest& manifest);

// Returns the digest of the rows, as data_digest() does.
std::string digest_of(const Manifest& manifest);

// Returns what has changed, with the first names of each kind: "2 pictures added (a.png, b.png), 1
// removed (c.png), 3 altered (...), 1 with another label (...)"; "" where nothing has. Pictures
// without a mark are compared by name and label alone, and by size where one mark is an archive's
// checksum and the other is not. Of hashes the names come from `dataset`, which is that of `now`;
// what was removed from hashes has none: "2 pictures removed".
std::string changes(const Manifest& before, const Manifest& now, const Dataset* dataset = nullptr);

// With data.on_bad=skip: pictures of `before` that cannot be read now, because they have broken
// since, are no change of the data. Takes their rows of `before` into `now`, so that they are known
// when they are mended, and returns their names.
std::vector<std::string> take_broken(const Dataset& dataset, const Manifest& before, Manifest& now);

// Write and read the manifest of a run folder, atomically. A list is data-manifest.jsonl: a header,
// then a row [name, bytes, hash, label, stamp] a line. Hashes are data-manifest.bin: a header of
// one line, each PictureHash, its lowest bits first, and 32 hexadecimal digits, the XXH3 of all
// before them. write_manifest() removes the other file, and throws UserError(kDisk);
// read_manifest() returns nothing where there is no file, and throws UserError(kInput) that names
// the file where it is broken.
void write_manifest(const std::filesystem::path& folder, const Manifest& manifest);
std::optional<Manifest> read_manifest(const std::filesystem::path& folder);
// The same where a broken manifest must not be in the way: warns of it, and returns nothing.
std::optional<Manifest> try_manifest(const std::filesystem::path& folder);

inline constexpr const char* kHashesFile = "data-manifest.bin";
// Reads such a file. Throws UserError(kInput) that names it.
Manifest read_hashes(const std::filesystem::path& file);

}  // namespace gantrain

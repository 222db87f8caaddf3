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
// UserError(kInput) where a file cannot be read, UserError(kStopped) where `stop` returns true.
std::string data_digest(const Dataset& dataset, const StopCheck& stop = {});

// One picture of a data set as a run has found it.
struct ManifestRow {
  std::string name;        // in its folder or archive
  FileMark mark = {};      // without a hash while nobody has read the file yet
  int64_t label = -1;      // the class, or a hash of the vector; -1: the data has no labels
  std::string stamp = "";  // Source::stamp() when the mark was made
  int64_t picture = -1;    // its index in the data set; -1 in a manifest that was read from a file
};

// What a run trains on, kept in its folder so that a resume can tell what has changed.
struct Manifest {
  std::string path;               // data.path; another one is no change
  std::vector<ManifestRow> rows;  // none for computed pictures
};

// Returns the names and labels of all pictures, without marks; no rows for computed pictures.
Manifest list_pictures(const Dataset& dataset, const std::string& path);

// How mark_pictures() works.
struct MarkWork {
  int64_t threads = 1;
  // An earlier manifest, or null. With it, only pictures that are marked there are marked; one
  // whose stamp is the same there is not read again.
  const Manifest* known = nullptr;
  // Leaves pictures that cannot be read without a mark, and does not throw.
  bool lenient = false;
  StopCheck stop = {};
};

// Returns as many threads as keep a disk busy.
int64_t threads_for_marks();

// Fills in the marks that are missing in rows of a list_pictures(). Stops early, with rows left
// without marks, where `stop` returns true. Returns how many pictures could not be read where
// work.lenient allows it; else throws UserError(kInput) that names the first.
int64_t mark_pictures(const Dataset& dataset, const MarkWork& work, Manifest& manifest);

// Returns the digest of the rows, as data_digest() does.
std::string digest_of(const Manifest& manifest);

// Returns what has changed, with the first names of each kind: "2 pictures added (a.png, b.png), 1
// removed (c.png), 3 altered (...), 1 with another label (...)"; "" where nothing has. Rows without
// a mark are compared by name and label alone, and by size where one mark is an archive's checksum
// and the other is not.
std::string changes(const Manifest& before, const Manifest& now);

// With data.on_bad=skip: pictures of `before` that cannot be read now, because they have broken
// since, are no change of the data. Takes their rows of `before` into `now`, so that they are known
// when they are mended, and returns their names.
std::vector<std::string> take_broken(const Dataset& dataset, const Manifest& before, Manifest& now);

// Write and read data-manifest.jsonl of a run folder, atomically: a header, then a row [name,
// bytes, hash, label, stamp] a line. write_manifest() throws UserError(kDisk); read_manifest()
// returns nothing where there is no file, and throws UserError(kInput) where it is broken.
void write_manifest(const std::filesystem::path& folder, const Manifest& manifest);
std::optional<Manifest> read_manifest(const std::filesystem::path& folder);

}  // namespace gantrain

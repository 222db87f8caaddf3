// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "data/containers/source.h"
#include "data/pictures/dataset.h"

namespace gantrain {

// An entry of a zip archive as the archive's central directory describes it.
struct ZipEntry {
  std::string name;       // as it stands there
  int64_t header = 0;     // bytes before the local header, behind which the content lies
  int64_t size = 0;       // bytes of the content
  uint32_t checksum = 0;  // CRC-32 of the content
  bool stored = false;    // the content stands there as it is, neither compressed nor encrypted
};

// Reads the central directory (PKWARE's APPNOTE 6.3, sec. 4.3.12 to 4.3.16, with Zip64). Returns
// nothing where it is not of the plain kind, in one piece from the start of the file; libzip must
// look at the archive then. Throws UserError(kInput) if it cannot be read.
std::vector<ZipEntry> read_zip_directory(const RandomAccessFile& file);

// Reads a stored content. Returns false where it is cut off, overwritten, or of another checksum.
// Throws UserError(kInput) as read() does.
bool read_stored(const RandomAccessFile& file, const ZipEntry& entry, std::string& content);

// Whether a content is a .npy.
bool is_npy(std::string_view start);

// Opens the pictures of a .npy [N, H, W, C] or [N, C, H, W] of uint8, uint16, or floating point
// from 0 to 1; what is shorter at the ends is C. Throws UserError(kInput) that names the file.
std::unique_ptr<Source> open_npy_set(const FilePart& file);

// Returns the source with files joined to pictures as options.join says; the same one where there
// are none. NAME.c0.png, NAME.c1.png, ... become NAME.png, as do c0/NAME.png, c1/NAME.png, ...: the
// channels of the files one behind the other. Throws UserError(kInput) that names a file whose
// neighbour is missing.
std::unique_ptr<Source> joined(std::unique_ptr<Source> source, Join join);

// Whether a content begins as gzip, zstd, xz or bzip2 do.
bool is_compressed(std::string_view start);

// Returns the part, or its unpacked content where it is compressed: in a file without a name, in
// $TMPDIR or else /var/tmp or /tmp, which every thread and forked process can read. Takes constant
// memory. Throws UserError(kInput) where the content is damaged, cut off, or so much larger than
// what it was packed to that it can be no data, UserError(kDisk) where the file does not fit, and
// UserError(kStopped) where `stop` returns true.
FilePart unpacked(const FilePart& part, const StopCheck& stop = {});

// A regular file in a tar archive and where its content lies.
struct TarEntry {
  std::string name;    // with '/', without a leading "./"
  int64_t offset = 0;  // bytes before the content
  int64_t size = 0;    // bytes of the content
};

// Whether a content begins with a header of a tar archive, by its checksum. 512 bytes are enough.
bool is_tar(std::string_view start);

// Reads all headers of an archive that is not compressed. Hidden files, links and devices are left
// out; of files of one name the last counts. Throws UserError(kInput) that names the archive where
// it is damaged or cut off.
std::vector<TarEntry> read_tar_directory(const FilePart& archive);

// Opens the files of tar archives together, unpacked() first. If two archives hold files of one
// name, each path begins with the name of its archive, and with the archive's folders where these
// names are alike. Throws UserError(kInput) that names the archive.
std::unique_ptr<Source> open_tars(const std::vector<std::string>& paths,
                                  const StopCheck& stop = {});

// An entry of an LMDB's main database and where its value lies in the file.
struct LmdbEntry {
  std::string key;
  int64_t offset = 0;
  int64_t size = 0;
};

// Whether a content begins as an LMDB's data file does. 24 bytes are enough.
bool is_lmdb(std::string_view start);

// Reads all keys of the newest committed state of an LMDB, in their order. Throws UserError(kInput)
// that names the file where it is damaged or holds something else than plain values.
std::vector<LmdbEntry> read_lmdb(const FilePart& file);

// Opens the encoded pictures of an LMDB: all values, as in LSUN's, or, where keys are
// "RESOLUTION-NUMBER" beside a key "length", as in the StyleGAN2 port's, those of one size:
// options.resolution's longer side, else the next larger one, else the largest. Throws
// UserError(kInput) that names the file.
std::unique_ptr<Source> open_lmdb(const FilePart& file, const DataOptions& options);

// Whether a content begins as an idx file of bytes does (the MNIST database).
bool is_idx(std::string_view start);

// Opens the grey pictures of an idx file with three dimensions, and the labels of one with one.
// Pictures of 28 x 28 pixels get a black border of two pixels where options ask for 32 x 32 and for
// fit=pad. Throws UserError(kInput) that names the file where its size is not what its header says,
// or where the labels are not as many.
std::unique_ptr<Source> open_idx(const FilePart& images,
                                 const std::optional<FilePart>& labels,
                                 const DataOptions& options);

// Opens the idx file of pictures among the files of a folder or archive, that for training or the
// only one, with the labels beside it. Returns nothing where there is none.
std::unique_ptr<Source> idx_in(const Source& folder,
                               const DataOptions& options,
                               const StopCheck& stop);

// Opens the idx file that options name, whose content unpacked is `images`, with its labels.
std::unique_ptr<Source> open_idx_file(const FilePart& images,
                                      const DataOptions& options,
                                      const StopCheck& stop);

// Opens CIFAR-10's or CIFAR-100's files (Krizhevsky 2009) among the files of a folder or archive,
// binary or Python: the training batches, or else the test batch. Labels are the classes, of
// CIFAR-100 the fine ones, with names where the file of the names is there. Returns nothing where
// there are no such files. Throws UserError(kInput) that names the file that is broken.
std::unique_ptr<Source> cifar_in(const Source& files);

// Opens one binary batch by itself; nothing where the size and the labels do not fit.
std::unique_ptr<Source> cifar_batch(const FilePart& part);

// What a record of pixels is: a byte for each value, one plane [height, width] a channel.
struct RecordForm {
  int64_t width = 0;
  int64_t height = 0;
  int64_t channels = 0;
  int64_t border = 0;  // black pixels that are put around the picture

  int64_t bytes() const { return width * height * channels; }
  ImageInfo info() const { return {width + 2 * border, height + 2 * border, channels}; }
};

// Records in one file, at equal distances.
struct RecordRun {
  FilePart part;
  int64_t first = 0;   // bytes before the pixels of the first one
  int64_t stride = 0;  // bytes from one to the next
  int64_t count = 0;
};

// Pictures that lie as records of pixels in a few files, with their labels.
struct Records {
  std::string kind;  // for the description: "CIFAR-10"
  RecordForm form;
  std::vector<RecordRun> runs = {};
  Labels labels = {};
};

// Serves the records as pictures, named by their numbers. Throws UserError(kInput) where a run
// reaches beyond its part.
std::unique_ptr<Source> open_records(Records records);

// The part of a file that holds a source's file. Throws UserError(kInput) where it is packed.
FilePart part_of(const Source& source, size_t file);

}  // namespace gantrain

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "data/containers/source.h"

namespace gantrain {

// What a record of uncompressed pixels is: a byte for each value, one plane of [height, width] for
// each channel.
struct RecordForm {
  int64_t width = 0;
  int64_t height = 0;
  int64_t channels = 0;
  int64_t border = 0;  // black pixels that are put around the picture
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

// Serves the records as pictures, in the order of the runs, named by their numbers. Throws
// UserError(kInput) where a run reaches beyond its part.
std::unique_ptr<Source> make_records(Records records);

// Whether a content begins as an idx file of bytes does (LeCun, Cortes & Burges, the MNIST
// database).
bool is_idx(std::string_view start);

// Opens the grey pictures of an idx file with three dimensions, which is not compressed, and the
// labels of an idx file with one. Pictures of 28 x 28 pixels get a black border of two pixels where
// options ask for 32 x 32 and for fit=pad, as MNIST is usually brought to that size. Throws
// UserError(kInput) that names the file where its size is not what its header says, or where the
// labels are not as many.
std::unique_ptr<Source> open_idx(const FilePart& images,
                                 const std::optional<FilePart>& labels,
                                 const DataOptions& options);

// Opens the idx file of pictures among the files of a folder or archive: that for training, or the
// only one, with the labels beside it. Either may be compressed. Returns nothing where there is
// none.
std::unique_ptr<Source> idx_in(const Source& folder,
                               const DataOptions& options,
                               const StopCheck& stop);

// Opens the idx file that options name, whose content unpacked is `images`, with the labels beside
// it.
std::unique_ptr<Source> open_idx_file(const FilePart& images,
                                      const DataOptions& options,
                                      const StopCheck& stop);

// Opens CIFAR-10's or CIFAR-100's files (Krizhevsky 2009) among the files of a folder or archive,
// in their binary or Python version: the training batches, or the test batch where there are no
// others. Labels are the classes, of CIFAR-100 the fine ones, with their names where the file of
// the names is there. Returns nothing where there are no such files. Throws UserError(kInput) that
// names the file that is broken.
std::unique_ptr<Source> cifar_in(const Source& files);

// Opens one binary batch of either by itself; nothing where the size and the labels do not fit.
std::unique_ptr<Source> cifar_batch(const FilePart& part);

}  // namespace gantrain

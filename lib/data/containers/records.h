// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "data/containers/source.h"
#include "data/pictures/dataset.h"

namespace gantrain {

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

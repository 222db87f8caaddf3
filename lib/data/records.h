// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "data/random_access_file.h"
#include "data/source.h"

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

}  // namespace gantrain

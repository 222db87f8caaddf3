// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "data/labels.h"
#include "data/options.h"
#include "data/source.h"

namespace gantrain {

// The pictures among the files of a source, before any was opened, and their labels.
struct FoundPictures {
  std::vector<size_t> files;  // position in the source of each picture
  Labels labels;
  int64_t others = 0;  // files that are neither pictures nor have their labels
};

// Finds the pictures and their labels. These come from the first of: the file data.labels; what the
// container itself holds; the outermost dataset.json or else labels.csv, dataset.csv or
// metadata.csv whose folder has all pictures in it, or that stands beside an archive; a file
// NAME.cls or the "label" in NAME.json beside each picture NAME.png; the folders. Lists found by
// their names that name none of the pictures are left out with a message. Throws UserError(kInput)
// that names the source without pictures, the picture without a label, or a list that is too large
// for the number of pictures.
FoundPictures find_pictures(const Source& source, const DataOptions& options);

}  // namespace gantrain

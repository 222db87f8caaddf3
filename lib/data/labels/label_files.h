// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "data/containers/source.h"
#include "data/labels/labels.h"
#include "data/options.h"

namespace gantrain {

// Reads rows of fields (RFC 4180): separated by commas, or by the tabs or semicolons of a first
// line that has no commas; fields may stand in double quotes, in which two stand for one and lines
// may break. Blanks around fields without quotes, empty lines and a byte order mark are left out.
// Throws UserError(kInput) that names `name` and the line where a quote is not closed.
std::vector<std::vector<std::string>> read_csv(std::string_view text, const std::string& name);

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

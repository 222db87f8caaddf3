// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "curation/requests.h"

namespace gantrain {

// A file that is no readable picture.
struct BadFile {
  std::string file;
  std::string reason;  // with the file's name
};

// Pictures that are the same: the first one's name, then its copies'.
using CopyGroup = std::vector<std::string>;

// A class of the data.
struct ClassCount {
  std::string name;
  int64_t pictures = 0;  // readable ones
};

// What a data set holds.
struct Inspection {
  std::string path;
  std::string kind;      // "CIFAR-10", "12 shards"; "" for a plain folder or archive
  int64_t pictures = 0;  // readable ones
  int64_t others = 0;    // files that are neither pictures nor hold labels
  int64_t bytes = 0;     // of the files of the readable pictures
  std::vector<BadFile> bad;
  std::map<std::string, int64_t> formats;  // "JPEG" -> pictures
  std::map<std::string, int64_t> forms;    // "RGB", "grey", "palette", ... -> pictures
  std::map<std::pair<int64_t, int64_t>, int64_t> sizes;  // width, height as it is seen -> pictures
  std::vector<ClassCount> classes;                       // none without labels
  std::vector<CopyGroup> copies;                         // byte for byte the same file
  std::vector<CopyGroup> look_alikes;                    // compressed again or resized
  bool stopped = false;  // before the end: the rest is not filled in
};

// Decodes every picture of a data set on all cores, and writes the sheet and the list of bad files
// that the request asks for. Memory does not depend on the size of the pictures' files and grows by
// about 1 KB a picture. Throws UserError(kInput) where the data cannot be opened or has no
// pictures, UserError(kDisk) where a file cannot be written.
Inspection inspect_data(const InspectRequest& request, const WorkCallbacks& callbacks);

}  // namespace gantrain

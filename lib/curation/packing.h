// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "curation/requests.h"

namespace gantrain {

struct PackResult {
  int64_t pictures = 0;          // in the output
  std::vector<std::string> bad;  // why each of the others was left out, with its name
  int64_t resumed = 0;           // pictures, good or bad, that an earlier command had seen to
  int64_t bytes = 0;             // of all PNGs
  int64_t channels = 0;
  int64_t classes = 0;
  bool stopped = false;  // before the end: there is no output, and the same command goes on
};

// Writes the pictures of a data set as StyleGAN2-ADA's dataset_tool lays them out: PNGs of one size
// and one number of channels, 00000/img00000000.png and so on in the order of their names, and last
// dataset.json with {"labels": [["00000/img00000000.png", 0], ...]}, or null without labels. Its
// key "classes", which other programs do not look at, has the names of the classes.
//
// Pictures that cannot be read are left out and listed, or end the work (request.on_bad). The
// output appears under its name when it is whole. Until then NAME.partial and NAME.partial.journal
// hold what there is, from which the same command goes on after any kind of end. The same data and
// options give the same bytes, whatever the number of threads and of interruptions.
//
// Throws UserError(kInput) where the data cannot be read, UserError(kUsage) where the output must
// not be written, UserError(kDisk) where it cannot be.
PackResult pack_pictures(const PackRequest& request, const WorkCallbacks& callbacks);

// The file that lists what was left out: NAME.bad.txt.
std::string bad_list_of(const PackRequest& request);

}  // namespace gantrain

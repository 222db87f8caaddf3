// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "data/dataset.h"
#include "image/image.h"

namespace gantrain {

struct BadPicture {
  int64_t picture = 0;
  std::string reason;  // includes the file's name
};

struct ScanResult {
  bool color = false;           // at least one good picture is not grey
  std::vector<BadPicture> bad;  // in the order of the pictures
};

// Returns which of `count` pictures to look at: all if they are at most `limit`, else `limit`
// evenly spaced ones.
std::vector<int64_t> evenly_spaced(int64_t count, int64_t limit);

// Calls `look` for the pictures on several threads; a UserError that it throws makes the picture
// bad. With `stop_at_bad` the scan ends after the first bad picture, though not before a second has
// passed. Throws UserError(kStopped) where `stop` returns true, and every other exception of
// `look`.
ScanResult scan_pictures(const std::vector<int64_t>& pictures,
                         const std::function<ImageInfo(int64_t)>& look,
                         bool stop_at_bad,
                         const StopCheck& stop);

}  // namespace gantrain

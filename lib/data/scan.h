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
  std::string reason;  // names the file
};

struct ScanResult {
  bool color = false;           // at least one good picture is not grey
  std::vector<BadPicture> bad;  // in order of the pictures
};

// Which of `count` pictures to look at: all up to `limit`, else `limit` evenly spaced ones.
std::vector<int64_t> evenly_spaced(int64_t count, int64_t limit);

// Looks at the pictures on several threads; a UserError of `look` makes a picture bad. With
// `stop_at_bad` the scan ends within a second of its start, or at once, after the first bad one.
// Throws UserError(kStopped) when `stop` says so, and whatever else `look` throws.
ScanResult scan_pictures(const std::vector<int64_t>& pictures,
                         const std::function<ImageInfo(int64_t)>& look,
                         bool stop_at_bad,
                         const StopCheck& stop);

}  // namespace gantrain

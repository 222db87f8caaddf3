// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "image/image.h"

namespace gantrain {

// One picture with small ones of up to 100 others, spread evenly over a data set in its order, so
// that pictures of one class lie together.
class ContactSheet {
 public:
  static constexpr int64_t kCell = 96;  // pixels a side

  explicit ContactSheet(int64_t pictures);

  // Whether the picture is on the sheet. Any thread may ask.
  bool shows(int64_t picture) const;
  // Returns the small picture: RGB, kCell pixels a side, on white.
  static Image small(const Image& image);
  void add(int64_t picture, const Image& small);
  // Writes a PNG. Throws UserError(kDisk).
  void write(const std::string& path) const;

 private:
  std::vector<int64_t> shown_;  // pictures, ascending
  int64_t columns_;
  Image sheet_;
};

}  // namespace gantrain

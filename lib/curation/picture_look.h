// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "image/image.h"

namespace gantrain {

// How a file stores its picture, as far as training does not see it any more: everything becomes 8
// bits a channel, grey or RGB.
struct PictureForm {
  std::string format = "raw";  // "PNG", "JPEG", "WebP"; "raw" for records of pixels
  int64_t bits = 8;            // a channel
  bool grey = false;
  bool palette = false;
  bool alpha = false;
  bool cmyk = false;
};

// Reads the header of a picture that image_info() accepts. Numbers that a broken header lacks are
// taken for the usual ones.
PictureForm form_of(std::string_view bytes);

// What a picture looks like from afar: the mean colour of each cell of a grid laid over it. Copies
// that were compressed again or resized have nearly the same one.
struct Look {
  static constexpr int64_t kSide = 16;              // cells
  std::array<uint8_t, kSide* kSide* 3> cells = {};  // [row, column, RGB]
  std::array<float, 4> quarters = {};               // mean luma of each quarter, 0..255
  float contrast = 0;  // standard deviation of the cells within their channel
  float aspect = 1;    // width / height
};

// Alpha is laid over white.
Look look_of(const Image& image);

// Whether two pictures look like copies of one: no cell differs much and all together hardly. In
// pictures with little contrast less difference is allowed.
bool look_alike(const Look& a, const Look& b);

// Finds look-alikes among many pictures. Each new one is compared with those of earlier groups
// whose quarters are about as bright, by a hash table of cells in these four numbers; so the time
// grows about as the number of pictures, also where many are the same.
class LookAlikes {
 public:
  // Returns the number of an earlier picture that looks the same, or nothing.
  std::optional<int64_t> add(int64_t picture, const Look& look);

 private:
  struct First {
    int64_t picture = 0;
    Look look;
  };
  std::vector<First> firsts_;                                    // the first picture of each group
  std::unordered_map<uint64_t, std::vector<uint32_t>> by_cell_;  // positions in firsts_
};

}  // namespace gantrain

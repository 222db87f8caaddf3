// SPDX-License-Identifier: Apache-2.0
#include "curation/contact_sheet.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "data/prepare.h"
#include "data/scan.h"
#include "util/file.h"

namespace gantrain {

namespace {

constexpr int64_t kMostShown = 100;

}  // namespace

ContactSheet::ContactSheet(int64_t pictures) : shown_(evenly_spaced(pictures, kMostShown)) {
  const auto count = static_cast<int64_t>(shown_.size());
  columns_ = std::max<int64_t>(1, std::llround(std::ceil(std::sqrt(static_cast<double>(count)))));
  const int64_t rows = std::max<int64_t>(1, (count + columns_ - 1) / columns_);
  sheet_ = {.width = columns_ * kCell, .height = rows * kCell, .channels = 3, .pixels = {}};
  sheet_.pixels.assign(static_cast<size_t>(sheet_.width * sheet_.height * 3), 255);
}

bool ContactSheet::shows(int64_t picture) const {
  return std::binary_search(shown_.begin(), shown_.end(), picture);
}

Image ContactSheet::small(const Image& image) {
  DataOptions options;
  options.resolution = square_of(kCell);
  options.fit = Fit::kPad;
  return prepare(image, 3, options);
}

void ContactSheet::add(int64_t picture, const Image& small) {
  const auto at = std::lower_bound(shown_.begin(), shown_.end(), picture) - shown_.begin();
  const int64_t left = at % columns_ * kCell, top = at / columns_ * kCell;
  for (int64_t row = 0; row < kCell; ++row) {
    uint8_t* out = sheet_.pixels.data() + ((top + row) * sheet_.width + left) * 3;
    std::memcpy(out, small.pixels.data() + row * kCell * 3, static_cast<size_t>(kCell) * 3);
  }
}

void ContactSheet::write(const std::string& path) const { write_file(path, encode_png(sheet_)); }

}  // namespace gantrain

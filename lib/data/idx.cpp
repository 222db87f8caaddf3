// SPDX-License-Identifier: Apache-2.0
#include "data/idx.h"

#include <algorithm>
#include <array>
#include <utility>

#include "data/records.h"
#include "util/error.h"
#include "util/text.h"

namespace gantrain {

namespace {

constexpr char kBytes = 0x08;  // the type of the values
constexpr int64_t kMaxPictures = int64_t{1} << 25;

int64_t big_endian(const std::string& bytes, size_t at) {
  int64_t value = 0;
  for (size_t i = 0; i < 4; ++i) value = value << 8 | static_cast<uint8_t>(bytes[at + i]);
  return value;
}

// Reads the header: two zero bytes, the type, the number of dimensions, and these as 32 bits each.
// What follows must be as many bytes as they say.
template <size_t kDimensions>
std::array<int64_t, kDimensions> read_header(const FilePart& file) {
  const std::string start = file.bytes(0, 4);
  if (!is_idx(start) || start[3] != static_cast<char>(kDimensions)) {
    fail(Exit::kInput, "{}: not an idx file of bytes with {} dimensions", file.name, kDimensions);
  }
  const std::string header = file.bytes(4, 4 * kDimensions);
  std::array<int64_t, kDimensions> sizes;
  int64_t left = file.size - 4 - static_cast<int64_t>(header.size());
  int64_t total = 1;
  for (size_t i = 0; i < kDimensions; ++i) {
    sizes[i] = big_endian(header, 4 * i);
    const bool fits = sizes[i] == 0 || total <= left / std::max<int64_t>(sizes[i], 1);
    total = fits ? total * sizes[i] : left + 1;
  }
  if (total > left) {
    fail(Exit::kInput, "{}: ends too early for its header, it was probably cut off", file.name);
  }
  if (total < left) {
    fail(Exit::kInput, "{}: has {} bytes more than its header says", file.name, left - total);
  }
  return sizes;
}

Labels read_labels(const FilePart& file, int64_t pictures) {
  const auto [count] = read_header<1>(file);
  if (count != pictures) {
    fail(Exit::kInput, "{}: {} labels for {} pictures", file.name, count, pictures);
  }
  Labels labels;
  for (const char c : file.bytes(8, static_cast<size_t>(count))) {
    labels.of.push_back(static_cast<uint8_t>(c));
    labels.classes = std::max(labels.classes, labels.of.back() + 1);
  }
  return labels;
}

}  // namespace

bool is_idx(std::string_view start) {
  return start.size() >= 4 && start[0] == 0 && start[1] == 0 && start[2] == kBytes &&
         start[3] >= 1 && start[3] <= 4;
}

std::string idx_labels_name(const std::string& images_name) {
  std::string name = images_name;
  const size_t images = name.rfind("images");
  if (images == std::string::npos) return "";
  name.replace(images, 6, "labels");
  const size_t dimensions = name.find("idx3", images);
  if (dimensions != std::string::npos) name.replace(dimensions, 4, "idx1");
  return name;
}

std::unique_ptr<Source> open_idx(const FilePart& images,
                                 const std::optional<FilePart>& labels,
                                 const DataOptions& options) {
  const std::string start = images.bytes(0, 4);
  if (is_idx(start) && start[3] == 1) {
    fail(Exit::kInput, "{}: these are labels; --data wants the file of the pictures", images.name);
  }
  const auto [count, height, width] = read_header<3>(images);
  const bool some = count >= 1 && count <= kMaxPictures && width >= 1 && height >= 1;
  if (!some || width > kMaxImageSide || height > kMaxImageSide) {
    fail(Exit::kInput,
         "{}: {} pictures of {}x{} pixels; that is no data set",
         images.name,
         count,
         width,
         height);
  }
  Records records{.kind = "idx", .form = {.width = width, .height = height, .channels = 1}};
  const bool small = width == 28 && height == 28 && options.resolution == Size{32, 32};
  if (small && options.fit == Fit::kPad) records.form.border = 2;
  records.runs.push_back({.part = images, .first = 16, .stride = width * height, .count = count});
  if (labels) records.labels = read_labels(*labels, count);
  return make_records(std::move(records));
}

}  // namespace gantrain

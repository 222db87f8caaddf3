// SPDX-License-Identifier: Apache-2.0
#include "page/pictures.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "image/image.h"
#include "image/resize.h"
#include "page/run_log.h"
#include "page/run_record.h"
#include "util/error.h"
#include "util/text.h"

namespace gantrain {

namespace fs = std::filesystem;

namespace {

constexpr int kQuality = 80;
constexpr std::string_view kPngSignature = "\x89PNG";

std::string base64(std::string_view bytes) {
  constexpr std::string_view kDigits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  out.reserve((bytes.size() + 2) / 3 * 4);
  for (size_t i = 0; i < bytes.size(); i += 3) {
    uint32_t group = 0;
    for (size_t j = 0; j < 3; ++j) {
      group = group << 8 | (i + j < bytes.size() ? static_cast<uint8_t>(bytes[i + j]) : 0u);
    }
    for (size_t j = 0; j < 4; ++j) {
      out += i + j <= bytes.size() ? kDigits[group >> (18 - 6 * j) & 63] : '=';
    }
  }
  return out;
}

Image shrunk(const Image& image, int64_t most) {
  const int64_t side = std::max(image.width, image.height);
  const auto scaled = [&](int64_t pixels) { return std::max<int64_t>(1, pixels * most / side); };
  return resize(image, {scaled(image.width), scaled(image.height)}, Filter::kBox);
}

std::string small_webp(Image image, const PictureLimits& limits) {
  const int64_t side = std::max(image.width, image.height);
  if (side > limits.side) image = shrunk(image, limits.side);
  std::string webp = encode_webp(image, kQuality);
  while (webp.size() > limits.bytes && std::max(image.width, image.height) > 16) {
    image = shrunk(image, std::max(image.width, image.height) * 2 / 3);
    webp = encode_webp(image, kQuality);
  }
  return webp;
}

std::optional<std::string> encoded(const fs::path& file, const PictureLimits& limits) {
  const auto bytes = content_of(file);
  if (!bytes) return std::nullopt;
  try {
    const Image image = decode_image(*bytes, file.string());
    const bool fits = std::max(image.width, image.height) <= limits.side &&
                      bytes->size() <= limits.bytes && starts_with(*bytes, kPngSignature);
    if (fits) return "data:image/png;base64," + base64(*bytes);
    return "data:image/webp;base64," + base64(small_webp(image, limits));
  } catch (const UserError&) {
    return std::nullopt;
  }
}

}  // namespace

void EmbeddedPictures::begin_page() {
  before_ = std::move(used_);
  used_.clear();
}

std::optional<std::string> EmbeddedPictures::url_of(const fs::path& file,
                                                    const PictureLimits& limits) {
  std::error_code error;
  const auto size = fs::file_size(file, error);
  if (error) return std::nullopt;
  const auto written = fs::last_write_time(file, error).time_since_epoch().count();
  const std::string key =
      fmt::format("{} {} {} {} {}", file.string(), size, written, limits.side, limits.bytes);
  const auto [entry, is_new] = used_.try_emplace(key);
  if (!is_new) return entry->second;
  const auto known = before_.find(key);
  entry->second = known != before_.end() ? std::move(known->second) : encoded(file, limits);
  return entry->second;
}

std::vector<SampleFile> sample_files(const fs::path& run_folder) {
  std::vector<SampleFile> files;
  std::error_code ignored;
  for (const fs::directory_entry& entry : fs::directory_iterator(run_folder / "samples", ignored)) {
    const std::string name = entry.path().filename();
    if (!starts_with(name, "fakes") || !ends_with(name, ".png")) continue;
    const auto kimg = name == "fakes_init.png" ? 0 : kimg_in_name(name);
    if (kimg) files.push_back({*kimg, entry.path()});
  }
  std::sort(files.begin(), files.end(), [](const SampleFile& a, const SampleFile& b) {
    return a.kimg != b.kimg ? a.kimg < b.kimg : a.path > b.path;  // fakes_init before fakes000000
  });
  return files;
}

std::vector<SampleFile> evenly_chosen(const std::vector<SampleFile>& files, size_t most) {
  // Powers of two, so that the next choice is a part of this one. One place is the last file's.
  size_t stride = 1;
  while ((files.size() + stride - 1) / stride + 1 > most && stride < files.size()) stride *= 2;
  std::vector<SampleFile> chosen;
  for (size_t i = 0; i < files.size(); i += stride) chosen.push_back(files[i]);
  if (!files.empty() && (files.size() - 1) % stride != 0) chosen.push_back(files.back());
  return chosen;
}

}  // namespace gantrain

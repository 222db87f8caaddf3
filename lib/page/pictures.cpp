// SPDX-License-Identifier: Apache-2.0
#include "page/pictures.h"

#include <algorithm>
#include <string_view>

#include "image/image.h"
#include "image/resize.h"
#include "page/html.h"
#include "util/error.h"
#include "util/file.h"
#include "util/text.h"

namespace gantrain {

int64_t class_of_cell(int64_t cell, const SampleGridShape& grid, int64_t classes) {
  if (classes <= grid.rows) return cell / grid.columns * classes / grid.rows;
  return cell * classes / (grid.rows * grid.columns);
}

std::vector<std::string> row_names(const SampleGridShape& grid,
                                   const std::vector<std::string>& names) {
  std::vector<std::string> rows;
  constexpr int64_t kMost = 1000;  // a stranger's configuration may state any number
  if (names.empty() || grid.columns < 1 || std::max(grid.rows, grid.columns) > kMost) return rows;
  const auto classes = static_cast<int64_t>(names.size());
  const auto name_at = [&](int64_t cell) {
    return names[static_cast<size_t>(class_of_cell(cell, grid, classes))];
  };
  for (int64_t row = 0; row < grid.rows; ++row) {
    const std::string first = name_at(row * grid.columns);
    const std::string last = name_at((row + 1) * grid.columns - 1);
    rows.push_back(first == last ? first : first + " \u2013 " + last);
  }
  return rows;
}

namespace {

constexpr int kQuality = 80;
constexpr std::string_view kPngSignature = "\x89PNG";
constexpr int64_t kMostDecoded = 110'000'000;  // bytes; a stranger's picture may state any size

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
  const auto bytes = content_of(file, kMostOfPicture);
  if (!bytes || !starts_with(*bytes, kPngSignature)) return std::nullopt;  // a run writes no others
  try {
    const ImageInfo info = image_info(*bytes, file.string());
    if (info.width * info.height * info.channels > kMostDecoded) return std::nullopt;
    const Image image = decode_image(*bytes, file.string());
    if (std::max(image.width, image.height) <= limits.side && bytes->size() <= limits.bytes)
      return "data:image/png;base64," + base64(*bytes);
    return "data:image/webp;base64," + base64(small_webp(image, limits));
  } catch (const UserError&) {
    return std::nullopt;
  }
}

// What the frames of a time-lapse may take together is 1.9 MB before base64.
constexpr size_t kMostFrames = 24;
constexpr PictureLimits kFrame = {.side = 512, .bytes = 79'000};
constexpr PictureLimits kStill = {.side = 1600, .bytes = 450'000};

// The names of a grid's rows as a column of the rows' heights, "" without classes.
std::string rows_html(const RunRecord& run) {
  const auto rows = parse_int(setting(run, "samples.rows"));
  const auto columns = parse_int(setting(run, "samples.columns"));
  if (!rows || !columns) return "";
  std::string html;
  for (const std::string& name : row_names({*rows, *columns}, run.classes))
    html += "<span>" + escape_html(name) + "</span>";
  return html.empty() ? "" : "<div class=\"rows\">" + html + "</div>";
}

std::string still(const RunRecord& run,
                  EmbeddedPictures& store,
                  const std::string& file,
                  const std::string& title,
                  const std::string& caption) {
  return grid_figure(
      run, title, caption, store.url_of(folder_in(run.folder, "samples") / file, kStill));
}

struct Frames {
  std::string html, last;  // "200 kimg"
  size_t count = 0;
};

// Without the script the last one is seen, which is the latest picture and as large as that.
Frames frames_of(const std::vector<SampleFile>& files, EmbeddedPictures& store) {
  Frames frames;
  std::string last;
  for (const SampleFile& file : evenly_chosen(files, kMostFrames)) {
    const bool is_last = file.path == files.back().path;
    const auto url = store.url_of(file.path, is_last ? kStill : kFrame);
    if (!url) continue;
    if (!last.empty()) frames.html += "<img hidden" + last;
    frames.last = shortest(file.kimg) + " kimg";
    last = fmt::format(" alt=\"{}\" src=\"{}\">\n", frames.last, *url);
    ++frames.count;
  }
  if (!last.empty()) frames.html += "<img" + last;
  return frames;
}

std::string time_lapse(const RunRecord& run, EmbeddedPictures& store) {
  const std::vector<SampleFile> files = sample_files(run.folder);
  const Frames frames = frames_of(files, store);
  if (frames.count < 2) return "";
  const size_t left_out = files.size() - frames.count;
  return fmt::format(
      "<figure class=\"lapse\"><div class=\"grid-box\">{}<div class=\"frames\">\n{}</div></div>\n"
      "<input type=\"range\" aria-label=\"kimg\" min=\"0\" max=\"{}\" value=\"{}\" hidden>\n"
      "<figcaption><b>Generated pictures at <span class=\"place\">{}</span></b>, of the same "
      "latents "
      "all through training, by the averaged generator: {} grids{}.</figcaption></figure>\n",
      rows_html(run),
      frames.html,
      frames.count - 1,
      frames.count - 1,
      frames.last,
      frames.count,
      left_out == 0 ? ""
                    : fmt::format("; {} more are in the folder samples, left out here", left_out));
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
  for (const fs::path& path : paths_in(folder_in(run_folder, "samples"), "fakes", ".png")) {
    const std::string name = path.filename();
    const auto kimg = name == "fakes_init.png" ? 0 : kimg_in_name(name);
    if (kimg) files.push_back({*kimg, path});
  }
  std::ranges::sort(files, [](const SampleFile& a, const SampleFile& b) {
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

std::string grid_figure(const RunRecord& run,
                        const std::string& name,
                        const std::string& caption_html,
                        const std::optional<std::string>& url) {
  if (!url) return "";
  return fmt::format(
      "<figure><div class=\"grid-box\">{}<div class=\"frames\"><img alt=\"{}\" src=\"{}\"></div>"
      "</div><figcaption><b>{}</b> {}</figcaption></figure>\n",
      rows_html(run),
      escape_html(name),
      *url,
      escape_html(name),
      caption_html);
}

std::string picture_section(const RunRecord& run, EmbeddedPictures& store) {
  std::string html = time_lapse(run, store);
  if (html.empty()) {
    html = still(run,
                 store,
                 "latest.png",
                 "Generated pictures",
                 "of the same latents all through training, by the averaged generator.");
  }
  html += still(run, store, "reals.png", "Real pictures", "as the discriminator sees them.");
  return html_section("Pictures", html_cells(html));
}

}  // namespace gantrain

// SPDX-License-Identifier: Apache-2.0
#include "curation/inspection.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>

#include "data/containers/source.h"
#include "data/labels/labels.h"
#include "data/load/threads.h"
#include "data/pictures/dataset.h"
#include "image/resize.h"
#include "util/error.h"
#include "util/file.h"
#include "util/hash.h"
#include "util/system.h"
#include "util/text.h"

namespace gantrain {

namespace {

// Whether a PNG has the chunk before its pixels. Chunks: length, name, content, checksum.
bool has_chunk(std::string_view png, std::string_view name) {
  size_t at = 8;
  while (at + 12 <= png.size()) {
    const std::string_view here = png.substr(at + 4, 4);
    if (here == name) return true;
    if (here == "IDAT") return false;
    at += 12 + BigEndian(png).u32(at);
  }
  return false;
}

// The header is the first chunk (PNG specification, 11.2.2).
PictureForm png_form(std::string_view bytes) {
  enum Color : uint32_t { kGrey = 0, kPalette = 3, kGreyAlpha = 4, kRgbAlpha = 6 };
  const BigEndian header(bytes);
  const uint64_t color = header.u8(25);
  return {.format = "PNG",
          .bits = static_cast<int64_t>(header.u8(24)),
          .grey = color == kGrey || color == kGreyAlpha,
          .palette = color == kPalette,
          .alpha = color == kGreyAlpha || color == kRgbAlpha || has_chunk(bytes, "tRNS")};
}

// The number of components stands in the frame header, whose markers are C0 to CF but for C4, C8
// and CC (ITU-T T.81, B.2.2).
PictureForm jpeg_form(std::string_view bytes) {
  const BigEndian numbers(bytes);
  PictureForm form{.format = "JPEG"};
  size_t at = 2;
  while (at + 10 <= bytes.size() && numbers.u8(at) == 0xff) {
    const uint64_t marker = numbers.u8(at + 1);
    if (marker == 0xff) {  // a fill byte
      at += 1;
      continue;
    }
    const bool frame =
        marker >= 0xc0 && marker <= 0xcf && marker != 0xc4 && marker != 0xc8 && marker != 0xcc;
    if (frame) {
      form.bits = static_cast<int64_t>(numbers.u8(at + 4));
      form.grey = numbers.u8(at + 9) == 1;
      form.cmyk = numbers.u8(at + 9) == 4;
      return form;
    }
    at += 2 + numbers.u16(at + 2);
  }
  return form;
}

// Alpha is a flag of the header of the extended and of the lossless format (WebP container
// specification).
PictureForm webp_form(std::string_view bytes) {
  PictureForm form{.format = "WebP"};
  const LittleEndian numbers(bytes);
  const std::string_view kind = numbers.part(12, 4);
  if (kind == "VP8X") form.alpha = (numbers.u8(20) & 0x10) != 0;
  if (kind == "VP8L") form.alpha = (numbers.u8(24) & 0x10) != 0;
  return form;
}

// Levels of 255. JPEG at quality 30 moves the mean of a cell by 1 to 3 levels, and a picture's
// quarter by less than one; another motif moves single cells by 50 and more.
constexpr float kQuarterDiffers = 3;
constexpr float kMostOnAverage = 5, kLeastOnAverage = 1;
constexpr float kMostInACell = 48, kLeastInACell = 6;
constexpr float kAspectDiffers = 0.06F;

constexpr float kBucket = 2 * kQuarterDiffers;  // so that neighbours lie in one of two buckets

float luma(const uint8_t* rgb) { return 0.299F * rgb[0] + 0.587F * rgb[1] + 0.114F * rgb[2]; }

int64_t bucket_of(float quarter) { return static_cast<int64_t>(std::floor(quarter / kBucket)); }

uint64_t key_of(const std::array<int64_t, 4>& buckets) {
  uint64_t key = 0;
  for (const int64_t bucket : buckets) key = key << 8 | static_cast<uint64_t>(bucket & 0xff);
  return key;
}

// The keys of all buckets that may hold a quarter within kQuarterDiffers of this one's.
std::vector<uint64_t> keys_near(const Look& look) {
  std::vector<uint64_t> keys;
  for (unsigned choice = 0; choice < 16; ++choice) {
    std::array<int64_t, 4> buckets{};
    for (unsigned q = 0; q < 4; ++q) {
      const float shift = (choice >> q & 1U) != 0 ? kQuarterDiffers : -kQuarterDiffers;
      buckets[q] = bucket_of(look.quarters[q] + shift);
    }
    keys.push_back(key_of(buckets));
  }
  std::ranges::sort(keys);
  keys.erase(std::unique(keys.begin(), keys.end()), keys.end());
  return keys;
}

void measure(Look& look) {
  constexpr int64_t side = Look::kSide;
  constexpr double cells_of_quarter = side * side / 4.0;
  double sums[3] = {}, squares = 0;
  for (int64_t cell = 0; cell < side * side; ++cell) {
    const uint8_t* rgb = &look.cells[static_cast<size_t>(cell) * 3];
    const bool low = cell / side >= side / 2, right = cell % side >= side / 2;
    look.quarters[(low ? 2U : 0U) + (right ? 1U : 0U)] += luma(rgb) / cells_of_quarter;
    for (int c = 0; c < 3; ++c) {
      sums[c] += rgb[c];
      squares += double{1} * rgb[c] * rgb[c];
    }
  }
  double variance = squares / (3 * side * side);
  for (const double sum : sums) variance -= sum * sum / (3.0 * side * side * side * side);
  look.contrast = static_cast<float>(std::sqrt(std::max(0.0, variance)));
}

constexpr int64_t kMostShown = 100;

// One picture with small ones of up to 100 others, spread evenly over a data set in its order, so
// that pictures of one class lie together.
class ContactSheet {
 public:
  static constexpr int64_t kCell = 96;  // pixels a side

  explicit ContactSheet(int64_t pictures) : shown_(evenly_spaced(pictures, kMostShown)) {
    const auto count = static_cast<int64_t>(shown_.size());
    columns_ = std::max<int64_t>(1, std::llround(std::ceil(std::sqrt(static_cast<double>(count)))));
    const int64_t rows = std::max<int64_t>(1, (count + columns_ - 1) / columns_);
    sheet_ = {.width = columns_ * kCell, .height = rows * kCell, .channels = 3, .pixels = {}};
    sheet_.pixels.assign(static_cast<size_t>(sheet_.width * sheet_.height * 3), 255);
  }

  // Whether the picture is on the sheet. Any thread may ask.
  bool shows(int64_t picture) const {
    return std::binary_search(shown_.begin(), shown_.end(), picture);
  }

  // Returns the small picture: RGB, kCell pixels a side, on white.
  static Image small(const Image& image) {
    DataOptions options;
    options.resolution = square_of(kCell);
    options.fit = Fit::kPad;
    return prepare(image, 3, options);
  }

  void add(int64_t picture, const Image& small) {
    const auto at = std::lower_bound(shown_.begin(), shown_.end(), picture) - shown_.begin();
    const int64_t left = at % columns_ * kCell, top = at / columns_ * kCell;
    for (int64_t row = 0; row < kCell; ++row) {
      uint8_t* out = sheet_.pixels.data() + ((top + row) * sheet_.width + left) * 3;
      std::memcpy(out, small.pixels.data() + row * kCell * 3, static_cast<size_t>(kCell) * 3);
    }
  }

  // Writes a PNG. Throws UserError(kDisk).
  void write(const std::string& path) const { write_file(path, encode_png(sheet_)); }

 private:
  std::vector<int64_t> shown_;  // pictures, ascending
  int64_t columns_;
  Image sheet_;
};

// What is found out about one picture.
struct Seen {
  std::string bad = "";  // why it cannot be read; then nothing else is known
  int64_t bytes = 0;
  PictureForm form;
  ImageInfo info;
  Size size;            // as it is seen, after an EXIF rotation
  std::string content;  // hash of the file
  Look look;
  std::optional<Image> small;  // for the contact sheet
};

Seen see(const Source& source, size_t file, bool on_sheet) {
  thread_local std::string bytes;
  thread_local Image image;
  Seen seen;
  try {
    source.read(file, bytes);
    seen.info = source.look(file, /*headers_only=*/true);
    if (source.holds_pixels()) {
      source.decode(file, {}, bytes, image);
      seen.size = {image.width, image.height};
      seen.form.grey = image.channels <= 2;
      seen.form.bits = seen.info.depth;
    } else {
      seen.form = form_of(bytes);
      // The smallest picture from which the small one and the look can be made.
      decode_image(bytes, source.name(file), {.least = square_of(ContactSheet::kCell)}, image);
      const ImageInfo whole = image_info(bytes, source.name(file));
      seen.size = {whole.width, whole.height};
    }
  } catch (const UserError& error) {
    if (error.code() != Exit::kInput) throw;
    seen.bad = error.what();
    return seen;
  }
  Digest digest;
  digest.update(bytes.data(), bytes.size());
  seen.bytes = static_cast<int64_t>(bytes.size());
  seen.content = digest.hex();
  if (seen.info.stack) seen.form.stack = seen.info.channels;
  image = to_show(std::move(image));
  seen.look = look_of(image);
  if (on_sheet) seen.small = ContactSheet::small(image);
  return seen;
}

// The forms that training changes are counted beside grey and RGB.
void count_forms(const PictureForm& form, std::map<std::string, int64_t>& forms) {
  const std::string stack = fmt::format("{} channels", form.stack);
  forms[form.stack > 0 ? stack : form.grey ? "grey" : "RGB"] += 1;
  if (form.palette) forms["palette"] += 1;
  if (form.alpha) forms["alpha"] += 1;
  if (form.cmyk) forms["CMYK"] += 1;
  if (form.bits != 8) forms[fmt::format("{} bit", form.bits)] += 1;
}

class Inspector {
 public:
  Inspector(const InspectRequest& request, const WorkCallbacks& callbacks)
      : request_(request),
        callbacks_(callbacks),
        options_(data_options(request)),
        source_(open_source(options_, callbacks.stop)),
        found_(find_pictures(*source_, options_)),
        sheet_(static_cast<int64_t>(found_.files.size())) {}

  Inspection run() {
    result_.path = request_.path;
    result_.kind = source_->kind();
    for (const auto& [ending, count] : found_.others) result_.others += count;
    result_.ignored = ignored_text(found_.others);
    name_classes();
    const bool sheet = !request_.sheet.empty();
    const auto count = static_cast<int64_t>(found_.files.size());
    const bool whole = work_in_order<Seen>(
        {.count = count, .threads = usable_cores()},
        [&](int64_t i) { return see(*source_, file_of(i), sheet && sheet_.shows(i)); },
        [&](int64_t i, Seen&& seen) {
          take(i, seen);
          callbacks_.progress(i + 1, count);
        },
        callbacks_.stop);
    result_.stopped = !whole;
    if (!whole) return std::move(result_);
    collect(copies_, result_.copies);
    collect(look_alikes_, result_.look_alikes);
    if (sheet) sheet_.write(request_.sheet);
    if (!request_.bad.empty()) write_bad_list();
    return std::move(result_);
  }

 private:
  using Groups = std::map<int64_t, std::vector<int64_t>>;  // the first picture -> its copies

  static DataOptions data_options(const InspectRequest& request) {
    DataOptions options;
    options.path = request.path;
    options.labels = request.labels;
    options.unlabelled = request.unlabelled;
    options.join = request.join;
    return options;
  }

  size_t file_of(int64_t picture) const { return found_.files[static_cast<size_t>(picture)]; }

  void name_classes() {
    const Labels& labels = found_.labels;
    for (int64_t k = 0; k < labels.vectors.length(); ++k)
      result_.attributes.push_back(attribute(labels.vectors, k));
    result_.unlabelled = labels.vectors.unlabelled();
    for (int64_t k = 0; k < labels.classes; ++k) {
      const auto at = static_cast<size_t>(k);
      result_.classes.push_back(
          {at < labels.names.size() ? labels.names[at] : std::to_string(k), 0});
    }
  }

  AttributeCount attribute(const LabelVectors& vectors, int64_t k) const {
    AttributeCount all{.name = vectors.names[static_cast<size_t>(k)]};
    int64_t count = 0;
    for (int64_t i = 0; i < static_cast<int64_t>(found_.files.size()); ++i) {
      if (!vectors.is_given(i, k)) continue;
      const double value = static_cast<double>(vectors.of(i)[k]);
      all.least = count == 0 ? value : std::min(all.least, value);
      all.most = count == 0 ? value : std::max(all.most, value);
      all.mean += value;
      all.yes_or_no &= value == 0 || value == 1;
      count += 1;
    }
    all.missing = static_cast<int64_t>(found_.files.size()) - count;
    all.mean /= static_cast<double>(std::max<int64_t>(count, 1));
    return all;
  }

  void take(int64_t picture, const Seen& seen) {
    if (!seen.bad.empty()) {
      result_.bad.push_back({source_->name(file_of(picture)), seen.bad});
      return;
    }
    result_.pictures += 1;
    result_.bytes += seen.bytes;
    result_.formats[seen.form.format] += 1;
    count_forms(seen.form, result_.forms);
    result_.depths[seen.info.depth] += 1;
    result_.channels[seen.info.channels] += 1;
    result_.sizes[{seen.size.width, seen.size.height}] += 1;
    if (!result_.classes.empty()) {
      const int64_t label = found_.labels.of[static_cast<size_t>(picture)];
      result_.classes[static_cast<size_t>(label)].pictures += 1;
    }
    if (seen.small) sheet_.add(picture, *seen.small);
    const auto [first, is_new] = by_content_.emplace(seen.content, picture);
    if (!is_new) {
      copies_[first->second].push_back(picture);
    } else if (const auto alike = looks_.add(picture, seen.look)) {
      look_alikes_[*alike].push_back(picture);
    }
  }

  void collect(const Groups& groups, std::vector<CopyGroup>& named) const {
    for (const auto& [first, others] : groups) {
      CopyGroup group = {source_->files()[file_of(first)]};
      for (const int64_t other : others) group.push_back(source_->files()[file_of(other)]);
      named.push_back(std::move(group));
    }
  }

  void write_bad_list() const {
    std::string text;
    for (const BadFile& bad : result_.bad) text += bad.reason + "\n";
    write_file(request_.bad, text);
  }

  const InspectRequest& request_;
  const WorkCallbacks& callbacks_;
  DataOptions options_;
  std::unique_ptr<Source> source_;
  FoundPictures found_;
  ContactSheet sheet_;
  std::unordered_map<std::string, int64_t> by_content_;  // hash -> the first such picture
  LookAlikes looks_;
  Groups copies_;
  Groups look_alikes_;
  Inspection result_;
};

}  // namespace

PictureForm form_of(std::string_view bytes) {
  if (starts_with(bytes, "\x89PNG")) return png_form(bytes);
  if (starts_with(bytes, "\xff\xd8")) return jpeg_form(bytes);
  if (starts_with(bytes, "RIFF")) return webp_form(bytes);
  const bool tiff = starts_with(bytes, "II*") || starts_with(bytes, "MM");
  if (tiff || starts_with(bytes, "\x93NUMPY")) {
    const ImageInfo info = image_info(bytes, "picture");
    return {.format = tiff ? "TIFF" : "npy",
            .bits = info.depth,
            .grey = info.channels <= 2 && !info.stack,
            .alpha = !info.stack && info.channels % 2 == 0};
  }
  return {};
}

Look look_of(const Image& image) {
  const Image small = resize(image, Size{Look::kSide, Look::kSide}, Filter::kBox);
  const Image rgb = with_channels(small, 3);
  Look look;
  std::copy(rgb.pixels.begin(), rgb.pixels.end(), look.cells.begin());
  look.aspect = static_cast<float>(image.width) / static_cast<float>(image.height);
  measure(look);
  return look;
}

bool look_alike(const Look& a, const Look& b) {
  if (std::abs(std::log(a.aspect / b.aspect)) > kAspectDiffers) return false;
  for (size_t q = 0; q < a.quarters.size(); ++q) {
    if (std::abs(a.quarters[q] - b.quarters[q]) > kQuarterDiffers) return false;
  }
  const float contrast = std::min(a.contrast, b.contrast);
  const auto in_a_cell = static_cast<int>(std::clamp(contrast, kLeastInACell, kMostInACell));
  const float on_average = std::clamp(contrast / 10, kLeastOnAverage, kMostOnAverage);
  const auto most = static_cast<int>(on_average * static_cast<float>(a.cells.size()));
  int sum = 0;
  for (size_t i = 0; i < a.cells.size(); ++i) {
    const int difference = std::abs(int{a.cells[i]} - int{b.cells[i]});
    sum += difference;
    if (difference > in_a_cell || sum > most) return false;
  }
  return true;
}

std::optional<int64_t> LookAlikes::add(int64_t picture, const Look& look) {
  for (const uint64_t key : keys_near(look)) {
    const auto found = by_cell_.find(key);
    if (found == by_cell_.end()) continue;
    for (const uint32_t at : found->second) {
      if (look_alike(firsts_[at].look, look)) return firsts_[at].picture;
    }
  }
  std::array<int64_t, 4> buckets{};
  for (size_t q = 0; q < buckets.size(); ++q) buckets[q] = bucket_of(look.quarters[q]);
  by_cell_[key_of(buckets)].push_back(static_cast<uint32_t>(firsts_.size()));
  firsts_.push_back({picture, look});
  return std::nullopt;
}

Inspection inspect_data(const InspectRequest& request, const WorkCallbacks& callbacks) {
  return Inspector(request, callbacks).run();
}

}  // namespace gantrain

// SPDX-License-Identifier: Apache-2.0
#include "curation/inspection.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "curation/picture_look.h"
#include "data/containers/source.h"
#include "data/labels/label_files.h"
#include "data/load/threads.h"
#include "data/pictures/dataset.h"
#include "image/image.h"
#include "util/error.h"
#include "util/file.h"
#include "util/hash.h"
#include "util/system.h"

namespace gantrain {

namespace {

constexpr int64_t kMostShown = 100;

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

// What is found out about one picture.
struct Seen {
  std::string bad = "";  // why it cannot be read; then nothing else is known
  int64_t bytes = 0;
  PictureForm form;
  Size size;            // as it is seen, after an EXIF rotation
  std::string content;  // hash of the file
  Look look;
  std::optional<Image> small;  // for the contact sheet
};

// The smallest picture from which the small one and the look can be made.
NeededSize needed() {
  NeededSize size;
  size.least = square_of(ContactSheet::kCell);
  return size;
}

Size seen_size(const ImageInfo& stored, const Image& decoded) {
  const bool turned = (stored.width > stored.height) != (decoded.width > decoded.height) &&
                      stored.width != stored.height;
  return turned ? Size{stored.height, stored.width} : Size{stored.width, stored.height};
}

Seen see(const Source& source, size_t file, bool on_sheet) {
  thread_local std::string bytes;
  thread_local Image image;
  Seen seen;
  try {
    source.read(file, bytes);
    if (source.holds_pixels()) {
      source.decode(file, {}, bytes, image);
      seen.size = {image.width, image.height};
      seen.form.grey = image.channels <= 2;
    } else {
      seen.form = form_of(bytes);
      decode_image(bytes, source.name(file), needed(), image);
      seen.size = seen_size(image_info(bytes, source.name(file)), image);
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
  seen.look = look_of(image);
  if (on_sheet) seen.small = ContactSheet::small(image);
  return seen;
}

// The forms that training changes are counted beside grey and RGB.
void count_forms(const PictureForm& form, std::map<std::string, int64_t>& forms) {
  forms[form.grey ? "grey" : "RGB"] += 1;
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
    result_.others = found_.others;
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
    return options;
  }

  size_t file_of(int64_t picture) const { return found_.files[static_cast<size_t>(picture)]; }

  void name_classes() {
    const Labels& labels = found_.labels;
    for (int64_t k = 0; k < labels.classes; ++k) {
      const auto at = static_cast<size_t>(k);
      result_.classes.push_back(
          {at < labels.names.size() ? labels.names[at] : std::to_string(k), 0});
    }
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

Inspection inspect_data(const InspectRequest& request, const WorkCallbacks& callbacks) {
  return Inspector(request, callbacks).run();
}

}  // namespace gantrain

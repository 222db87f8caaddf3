// SPDX-License-Identifier: Apache-2.0
#include "data/pictures/dataset.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <map>
#include <mutex>
#include <set>
#include <thread>
#include <utility>

#include "data/containers/source.h"
#include "data/labels/labels.h"
#include "data/load/threads.h"
#include "util/error.h"
#include "util/log.h"
#include "util/system.h"
#include "util/text.h"
#include "util/wording.h"

namespace gantrain {

namespace {

// Channels that both the picture and the result have: resampling more would be wasted work.
int64_t common_channels(int64_t a, int64_t b) {
  const int64_t colors = std::min(a, b) >= 3 ? 3 : 1;
  const bool alpha = a % 2 == 0 && b % 2 == 0;
  return colors + (alpha ? 1 : 0);
}

Image fitted(const Image& image, const DataOptions& options) {
  const Size& wanted = options.resolution;
  if (options.fit == Fit::kStretch) return resize(image, wanted, options.filter);
  if (options.fit == Fit::kCrop) {
    const Part part = central_part({image.width, image.height}, wanted);
    const Box box = {.left = static_cast<double>(part.left),
                     .top = static_cast<double>(part.top),
                     .width = static_cast<double>(part.size.width),
                     .height = static_cast<double>(part.size.height)};
    return resize(image, box, wanted, options.filter);
  }
  const double scale =
      std::min(static_cast<double>(wanted.width) / static_cast<double>(image.width),
               static_cast<double>(wanted.height) / static_cast<double>(image.height));
  const auto scaled = [&](int64_t length, int64_t most) {
    return std::clamp<int64_t>(std::llround(scale * static_cast<double>(length)), 1, most);
  };
  const Size size = {scaled(image.width, wanted.width), scaled(image.height, wanted.height)};
  return padded(resize(image, size, options.filter), wanted.width, wanted.height);
}

bool has_size(const Image& image, const Size& size) {
  return image.width == size.width && image.height == size.height;
}

// How much of a JPEG must be decoded so that prepare() still starts from pixels that are at most
// half as wide as its own; with scaled_jpeg=off the whole picture.
NeededSize needed_size(const DataOptions& options, int64_t depth) {
  if (options.scaled_jpeg == ScaledJpeg::kOff) return {.depth = depth};
  const Size twice{2 * options.resolution.width, 2 * options.resolution.height};
  if (options.fit == Fit::kPad) return {.least = twice, .both = false, .depth = depth};
  return {.least = twice,
          .crop = options.fit == Fit::kCrop ? options.resolution : Size{},
          .depth = depth};
}

constexpr int64_t kVerifiedByDefault = 2000;
constexpr int64_t kLookedAtForSizes = 500;
constexpr size_t kNamedAtMost = 100;

class PictureSet final : public Dataset {
 public:
  PictureSet(std::unique_ptr<Source> source, FoundPictures found, const DataOptions& options)
      : source_(std::move(source)), found_(std::move(found)), options_(options) {}

  int64_t size() const override { return static_cast<int64_t>(found_.files.size()); }
  int64_t channels() const override { return values_.channels; }
  int64_t depth() const override { return values_.depth; }
  bool stack() const override { return stack_; }
  int64_t classes() const override { return found_.labels.classes; }
  int64_t label(int64_t index) const override {
    return classes() == 0 ? 0 : found_.labels.of[static_cast<size_t>(index)];
  }
  const LabelVectors& vectors() const override { return found_.labels.vectors; }
  std::string class_name(int64_t label) const override {
    const std::vector<std::string>& names = found_.labels.names;
    return names.empty() ? Dataset::class_name(label) : names.at(static_cast<size_t>(label));
  }

  std::optional<PictureFile> picture_file(int64_t index) const override {
    return PictureFile{source_.get(), file_of(index)};
  }

  std::string description() const override {
    const std::string kind = source_->kind();
    std::string text = fmt::format("{}, {}{}{}{} {}x{}x{}",
                                   options_.path,
                                   kind,
                                   kind.empty() ? "" : ", ",
                                   counted(size(), "picture"),
                                   own_sizes(),
                                   options_.resolution.width,
                                   options_.resolution.height,
                                   channels());
    text += grey_text() + depth_text();
    if (alpha_ > 0 && channels() % 2 != 0)
      text += fmt::format(", alpha of {} laid over white (data.channels=4 keeps it)",
                          counted_of(alpha_));
    if (classes() > 0) text += ", " + counted(classes(), "class");
    if (vectors().length() > 0)
      text += fmt::format(", labels of {}", counted(vectors().length(), "number"));
    if (skipped_ > 0) text += fmt::format(", {} bad left out", skipped_);
    if (!found_.others.empty()) text += ", " + ignored_text(found_.others);
    return text;
  }

  std::vector<std::string> warnings() const override {
    std::vector<std::string> all;
    const std::string enlarged = enlargement_warning(sizes_, options_);
    if (!enlarged.empty()) all.push_back(enlarged);
    if (size() == 1)
      all.push_back(
          fmt::format("{}: one picture in all, which networks learn by heart", options_.path));
    return all;
  }

  std::vector<std::string> left_out() const override { return left_out_; }

  bool has_stand_ins() const override { return options_.on_bad == OnBad::kSkip; }

  Image load(int64_t index) const override {
    LoadBuffers buffers;
    const bool decoded_alone = view(index, buffers).pixels == buffers.decoded.pixels.data();
    return std::move(decoded_alone ? buffers.decoded : buffers.prepared);
  }

  ImageView view(int64_t index, LoadBuffers& buffers) const override {
    constexpr int kMostInARow = 100;  // so many are not broken by chance
    int in_a_row = 0;
    for (int64_t candidate = index; candidate >= 0; candidate = stand_in(index)) {
      if (turned_bad(candidate)) continue;
      try {
        return load_or_wait(candidate, buffers);
      } catch (const UserError& e) {
        if (is_away()) throw;
        if (options_.on_bad == OnBad::kFail)
          throw UserError(e.code(),
                          fmt::format("{}; mend it, or leave such pictures out, with which a run "
                                      "goes on: --set data.on_bad=skip",
                                      e.what()));
        if (++in_a_row == kMostInARow)
          fail(Exit::kInput, "{} in a row cannot be read any more: {}", in_a_row, e.what());
        remember_bad(candidate, e.what());
      }
    }
    fail(Exit::kInput, "{}: none of the pictures can be read any more", options_.path);
  }

  // Looks at pictures, drops the bad ones (or throws), and decides the channels.
  void verify(const StopCheck& stop) {
    const bool all = options_.verify == Verify::kAll;
    const bool headers_only = options_.verify == Verify::kNone;
    const auto pictures = evenly_spaced(size(), all ? size() : kVerifiedByDefault);
    const double start = monotonic_seconds();
    const int64_t stack = options_.channels ? 0 : first_stack();
    const auto look = [&](int64_t index) {
      const ImageInfo info = source_->look(file_of(index), headers_only);
      check_alike(info, stack, index);
      return info;
    };
    const ScanResult scan = scan_pictures(pictures, look, options_.on_bad == OnBad::kFail, stop);
    const int64_t found = size();
    if (!scan.bad.empty()) drop(scan.bad);
    decide_values(scan);
    alpha_ = scan.alpha;
    sizes_ = sorted_sizes(scan.sizes, size());
    const double seconds = monotonic_seconds() - start;
    if (seconds > 1)
      info("looked at {} of {} pictures in {:.1f} s", pictures.size(), found, seconds);
  }

 private:
  size_t file_of(int64_t index) const { return found_.files[static_cast<size_t>(index)]; }

  // Channels of the first picture that can be read, where it is a stack; else 0. All ranks find the
  // same.
  int64_t first_stack() const {
    for (int64_t index = 0; index < size(); ++index) {
      try {
        const ImageInfo info = source_->look(file_of(index), /*headers_only=*/true);
        return info.stack ? info.channels : 0;
      } catch (const UserError& error) {
        if (error.code() != Exit::kInput) throw;
      }
    }
    return 0;
  }

  // Throws UserError(kInput) where a picture has not the channels asked for, or of the first stack.
  void check_alike(const ImageInfo& info, int64_t stack, int64_t index) const {
    const std::string& name = source_->name(file_of(index));
    if (options_.channels) return check_channels(info, *options_.channels, name);
    if (info.stack ? info.channels == stack : stack == 0) return;
    fail(Exit::kInput,
         "{}: {}, the first picture has {}; all need as many",
         name,
         counted(info.channels, "channel"),
         stack > 0 ? std::to_string(stack) : "1 or 3");
  }

  void decide_values(const ScanResult& scan) {
    const bool wide = scan.wide > 0;
    values_.channels = options_.channels.value_or(scan.stack > 0 ? scan.stack : scan.color ? 3 : 1);
    values_.depth = options_.depth == Depth::kAuto ? (wide ? 16 : 8)
                    : options_.depth == Depth::k16 ? 16
                                                   : 8;
    stack_ = scan.stack > 0 || values_.channels > kMostColors;
    wide_ = scan.wide;
    narrow_ = scan.narrow;
  }

  bool all_looked_at() const { return sizes_.looked_at() == sizes_.pictures; }

  // "3", or "3 of the 2000 looked at".
  std::string counted_of(int64_t count) const {
    return all_looked_at() ? std::to_string(count)
                           : fmt::format("{} of the {} looked at", count, sizes_.looked_at());
  }

  // Whether one channel was chosen although there may be pictures in colour.
  bool guessed_grey() const {
    return !options_.channels && values_.channels == 1 && !source_->holds_pixels() &&
           !all_looked_at();
  }

  std::string grey_text() const {
    if (!guessed_grey()) return "";
    return fmt::format(", grey as the {} looked at are (data.channels=3 keeps colour)",
                       sizes_.looked_at());
  }

  // What becomes of pictures of other depths.
  std::string depth_text() const {
    if (values_.depth == 8 && wide_ > 0)
      return fmt::format(", 16 bits of {} rounded to 8 (data.depth=16 keeps them)",
                         counted_of(wide_));
    if (values_.depth != 16) return "";
    return narrow_ == 0
               ? ", 16 bits"
               : fmt::format(", 16 bits, {} of 8 bits widened (v to 257 v)", counted_of(narrow_));
  }

  // " of 100x80, trained at" where they have another size than that.
  std::string own_sizes() const {
    const bool as_they_are =
        sizes_.counts.size() == 1 && sizes_.counts.front().size == options_.resolution;
    if (as_they_are || sizes_.counts.empty()) return ",";
    return fmt::format(" of {}, trained at", sizes_text(sizes_));
  }

  // Whether what was opened is not there at present: a mount that comes back, a folder that moves.
  bool is_away() const { return was_there_ && !is_there(); }
  bool is_there() const {
    std::error_code error;
    return std::filesystem::exists(options_.path, error);
  }

  // No picture is broken because the data is away, which is waited for.
  ImageView load_or_wait(int64_t index, LoadBuffers& buffers) const {
    constexpr double kPatience = 20;
    const double end = monotonic_seconds() + kPatience;
    for (bool away = false;;) {
      try {
        return load_or_fail(index, buffers);
      } catch (const UserError&) {
        const bool before = std::exchange(away, is_away());
        if (!before && !away) throw;
      }
      const std::string text = fmt::format("{}: is not there any more", options_.path);
      if (monotonic_seconds() > end) fail(Exit::kInput, "{}", text);
      if (!told_of_away_.exchange(true)) warn("{}; waiting for it", text);
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
    }
  }

  ImageView load_or_fail(int64_t index, LoadBuffers& buffers) const {
    const Image& image = load_prepared(*source_, file_of(index), values_, options_, buffers);
    if (buffers.decoded.channels >= 3 && guessed_grey()) tell_of_lost_color(index);
    return view_of(image);
  }

  // Once: the first picture says what there is to know.
  void tell_of_lost_color(int64_t index) const {
    if (told_of_color_.exchange(true)) return;
    warn(
        "{}: a picture in colour becomes grey, since the {} of {} that were looked at are grey; "
        "data.channels=3 keeps colour, in a new run",
        source_->name(file_of(index)),
        sizes_.looked_at(),
        sizes_.pictures);
  }

  // That of find_stand_in(), which looks at all pictures, remembered as long as it can be read.
  int64_t stand_in(int64_t index) const {
    {
      const std::lock_guard lock(mutex_);
      const auto known = stand_ins_.find(index);
      if (known != stand_ins_.end() && turned_bad_.count(known->second) == 0) return known->second;
    }
    const int64_t found = find_stand_in(index);
    const std::lock_guard lock(mutex_);
    return stand_ins_[index] = found;
  }

  // The next readable picture of the same label, or the first of those with the nearest vector; -1:
  // there is none.
  int64_t find_stand_in(int64_t index) const {
    const LabelVectors& all = vectors();
    int64_t best = -1;
    double nearest = 0;
    for (int64_t step = 1; step < size(); ++step) {
      const int64_t candidate = (index + step) % size();
      if (label(candidate) != label(index) || turned_bad(candidate)) continue;
      double distance = 0;
      for (int64_t k = 0; k < all.length(); ++k)
        distance += std::pow(static_cast<double>(all.of(candidate)[k] - all.of(index)[k]), 2);
      if (best >= 0 && distance >= nearest) continue;
      best = candidate;
      nearest = distance;
      if (distance == 0) break;
    }
    return best;
  }

  bool turned_bad(int64_t index) const {
    const std::lock_guard lock(mutex_);
    return turned_bad_.count(index) > 0;
  }

  void remember_bad(int64_t index, const char* reason) const {
    const std::lock_guard lock(mutex_);
    if (turned_bad_.insert(index).second) warn("{}; the next picture stands in for it", reason);
  }

  void drop(const std::vector<BadPicture>& bad) {
    if (options_.on_bad == OnBad::kFail) {
      fail(Exit::kInput,
           "{}{}; mend or remove {}, or leave such pictures out: --set data.on_bad=skip",
           bad.front().reason,
           bad.size() > 1 ? fmt::format(" (and {} more like it)", bad.size() - 1) : "",
           bad.size() > 1 ? "them" : "it");
    }
    if (bad.size() == found_.files.size()) {
      fail(Exit::kInput,
           "{}: {}, and none can be read; the first: {}",
           options_.path,
           counted(static_cast<int64_t>(bad.size()), "picture"),
           bad.front().reason);
    }
    for (const BadPicture& one : bad)
      left_out_.push_back(valid_text(source_->files()[file_of(one.picture)]));
    leave_out(bad);
    skipped_ = static_cast<int64_t>(bad.size());
    warn("{} left out (data.on_bad=skip):", counted(skipped_, "picture"));
    for (size_t i = 0; i < std::min(bad.size(), kNamedAtMost); ++i) warn("  {}", bad[i].reason);
    if (bad.size() > kNamedAtMost) {
      warn("  and {} more: {} data inspect {} lists them all",
           bad.size() - kNamedAtMost,
           program(),
           shell_quote(options_.path));
    }
  }

  void leave_out(const std::vector<BadPicture>& bad) {
    FoundPictures good{.files = {}, .labels = {}, .others = found_.others};
    std::vector<int64_t> kept;
    auto next = bad.begin();
    for (int64_t index = 0; index < size(); ++index) {
      if (next != bad.end() && next->picture == index) {
        ++next;
        continue;
      }
      good.files.push_back(file_of(index));
      kept.push_back(index);
    }
    good.labels = found_.labels.of_pictures(kept);
    found_ = std::move(good);
  }

  std::unique_ptr<Source> source_;
  FoundPictures found_;
  DataOptions options_;
  bool was_there_ = is_there();  // as one path
  PictureValues values_;
  bool stack_ = false;
  int64_t wide_ = 0;    // pictures that were looked at and have 16 bits
  int64_t narrow_ = 0;  // those of 8 bits
  int64_t skipped_ = 0;
  std::vector<std::string> left_out_;  // names of those
  int64_t alpha_ = 0;                  // pictures that were looked at and have alpha
  PictureSizes sizes_;                 // of those that were looked at
  mutable std::atomic<bool> told_of_color_ = false, told_of_away_ = false;
  mutable std::mutex mutex_;
  mutable std::set<int64_t> turned_bad_;
  mutable std::map<int64_t, int64_t> stand_ins_;  // of those
};

}  // namespace

bool is_prepared(const Image& image, int64_t channels, const DataOptions& options) {
  return image.channels == channels && has_size(image, options.resolution);
}

Image prepare(const Image& image, int64_t channels, const DataOptions& options) {
  const bool resized = !has_size(image, options.resolution);
  if (image.stack) return resized ? fitted(image, options) : image;
  const int64_t common = common_channels(image.channels, channels);
  if (image.channels == common && resized) return with_channels(fitted(image, options), channels);
  Image same = with_channels(image, common);
  if (resized) same = fitted(same, options);
  return with_channels(std::move(same), channels);
}

const Image& load_prepared(const Source& source,
                           size_t file,
                           const PictureValues& values,
                           const DataOptions& options,
                           LoadBuffers& buffers) {
  Image& decoded = buffers.decoded;
  source.decode(file, needed_size(options, values.depth), buffers.file, decoded);
  if (decoded.depth != values.depth) decoded = in_depth(std::move(decoded), values.depth);
  check_channels({decoded.width, decoded.height, decoded.channels, decoded.depth, decoded.stack},
                 values.channels,
                 source.name(file));
  if (is_prepared(decoded, values.channels, options)) return decoded;
  return buffers.prepared = prepare(decoded, values.channels, options);
}

const LabelVectors& Dataset::vectors() const {
  static const LabelVectors none;
  return none;
}

ImageView Dataset::view(int64_t index, LoadBuffers& buffers) const {
  buffers.prepared = load(index);
  return view_of(buffers.prepared);
}

namespace {

// Whether the pictures are computed. Throws UserError(kInput) for those that are unknown.
bool is_built_in(const std::string& path) {
  if (path == "synth:shapes" || path == kAttributeShapes) return true;
  if (starts_with(path, "synth:")) {
    fail(Exit::kInput,
         "{}: no such built-in data; there are synth:shapes and synth:shapes-attributes",
         path);
  }
  return false;
}

}  // namespace

PictureSizes look_at_sizes(const DataOptions& options) {
  if (is_built_in(options.path)) return {};
  DataOptions plain = options;
  plain.labels = "none";
  const auto source = open_source(plain);
  const FoundPictures found = find_pictures(*source, plain);
  const auto count = static_cast<int64_t>(found.files.size());
  const auto look = [&](int64_t index) {
    return source->look(found.files[static_cast<size_t>(index)], /*headers_only=*/true);
  };
  const ScanResult scan =
      scan_pictures(evenly_spaced(count, kLookedAtForSizes), look, /*stop_at_bad=*/false, {});
  return sorted_sizes(scan.sizes, count);
}

std::shared_ptr<const Dataset> open_dataset(const DataOptions& options,
                                            const StopCheck& stop,
                                            int64_t sharers) {
  if (is_built_in(options.path)) return make_shapes(options);
  auto source = open_source(options, stop);
  FoundPictures found = find_pictures(*source, options);
  auto pictures = std::make_shared<PictureSet>(std::move(source), std::move(found), options);
  pictures->verify(stop);
  return cached(std::move(pictures), options.resolution, options.cache_mb * 1000 * 1000, sharers);
}

}  // namespace gantrain

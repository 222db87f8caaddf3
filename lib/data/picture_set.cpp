// SPDX-License-Identifier: Apache-2.0
#include "data/picture_set.h"

#include <algorithm>
#include <mutex>
#include <set>
#include <utility>

#include "data/labels.h"
#include "data/prepare.h"
#include "data/scan.h"
#include "util/error.h"
#include "util/log.h"
#include "util/text.h"
#include "util/time.h"

namespace gantrain {

namespace {

constexpr int64_t kVerifiedByDefault = 2000;
constexpr size_t kNamesInWarning = 5;
constexpr const char* kLabelFile = "dataset.json";

// The pictures of a source, before any was opened.
struct Found {
  std::vector<size_t> files;  // position in the source of each picture
  Labels labels;
  int64_t others = 0;  // files that are neither pictures nor dataset.json
};

std::string folder_of(const std::string& name) { return name.substr(0, name.rfind('/') + 1); }

// The outermost dataset.json whose folder has all pictures in it: "zip -r" keeps the folder's name.
std::optional<size_t> label_file(const Source& source,
                                 const std::vector<std::string>& pictures,
                                 const std::vector<size_t>& candidates) {
  const std::string shared = pictures.front().substr(0, common_folders(pictures));
  std::optional<size_t> best;
  for (const size_t file : candidates) {
    const std::string folder = folder_of(source.files()[file]);
    if (!starts_with(shared, folder)) continue;
    if (!best || folder.size() < folder_of(source.files()[*best]).size()) best = file;
  }
  return best;
}

// Paths in a dataset.json begin at its folder.
Labels read_labels(const Source& source, size_t file, std::vector<std::string> pictures) {
  const size_t folder = folder_of(source.files()[file]).size();
  for (std::string& picture : pictures) picture.erase(0, folder);
  std::string json;
  source.read(file, json);
  return labels_of_json(json, source.name(file), pictures);
}

Found find_pictures(const Source& source, const std::string& path) {
  Found found;
  std::vector<std::string> names;
  std::vector<size_t> label_files;
  for (size_t file = 0; file < source.files().size(); ++file) {
    const std::string& name = source.files()[file];
    if (name.substr(folder_of(name).size()) == kLabelFile) {
      label_files.push_back(file);
    } else if (is_image_name(name)) {
      found.files.push_back(file);
      names.push_back(name);
    } else {
      ++found.others;
    }
  }
  if (names.empty()) {
    fail(Exit::kInput,
         "{}: no pictures in it; --data takes a folder or zip of .png, .jpg, .jpeg, .webp{}",
         path,
         found.others > 0 ? fmt::format("; {} other files", found.others) : "");
  }
  const auto labels = label_file(source, names, label_files);
  found.others += static_cast<int64_t>(label_files.size()) - (labels ? 1 : 0);
  found.labels = labels ? read_labels(source, *labels, names) : labels_of_folders(names);
  return found;
}

class PictureSet final : public Dataset {
 public:
  PictureSet(std::unique_ptr<Source> source, Found found, const DataOptions& options)
      : source_(std::move(source)), found_(std::move(found)), options_(options) {}

  int64_t size() const override { return static_cast<int64_t>(found_.files.size()); }
  int64_t channels() const override { return channels_; }
  int64_t classes() const override { return found_.labels.classes; }
  int64_t label(int64_t index) const override {
    return classes() == 0 ? 0 : found_.labels.of[static_cast<size_t>(index)];
  }

  std::string description() const override {
    std::string text = fmt::format("{}, {} pictures, {}x{}x{}",
                                   options_.path,
                                   size(),
                                   options_.resolution,
                                   options_.resolution,
                                   channels_);
    if (classes() > 0) text += fmt::format(", {} classes", classes());
    if (skipped_ > 0) text += fmt::format(", {} bad left out", skipped_);
    if (found_.others > 0) text += fmt::format(", {} other files ignored", found_.others);
    return text;
  }

  Image load(int64_t index) const override {
    LoadBuffers buffers;
    const bool decoded_alone = view(index, buffers).pixels == buffers.decoded.pixels.data();
    return std::move(decoded_alone ? buffers.decoded : buffers.prepared);
  }

  ImageView view(int64_t index, LoadBuffers& buffers) const override {
    if (options_.on_bad == OnBad::kFail) return load_or_fail(index, buffers);
    for (int64_t step = 0; step < size(); ++step) {
      const int64_t candidate = (index + step) % size();
      if (label(candidate) != label(index) || turned_bad(candidate)) continue;
      try {
        return load_or_fail(candidate, buffers);
      } catch (const UserError& error) {
        remember_bad(candidate, error.what());
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
    const auto look = [&](int64_t index) {
      std::string bytes;
      source_->read(file_of(index), bytes);
      const std::string name = source_->name(file_of(index));
      if (!headers_only) verify_image(bytes, name);
      return image_info(bytes, name);
    };
    const ScanResult scan = scan_pictures(pictures, look, options_.on_bad == OnBad::kFail, stop);
    if (!scan.bad.empty()) drop(scan.bad);
    channels_ = options_.channels.value_or(scan.color ? 3 : 1);
    const double seconds = monotonic_seconds() - start;
    if (seconds > 1)
      info("looked at {} of {} pictures in {:.1f} s", pictures.size(), size(), seconds);
  }

 private:
  size_t file_of(int64_t index) const { return found_.files[static_cast<size_t>(index)]; }

  ImageView load_or_fail(int64_t index, LoadBuffers& buffers) const {
    const size_t file = file_of(index);
    source_->read(file, buffers.file);
    Image& decoded = buffers.decoded;
    decode_image(buffers.file, source_->name(file), needed_size(options_), decoded);
    if (is_prepared(decoded, channels_, options_)) return view_of(decoded);
    buffers.prepared = prepare(decoded, channels_, options_);
    return view_of(buffers.prepared);
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
           "{}: none of the {} pictures can be read; the first: {}",
           options_.path,
           bad.size(),
           bad.front().reason);
    }
    std::vector<std::string> reasons;
    for (size_t i = bad.size(); i-- > 0;) {
      const int64_t at = bad[i].picture;
      found_.files.erase(found_.files.begin() + at);
      if (classes() > 0) found_.labels.of.erase(found_.labels.of.begin() + at);
      if (i < kNamesInWarning) reasons.insert(reasons.begin(), bad[i].reason);
    }
    skipped_ = static_cast<int64_t>(bad.size());
    warn("{} pictures left out (data.on_bad=skip): {}{}",
         skipped_,
         join(reasons, "; "),
         bad.size() > kNamesInWarning ? "; ..." : "");
  }

  std::unique_ptr<Source> source_;
  Found found_;
  DataOptions options_;
  int64_t channels_ = 0;
  int64_t skipped_ = 0;
  mutable std::mutex mutex_;
  mutable std::set<int64_t> turned_bad_;
};

}  // namespace

std::shared_ptr<const Dataset> make_picture_set(std::unique_ptr<Source> source,
                                                const DataOptions& options,
                                                const StopCheck& stop) {
  Found found = find_pictures(*source, options.path);
  auto pictures = std::make_shared<PictureSet>(std::move(source), std::move(found), options);
  pictures->verify(stop);
  return pictures;
}

}  // namespace gantrain

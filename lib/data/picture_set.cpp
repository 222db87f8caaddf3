// SPDX-License-Identifier: Apache-2.0
#include "data/picture_set.h"

#include <algorithm>
#include <mutex>
#include <set>
#include <utility>

#include "data/prepare.h"
#include "data/scan.h"
#include "util/error.h"
#include "util/log.h"
#include "util/text.h"
#include "util/time.h"

namespace gantrain {

namespace {

constexpr int64_t kVerifiedByDefault = 2000;
constexpr size_t kNamedAtMost = 100;

class PictureSet final : public Dataset {
 public:
  PictureSet(std::unique_ptr<Source> source, FoundPictures found, const DataOptions& options)
      : source_(std::move(source)), found_(std::move(found)), options_(options) {}

  int64_t size() const override { return static_cast<int64_t>(found_.files.size()); }
  int64_t channels() const override { return channels_; }
  int64_t classes() const override { return found_.labels.classes; }
  int64_t label(int64_t index) const override {
    return classes() == 0 ? 0 : found_.labels.of[static_cast<size_t>(index)];
  }
  std::string class_name(int64_t label) const override {
    const std::vector<std::string>& names = found_.labels.names;
    return names.empty() ? Dataset::class_name(label) : names.at(static_cast<size_t>(label));
  }

  std::optional<PictureFile> picture_file(int64_t index) const override {
    return PictureFile{source_.get(), file_of(index)};
  }

  std::string description() const override {
    const std::string kind = source_->kind();
    std::string text = fmt::format("{}, {}{}{} pictures, {}x{}x{}",
                                   options_.path,
                                   kind,
                                   kind.empty() ? "" : ", ",
                                   size(),
                                   options_.resolution.width,
                                   options_.resolution.height,
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
    const auto look = [&](int64_t index) { return source_->look(file_of(index), headers_only); };
    const ScanResult scan = scan_pictures(pictures, look, options_.on_bad == OnBad::kFail, stop);
    const int64_t found = size();
    if (!scan.bad.empty()) drop(scan.bad);
    channels_ = options_.channels.value_or(scan.color ? 3 : 1);
    const double seconds = monotonic_seconds() - start;
    if (seconds > 1)
      info("looked at {} of {} pictures in {:.1f} s", pictures.size(), found, seconds);
  }

 private:
  size_t file_of(int64_t index) const { return found_.files[static_cast<size_t>(index)]; }

  ImageView load_or_fail(int64_t index, LoadBuffers& buffers) const {
    Image& decoded = buffers.decoded;
    source_->decode(file_of(index), needed_size(options_), buffers.file, decoded);
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
    leave_out(bad);
    skipped_ = static_cast<int64_t>(bad.size());
    warn("{} pictures left out (data.on_bad=skip):", skipped_);
    for (size_t i = 0; i < std::min(bad.size(), kNamedAtMost); ++i) warn("  {}", bad[i].reason);
    if (bad.size() > kNamedAtMost) {
      warn("  and {} more: gantrain data inspect {} lists them all",
           bad.size() - kNamedAtMost,
           shell_quote(options_.path));
    }
  }

  void leave_out(const std::vector<BadPicture>& bad) {
    FoundPictures good{.files = {}, .labels = found_.labels, .others = found_.others};
    good.labels.of.clear();
    auto next = bad.begin();
    for (int64_t index = 0; index < size(); ++index) {
      if (next != bad.end() && next->picture == index) {
        ++next;
        continue;
      }
      good.files.push_back(file_of(index));
      if (classes() > 0) good.labels.of.push_back(label(index));
    }
    found_ = std::move(good);
  }

  std::unique_ptr<Source> source_;
  FoundPictures found_;
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
  FoundPictures found = find_pictures(*source, options);
  auto pictures = std::make_shared<PictureSet>(std::move(source), std::move(found), options);
  pictures->verify(stop);
  return pictures;
}

}  // namespace gantrain

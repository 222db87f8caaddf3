// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <map>
#include <utility>

#include "data/containers/formats.h"
#include "data/containers/source.h"
#include "data/pictures/dataset.h"
#include "util/error.h"
#include "util/hash.h"
#include "util/text.h"
#include "util/wording.h"

// Pictures of more channels than a file of a common format holds: several files each, and many in
// one array.

namespace gantrain {

namespace {

constexpr std::string_view kNpyMagic = "\x93NUMPY";

// "c12" -> 12.
std::optional<int64_t> channel_of(std::string_view text) {
  if (text.size() < 2 || text.size() > 3 || text[0] != 'c') return std::nullopt;
  const auto number = parse_int(std::string(text.substr(1)));
  return number && *number >= 0 ? number : std::nullopt;
}

// Which picture a file is a part of.
struct PartName {
  std::string picture;  // path of the picture, as if it were a file
  int64_t channel = 0;  // its place
};

// "a/b.c2.png" -> "a/b.png", 2.
std::optional<PartName> by_name(const std::string& path) {
  const size_t ending = path.rfind('.');
  if (ending == std::string::npos || ending == 0) return std::nullopt;
  const size_t dot = path.rfind('.', ending - 1);
  if (dot == std::string::npos) return std::nullopt;
  const auto channel = channel_of(std::string_view(path).substr(dot + 1, ending - dot - 1));
  if (!channel) return std::nullopt;
  return PartName{path.substr(0, dot) + path.substr(ending), *channel};
}

// "a/c2/b.png" -> "a/b.png", 2: the first folder of such a name.
std::optional<PartName> by_folder(const std::string& path) {
  std::vector<std::string> parts = split(path, '/');
  for (size_t i = 0; i + 1 < parts.size(); ++i) {
    const auto channel = channel_of(parts[i]);
    if (!channel) continue;
    parts.erase(parts.begin() + static_cast<int64_t>(i));
    return PartName{join(parts, "/"), *channel};
  }
  return std::nullopt;
}

using PartNameOf = std::optional<PartName> (*)(const std::string& path);

// The parts of each picture by their places.
using Parts = std::map<std::string, std::map<int64_t, size_t>>;

// Nothing where a picture of the source has no such name, which is then in `other`.
std::optional<Parts> parts_of(const Source& source, PartNameOf name_of, std::string& other) {
  Parts parts;
  for (size_t file = 0; file < source.files().size(); ++file) {
    if (!source.is_picture(file)) continue;
    const auto name = name_of(source.files()[file]);
    if (!name) {
      other = source.name(file);
      return std::nullopt;
    }
    const auto [at, alone] = parts[name->picture].try_emplace(name->channel, file);
    if (!alone) {
      fail(Exit::kInput,
           "{} and {}: both are channel {} of {}",
           source.name(at->second),
           source.name(file),
           name->channel,
           name->picture);
    }
  }
  return parts;
}

class JoinedFiles final : public Source {
 public:
  JoinedFiles(std::unique_ptr<Source> inner, const Parts& parts) : inner_(std::move(inner)) {
    kind_ = inner_->kind();
    own_folders_ = inner_->own_folders();
    std::map<std::string, std::vector<size_t>> all;
    for (const auto& [picture, places] : parts) {
      std::vector<size_t>& files = all[picture];
      for (const auto& [channel, file] : places) {
        if (channel == std::ssize(files)) {
          files.push_back(file);
          continue;
        }
        fail(Exit::kInput,
             "{}: channel {} of {} is missing before it (data.join=off: each file is a picture)",
             inner_->name(file),
             files.size(),
             picture);
      }
    }
    int64_t joined = 0;
    for (const auto& [picture, files] : all) joined += std::ssize(files);
    for (size_t file = 0; file < inner_->files().size(); ++file) {
      if (!inner_->is_picture(file)) all.try_emplace(inner_->files()[file], std::vector{file});
    }
    for (auto& [path, files] : all) {
      files_.push_back(path);
      is_picture_.push_back(parts.count(path) != 0);
      parts_.push_back(std::move(files));
    }
    kind_ += (kind_.empty() ? "" : ", ") + counted(joined, "file");
  }

  bool is_picture(size_t file) const override { return is_picture_[file]; }
  bool holds_pixels() const override { return true; }
  std::string name(size_t file) const override { return inner_->name(parts_[file].front()); }
  std::optional<FilePart> part(size_t file) const override {
    return is_picture_[file] ? std::nullopt : inner_->part(parts_[file].front());
  }

  // As .npy, which has all channels.
  void read(size_t file, std::string& bytes) const override {
    if (!is_picture_[file]) return inner_->read(parts_[file].front(), bytes);
    Image image;
    decode(file, {.depth = look(file, /*headers_only=*/true).depth}, bytes, image);
    bytes = encode_npy(image);
  }

  void decode(size_t file,
              const NeededSize& needed,
              std::string& bytes,
              Image& image) const override {
    if (!is_picture_[file]) return inner_->decode(parts_[file].front(), needed, bytes, image);
    std::string content;  // `bytes` may hold what read() has made of all of them
    std::vector<Image> channels;
    for (const size_t part : parts_[file]) {
      inner_->decode(part, needed, content, channels.emplace_back());
      channels.back() = in_depth(std::move(channels.back()), needed.depth);
      const Image &first = channels.front(), &last = channels.back();
      if (first.width != last.width || first.height != last.height)
        fail_size(file, part, last.width, last.height);
    }
    check_count(file, channels);
    image = stacked(channels);
  }

  ImageInfo look(size_t file, bool headers_only) const override {
    ImageInfo all;
    std::vector<ImageInfo> channels;
    for (const size_t part : parts_[file]) {
      const ImageInfo& one = channels.emplace_back(inner_->look(part, headers_only));
      if (channels.size() == 1) all = {one.width, one.height, 0};
      if (one.width != all.width || one.height != all.height)
        fail_size(file, part, one.width, one.height);
      all.channels += one.channels;
      all.depth = std::max(all.depth, one.depth);
    }
    check_count(file, channels);
    all.stack = is_stack(all.channels);
    return all;
  }

  FileMark mark(size_t file) const override {
    if (!is_picture_[file]) return inner_->mark(parts_[file].front());
    Digest digest;
    FileMark all;
    for (const size_t part : parts_[file]) {
      const FileMark one = inner_->mark(part);
      all.bytes += one.bytes;
      digest.update(one.hash.data(), one.hash.size());
    }
    all.hash = "xxh3:" + digest.hex();
    return all;
  }

  std::string stamp(size_t file) const override {
    std::string all;
    for (const size_t part : parts_[file]) {
      const std::string one = inner_->stamp(part);
      if (one.empty()) return "";
      all += (all.empty() ? "" : ",") + one;
    }
    return all;
  }

 private:
  [[noreturn]] void fail_size(size_t file, size_t part, int64_t width, int64_t height) const {
    fail(Exit::kInput,
         "{}: {}x{} pixels, {} has others: the channels of a picture are of one size",
         inner_->name(part),
         width,
         height,
         name(file));
  }

  template <class Channels>
  void check_count(size_t file, const Channels& channels) const {
    int64_t count = 0;
    for (const auto& one : channels) count += one.channels;
    if (count <= kMaxChannels) return;
    fail(Exit::kInput,
         "{}: {} channels in {}, 1 to {} are taken",
         name(file),
         count,
         counted(std::ssize(channels), "file"),
         kMaxChannels);
  }

  std::unique_ptr<Source> inner_;
  std::vector<bool> is_picture_;
  std::vector<std::vector<size_t>> parts_;  // files of the inner source
};

// Pictures of one array. The content of each is a .npy of its own.
class NpySet final : public Source {
 public:
  NpySet(FilePart file, const NpyForm& form)
      : file_(std::move(file)),
        header_(npy_header(form.type, {form.shape.begin() + 1, form.shape.end()})),
        first_(static_cast<int64_t>(form.start)),
        bytes_(form.values() / form.shape[0] * form.value_bytes) {
    const size_t digits = fmt::formatted_size("{}", form.shape[0] - 1);
    for (int64_t i = 0; i < form.shape[0]; ++i) files_.push_back(fmt::format("{:0{}}", i, digits));
    kind_ = ".npy";
  }

  bool is_picture(size_t) const override { return true; }
  bool holds_pixels() const override { return true; }
  std::string name(size_t file) const override {
    return fmt::format("{}: picture {}", file_.name, file);
  }
  std::string stamp(size_t) const override { return file_.file->stamp(); }

  void read(size_t file, std::string& bytes) const override {
    read_part(file_.part(first_ + static_cast<int64_t>(file) * bytes_, bytes_, name(file)), bytes);
    bytes.insert(0, header_);
  }

  ImageInfo look(size_t file, bool headers_only) const override {
    return headers_only ? image_info(header_, name(file)) : Source::look(file, false);
  }

 private:
  FilePart file_;
  std::string header_;  // of one picture
  int64_t first_;       // bytes before the first one's values
  int64_t bytes_;       // of each
};

}  // namespace

void check_channels(const ImageInfo& picture, int64_t channels, const std::string& name) {
  const bool own = picture.stack || channels > kMostColors;
  if (!own || picture.channels == channels) return;
  fail(Exit::kInput,
       "{}: {}; {} {} needed of all pictures (data.channels): the channels of a stack are neither "
       "left out nor made up",
       name,
       counted(picture.channels, "channel"),
       channels,
       channels == 1 ? "is" : "are");
}

bool is_npy(std::string_view start) { return starts_with(start, kNpyMagic); }

std::unique_ptr<Source> open_npy_set(const FilePart& file) {
  constexpr int64_t kMostHead = 8192;
  const std::string head = file.bytes(0, static_cast<size_t>(std::min(file.size, kMostHead)));
  const NpyForm form = npy_form(head, file.name);
  const std::string shape = fmt::format("({})", fmt::join(form.shape, ", "));
  if (form.shape.size() != 4) {
    fail(Exit::kInput,
         "{}: shape {}: --data FILE.npy is [N, H, W, C] or [N, C, H, W]; of single pictures name "
         "the folder",
         file.name,
         shape);
  }
  if (form.by_columns)
    fail(Exit::kInput, "{}: in Fortran's order; save numpy.ascontiguousarray() of it", file.name);
  const int64_t there = file.size - static_cast<int64_t>(form.start);
  const int64_t needed = form.values() * form.value_bytes;
  if (there != needed) {
    fail(Exit::kInput,
         "{}: broken .npy: {} bytes of values, shape {} needs {}",
         file.name,
         there,
         shape,
         needed);
  }
  return std::make_unique<NpySet>(file, form);
}

std::unique_ptr<Source> joined(std::unique_ptr<Source> source, Join join) {
  if (join == Join::kOff) return source;
  std::string other;
  const auto parts = parts_of(*source, join == Join::kFolders ? by_folder : by_name, other);
  if (join == Join::kFolders && !parts) {
    fail(Exit::kInput,
         "{}: in no folder c0, c1, ..., as data.join=folders needs of all pictures",
         other);
  }
  const bool several =
      parts && std::ranges::any_of(*parts, [](const auto& one) { return one.second.size() > 1; });
  if (!several) return source;
  return std::make_unique<JoinedFiles>(std::move(source), *parts);
}

}  // namespace gantrain

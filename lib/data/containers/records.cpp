// SPDX-License-Identifier: Apache-2.0
// Pictures that lie as records of pixels in a file, and idx, the format of MNIST: one file of
// pictures, one of labels.
#include <algorithm>
#include <array>
#include <filesystem>
#include <utility>

#include "data/containers/formats.h"
#include "util/error.h"
#include "util/text.h"
#include "util/wording.h"

namespace gantrain {

namespace {

class RecordSource final : public Source {
 public:
  // Throws UserError(kInput) where a run reaches beyond its part.
  explicit RecordSource(Records records) : records_(std::move(records)) {
    kind_ = records_.kind;
    labels_ = std::move(records_.labels);
    int64_t count = 0;
    for (const RecordRun& run : records_.runs) {
      const int64_t last = run.first + (run.count - 1) * run.stride;
      if (run.count > 0 && last + records_.form.bytes() > run.part.size) {
        fail(Exit::kInput, "{}: ends too early, the file was probably cut off", run.part.name);
      }
      begins_.push_back(count);
      count += run.count;
    }
    const size_t digits = fmt::formatted_size("{}", std::max<int64_t>(count - 1, 0));
    for (int64_t i = 0; i < count; ++i) files_.push_back(fmt::format("{:0{}}", i, digits));
  }

  bool is_picture(size_t) const override { return true; }
  bool holds_pixels() const override { return true; }

  std::string name(size_t file) const override {
    const auto [run, record] = place(file);
    return fmt::format("{}: picture {}", run.part.name, record);
  }

  std::optional<FilePart> part(size_t file) const override {
    const auto [run, record] = place(file);
    return run.part.part(run.first + record * run.stride, records_.form.bytes(), name(file));
  }

  void decode(size_t file, const NeededSize&, std::string& content, Image& image) const override {
    read(file, content);
    const RecordForm& form = records_.form;
    const ImageInfo info = form.info();
    image.width = info.width;
    image.height = info.height;
    image.channels = info.channels;
    image.pixels.assign(static_cast<size_t>(image.width * image.height * image.channels), 0);
    for (int64_t c = 0; c < form.channels; ++c) {
      for (int64_t y = 0; y < form.height; ++y) {
        const char* in = content.data() + (c * form.height + y) * form.width;
        uint8_t* out = image.pixels.data() + c +
                       ((y + form.border) * image.width + form.border) * form.channels;
        for (int64_t x = 0; x < form.width; ++x) {
          out[x * form.channels] = static_cast<uint8_t>(in[x]);
        }
      }
    }
  }

  // Pixels cannot be wrong, but the file may have become shorter.
  ImageInfo look(size_t file, bool headers_only) const override {
    std::string content;
    if (!headers_only) read(file, content);
    return records_.form.info();
  }

 private:
  struct Place {
    const RecordRun& run;
    int64_t record = 0;  // in the run
  };

  Place place(size_t file) const {
    const auto number = static_cast<int64_t>(file);
    const auto behind = std::upper_bound(begins_.begin(), begins_.end(), number);
    const auto run = static_cast<size_t>(behind - begins_.begin() - 1);
    return {records_.runs[run], number - begins_[run]};
  }

  Records records_;
  std::vector<int64_t> begins_;  // number of the first record of each run
};

}  // namespace

std::unique_ptr<Source> open_records(Records records) {
  return std::make_unique<RecordSource>(std::move(records));
}

FilePart part_of(const Source& source, size_t file) {
  std::optional<FilePart> part = source.part(file);
  if (!part) {
    fail(Exit::kInput, "{}: is packed in an archive; unpack it first", source.name(file));
  }
  return *part;
}

namespace {

constexpr char kBytes = 0x08;  // the type of the values
constexpr int64_t kMaxPictures = int64_t{1} << 25;

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
    sizes[i] = static_cast<int64_t>(BigEndian(header).u32(4 * i));
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
    fail(Exit::kInput,
         "{}: {} for {}",
         file.name,
         counted(count, "label"),
         counted(pictures, "picture"));
  }
  Labels labels;
  for (const char c : file.bytes(8, static_cast<size_t>(count))) {
    labels.of.push_back(static_cast<uint8_t>(c));
    labels.classes = std::max(labels.classes, labels.of.back() + 1);
  }
  return labels;
}

// The names that the labels of the pictures in this file may have: "train-labels-idx1-ubyte", also
// with ".gz", for "train-images-idx3-ubyte"; none where it follows another custom.
std::vector<std::string> label_names(std::string name) {
  const size_t images = name.rfind("images");
  if (images == std::string::npos) return {};
  name.replace(images, 6, "labels");
  const size_t dimensions = name.find("idx3", images);
  if (dimensions != std::string::npos) name.replace(dimensions, 4, "idx1");
  if (ends_with(name, ".gz")) name.resize(name.size() - 3);
  return {name, name + ".gz"};
}

}  // namespace

bool is_idx(std::string_view start) {
  return start.size() >= 4 && start[0] == 0 && start[1] == 0 && start[2] == kBytes &&
         start[3] >= 1 && start[3] <= 4;
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
         "{}: {} of {}x{} pixels; that is no data set",
         images.name,
         counted(count, "picture"),
         width,
         height);
  }
  Records records{.kind = "idx", .form = {.width = width, .height = height, .channels = 1}};
  const bool small = width == 28 && height == 28 && options.resolution == Size{32, 32};
  if (small && options.fit == Fit::kPad) records.form.border = 2;
  records.runs.push_back({.part = images, .first = 16, .stride = width * height, .count = count});
  if (labels) records.labels = read_labels(*labels, count);
  return open_records(std::move(records));
}

std::unique_ptr<Source> idx_in(const Source& folder,
                               const DataOptions& options,
                               const StopCheck& stop) {
  std::vector<size_t> images;
  std::vector<size_t> training;
  const std::vector<std::string>& files = folder.files();
  for (size_t file = 0; file < files.size(); ++file) {
    const std::string name = files[file].substr(files[file].rfind('/') + 1);
    const bool idx = name.find("images-idx3") != std::string::npos ||
                     name.find("images.idx3") != std::string::npos;
    if (!idx) continue;
    const bool both = !images.empty() && files[images.back()] + ".gz" == files[file];
    if (both) continue;  // the same once more, compressed
    images.push_back(file);
    if (name.find("train") != std::string::npos) training.push_back(file);
  }
  if (images.empty()) return nullptr;
  const std::vector<size_t>& from = training.empty() ? images : training;
  if (from.size() > 1) {
    fail(Exit::kInput,
         "{}: {} idx files of pictures; name one of them: --data {}",
         options.path,
         from.size(),
         folder.name(from.front()));
  }
  const FilePart pictures = unpacked(part_of(folder, from.front()), stop);
  std::optional<FilePart> labels;
  for (const std::string& name : label_names(files[from.front()])) {
    const auto found = folder.find(name);
    if (found && !labels) labels = unpacked(part_of(folder, *found), stop);
  }
  return open_idx(pictures, labels, options);
}

std::unique_ptr<Source> open_idx_file(const FilePart& images,
                                      const DataOptions& options,
                                      const StopCheck& stop) {
  const std::filesystem::path path = options.path;
  std::optional<FilePart> labels;
  for (const std::string& name : label_names(path.filename().string())) {
    const std::filesystem::path beside = path.parent_path() / name;
    std::error_code ignored;
    if (!labels && std::filesystem::is_regular_file(beside, ignored)) {
      labels = unpacked(whole_file(beside.string()), stop);
    }
  }
  return open_idx(images, labels, options);
}

}  // namespace gantrain

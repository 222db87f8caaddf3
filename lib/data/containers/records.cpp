// SPDX-License-Identifier: Apache-2.0

#include <algorithm>
#include <array>
#include <filesystem>
#include <string_view>
#include <utility>
#include <vector>

#include "core/pickle.h"
#include "data/containers/formats.h"
#include "util/error.h"
#include "util/text.h"
#include "util/wording.h"

namespace gantrain {

namespace {

// What a record of pixels is: a byte for each value, one plane [height, width] a channel.
struct RecordForm {
  int64_t width = 0;
  int64_t height = 0;
  int64_t channels = 0;
  int64_t border = 0;  // black pixels that are put around the picture

  int64_t bytes() const { return width * height * channels; }
  ImageInfo info() const { return {width + 2 * border, height + 2 * border, channels}; }
};

// Records in one file, at equal distances.
struct RecordRun {
  FilePart part;
  int64_t first = 0;   // bytes before the pixels of the first one
  int64_t stride = 0;  // bytes from one to the next
  int64_t count = 0;
};

// Pictures that lie as records of pixels in a few files, with their labels.
struct Records {
  std::string kind;  // for the description: "CIFAR-10"
  RecordForm form;
  std::vector<RecordRun> runs = {};
  Labels labels = {};
};

// Serves the records as pictures, named by their numbers.
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

FilePart part_of(const Source& source, size_t file) {
  std::optional<FilePart> part = source.part(file);
  if (!part) {
    fail(Exit::kInput, "{}: is packed in an archive; unpack it first", source.name(file));
  }
  return *part;
}

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

constexpr RecordForm kForm = {.width = 32, .height = 32, .channels = 3};
constexpr int64_t kPixelBytes = 32 * 32 * 3;

// What differs between the two.
struct Variant {
  const char* kind;
  int64_t classes;
  int64_t label_bytes;  // before the pixels of a record; the last one counts
  const char* label_key;
  const char* names_key;
  const char* names_file;
};
constexpr Variant kCifar10 = {"CIFAR-10", 10, 1, "labels", "label_names", "batches.meta.txt"};
constexpr Variant kCifar100 = {
    "CIFAR-100", 100, 2, "fine_labels", "fine_label_names", "fine_label_names.txt"};

int64_t record_bytes(const Variant& variant) { return variant.label_bytes + kPixelBytes; }

bool is_batch_name(std::string_view name, std::string_view ending) {
  constexpr std::string_view kStart = "data_batch_";
  if (!starts_with(name, kStart) || !ends_with(name, ending)) return false;
  const std::string_view digits =
      name.substr(kStart.size(), name.size() - kStart.size() - ending.size());
  return !digits.empty() && digits.find_first_not_of("0123456789") == std::string_view::npos;
}

// The files that belong together: all in one folder.
struct Batches {
  const Variant* variant = nullptr;
  bool python = false;
  std::vector<size_t> files = {};
};

// A training batch wins over the test batch.
Batches find_batches(const Source& source) {
  struct Pattern {
    const Variant* variant;
    bool python;
    const char* exact;   // null: data_batch_1, ...
    const char* beside;  // a file that must stand in the same folder; null: none
  };
  constexpr Pattern kPatterns[] = {{&kCifar10, false, nullptr, nullptr},
                                   {&kCifar100, false, "train.bin", "fine_label_names.txt"},
                                   {&kCifar10, true, nullptr, "batches.meta"},
                                   {&kCifar100, true, "train", "meta"},
                                   {&kCifar10, false, "test_batch.bin", nullptr},
                                   {&kCifar100, false, "test.bin", "fine_label_names.txt"}};
  const std::vector<std::string>& files = source.files();
  for (const Pattern& pattern : kPatterns) {
    Batches found{.variant = pattern.variant, .python = pattern.python};
    std::string folder;
    for (size_t file = 0; file < files.size(); ++file) {
      const size_t slash = files[file].rfind('/') + 1;
      const std::string_view name = std::string_view(files[file]).substr(slash);
      const bool fits = pattern.exact != nullptr
                            ? name == pattern.exact
                            : is_batch_name(name, pattern.python ? "" : ".bin");
      if (!fits) continue;
      if (found.files.empty()) folder = files[file].substr(0, slash);
      if (files[file].substr(0, slash) == folder) found.files.push_back(file);
    }
    const bool complete = pattern.beside == nullptr ||
                          std::binary_search(files.begin(), files.end(), folder + pattern.beside);
    if (!found.files.empty() && complete) return found;
  }
  return {};
}

// Reads the label before each record. False: one is none of the classes.
bool read_labels(const FilePart& part, const Variant& variant, std::vector<int64_t>& labels) {
  for (int64_t at = variant.label_bytes - 1; at < part.size; at += record_bytes(variant)) {
    const auto label = static_cast<uint8_t>(part.bytes(at, 1)[0]);
    if (label >= variant.classes) return false;
    labels.push_back(label);
  }
  return true;
}

RecordRun binary_run(const FilePart& part, const Variant& variant) {
  return {.part = part,
          .first = variant.label_bytes,
          .stride = record_bytes(variant),
          .count = part.size / record_bytes(variant)};
}

void add_binary(const FilePart& part, const Variant& variant, Records& records) {
  if (part.size == 0 || part.size % record_bytes(variant) != 0) {
    fail(Exit::kInput,
         "{}: {} bytes are no whole number of {} records of {} bytes; it was probably cut off",
         part.name,
         part.size,
         variant.kind,
         record_bytes(variant));
  }
  if (!read_labels(part, variant, records.labels.of)) {
    fail(Exit::kInput, "{}: holds a label that is none of {}", part.name, variant.kind);
  }
  records.runs.push_back(binary_run(part, variant));
}

// A Python version: a dictionary, of which nothing is called. What lies in it as bytes is used
// where it lies in the file.
class PickledFile {
 public:
  explicit PickledFile(const FilePart& part) {
    if (part.size > kMaxFileBytes) {
      fail(Exit::kInput, "{}: {} MB are too many for a file of CIFAR", part.name, part.size >> 20);
    }
    content_ = part.bytes(0, static_cast<size_t>(part.size));
    PickleRules rules;
    rules.source = part.name;
    rules.globals = {"numpy.*"};
    rules.hint = "; plain values and numpy's arrays alone are";
    pickle_ = parse_pickle(content_, rules);
  }

  // The items of the list under that key.
  std::vector<const PickleValue*> list(std::string_view key) const {
    const PickleValue* value = find(key);
    return value == nullptr ? std::vector<const PickleValue*>() : value->items;
  }

  // The array [N, 3072] under "data". numpy keeps its bytes in an object's state, and since
  // protocol 5 in its arguments; where true is said before them, they lie column by column, which
  // is not CIFAR's order.
  std::string_view pixels() const {
    const PickleValue* array = find("data");
    if (array == nullptr) return {};
    if (is_text(*array)) return array->text;
    for (const PickleValue* parts : {array->state, array->arguments}) {
      if (parts == nullptr) continue;
      bool by_column = false;
      for (const PickleValue* part : parts->items) {
        if (part->kind == PickleKind::kBool) by_column = part->integer != 0;
        if (is_text(*part) && part->text.size() >= size_t{kPixelBytes} && !by_column)
          return part->text;
      }
    }
    return {};
  }

  // Where the bytes lie in the file; -1 where they had to be decoded, so that they do not lie
  // there.
  int64_t offset_of(std::string_view bytes) const {
    const auto begin = reinterpret_cast<uintptr_t>(content_.data());
    const auto at = reinterpret_cast<uintptr_t>(bytes.data());
    if (at < begin || at >= begin + content_.size()) return -1;
    return static_cast<int64_t>(at - begin);
  }

  static bool is_text(const PickleValue& value) {
    return value.kind == PickleKind::kString || value.kind == PickleKind::kBytes;
  }

 private:
  // Keys are bytes where Python 3 has read and written a file of Python 2.
  const PickleValue* find(std::string_view key) const {
    const PickleValue& root = *pickle_.root;
    if (root.kind != PickleKind::kDict) return nullptr;
    for (size_t i = 0; i + 1 < root.items.size(); i += 2) {
      if (is_text(*root.items[i]) && root.items[i]->text == key) return root.items[i + 1];
    }
    return nullptr;
  }

  std::string content_;
  Pickle pickle_;
};

// A dictionary with an array [N, 3072] of bytes, under "data", and a list of N labels.
void add_python(const FilePart& part, const Variant& variant, Records& records) {
  const PickledFile file(part);
  std::vector<int64_t> labels;
  for (const PickleValue* label : file.list(variant.label_key)) {
    if (label->kind == PickleKind::kInt) labels.push_back(label->integer);
  }
  const auto count = static_cast<int64_t>(labels.size());
  const bool sound = std::ranges::all_of(
      labels, [&](int64_t label) { return label >= 0 && label < variant.classes; });
  const std::string_view pixels = file.pixels();
  const auto bytes = static_cast<int64_t>(pixels.size());
  const int64_t offset = file.offset_of(pixels);
  if (offset < 0 || count == 0 || bytes != count * kPixelBytes || !sound) {
    fail(Exit::kInput,
         "{}: not {}'s: {} bytes of pixels and {} \"{}\"",
         part.name,
         variant.kind,
         bytes,
         count,
         variant.label_key);
  }
  records.labels.of.insert(records.labels.of.end(), labels.begin(), labels.end());
  records.runs.push_back({.part = part, .first = offset, .stride = kPixelBytes, .count = count});
}

std::vector<std::string> names_in_text(const FilePart& part) {
  constexpr int64_t kMost = 1 << 16;
  std::vector<std::string> names;
  const auto size = static_cast<size_t>(std::min(part.size, kMost));
  for (const std::string& line : split(part.bytes(0, size), '\n')) {
    if (!trim(line).empty()) names.push_back(trim(line));
  }
  return names;
}

std::vector<std::string> names_in_pickle(const FilePart& part, const Variant& variant) {
  const PickledFile file(part);
  std::vector<std::string> names;
  for (const PickleValue* name : file.list(variant.names_key)) {
    if (PickledFile::is_text(*name)) names.emplace_back(name->text);
  }
  return names;
}

// Without the file of the names, or with another number of them, classes have numbers alone.
std::vector<std::string> class_names(const Source& source, const Batches& batches) {
  const std::vector<std::string>& files = source.files();
  const std::string& first = files[batches.files.front()];
  const char* python_file = batches.variant == &kCifar10 ? "batches.meta" : "meta";
  const std::string name = first.substr(0, first.rfind('/') + 1) +
                           (batches.python ? python_file : batches.variant->names_file);
  const auto found = source.find(name);
  if (!found) return {};
  const FilePart part = part_of(source, *found);
  std::vector<std::string> names =
      batches.python ? names_in_pickle(part, *batches.variant) : names_in_text(part);
  const bool whole = names.size() == static_cast<size_t>(batches.variant->classes);
  return whole ? names : std::vector<std::string>();
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
  return std::make_unique<RecordSource>(std::move(records));
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

std::unique_ptr<Source> cifar_in(const Source& files) {
  const Batches batches = find_batches(files);
  if (batches.variant == nullptr) return nullptr;
  Records records{.kind = batches.variant->kind, .form = kForm};
  for (const size_t file : batches.files) {
    const FilePart part = part_of(files, file);
    if (batches.python) {
      add_python(part, *batches.variant, records);
    } else {
      add_binary(part, *batches.variant, records);
    }
  }
  records.labels.classes = batches.variant->classes;
  records.labels.names = class_names(files, batches);
  return std::make_unique<RecordSource>(std::move(records));
}

std::unique_ptr<Source> cifar_batch(const FilePart& part) {
  for (const Variant* variant : {&kCifar10, &kCifar100}) {
    if (part.size == 0 || part.size % record_bytes(*variant) != 0) continue;
    Records records{.kind = variant->kind, .form = kForm};
    if (!read_labels(part, *variant, records.labels.of)) continue;
    records.labels.classes = variant->classes;
    records.runs.push_back(binary_run(part, *variant));
    return std::make_unique<RecordSource>(std::move(records));
  }
  return nullptr;
}

}  // namespace gantrain

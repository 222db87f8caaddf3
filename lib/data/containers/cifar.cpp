// SPDX-License-Identifier: Apache-2.0
// CIFAR-10 and CIFAR-100, in their binary and their Python versions.
#include <algorithm>
#include <string_view>
#include <utility>

#include "core/pickle.h"
#include "data/containers/formats.h"
#include "util/error.h"
#include "util/text.h"

namespace gantrain {

namespace {

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
  return open_records(std::move(records));
}

std::unique_ptr<Source> cifar_batch(const FilePart& part) {
  for (const Variant* variant : {&kCifar10, &kCifar100}) {
    if (part.size == 0 || part.size % record_bytes(*variant) != 0) continue;
    Records records{.kind = variant->kind, .form = kForm};
    if (!read_labels(part, *variant, records.labels.of)) continue;
    records.labels.classes = variant->classes;
    records.runs.push_back(binary_run(part, *variant));
    return open_records(std::move(records));
  }
  return nullptr;
}

}  // namespace gantrain

// SPDX-License-Identifier: Apache-2.0

#include <algorithm>
#include <array>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

#include "data/containers/source.h"
#include "data/labels/labels.h"
#include "data/options.h"
#include "util/error.h"
#include "util/file.h"
#include "util/hash.h"
#include "util/log.h"
#include "util/text.h"
#include "util/wording.h"

namespace gantrain {

namespace {

constexpr std::string_view kJsonFile = "dataset.json";
constexpr std::array<std::string_view, 3> kCsvFiles = {"labels.csv", "dataset.csv", "metadata.csv"};
constexpr int64_t kMaxClsBytes = 1024;
// A parsed list takes many times the memory of its text: larger ones are refused before that.
constexpr int64_t kListBytes = 1 << 20;
constexpr int64_t kListBytesPerPicture = 4096;

std::string folder_of(const std::string& name) { return name.substr(0, name.rfind('/') + 1); }

// Looks for labels in one place after the other.
class LabelSearch {
 public:
  LabelSearch(const Source& source, const DataOptions& options, const std::vector<size_t>& pictures)
      : source_(source), options_(options) {
    for (const size_t file : pictures) names_.push_back(source.files()[file]);
  }

  Labels run(const std::vector<size_t>& pictures) {
    if (options_.labels == "none") return {};
    if (options_.labels != "auto") return given();
    if (Labels own = source_.labels(); !own.none()) return chosen(own, pictures);
    for (const std::string_view name : {kJsonFile, kCsvFiles[0], kCsvFiles[1], kCsvFiles[2]}) {
      const auto list = outermost(name);
      if (!list) continue;
      if (auto labels = found(read_list(*list), source_.name(*list), strip(folder_at(*list)))) {
        used_.insert(*list);
        return *labels;
      }
    }
    if (auto labels = beside()) return *labels;
    if (auto labels = sidecars()) return *labels;
    const std::vector<std::string> pictures_below = strip(own_folders());
    Labels labels = labels_of_folders(pictures_below, options_.unlabelled);
    if (labels.none() && options_.cond != Cond::kOff) warn_of_loose(pictures_below);
    return labels;
  }

  const std::set<size_t>& used() const { return used_; }

 private:
  Labels given() {
    const std::string& path = options_.labels;
    std::error_code ignored;
    if (!fs::exists(path, ignored)) {
      if (const auto inside = source_.find(path)) return in_source(*inside);
    }
    return read(read_list(path), path, names_);
  }

  // Paths in a list of labels begin at its folder.
  Labels in_source(size_t file) {
    used_.insert(file);
    return read(read_list(file), source_.name(file), strip(folder_at(file)));
  }

  std::string read_list(size_t file) const {
    check_list(bytes_of(file), source_.name(file));
    std::string text;
    source_.read(file, text);
    return text;
  }

  std::string read_list(const std::string& path) const {
    std::error_code unknown;  // of a pipe
    const uintmax_t bytes = fs::file_size(path, unknown);
    if (!unknown) check_list(static_cast<int64_t>(bytes), path);
    std::string text = read_file(path);
    check_list(static_cast<int64_t>(text.size()), path);
    return text;
  }

  void check_list(int64_t bytes, const std::string& name) const {
    const auto pictures = static_cast<int64_t>(names_.size());
    const int64_t most = kListBytes + kListBytesPerPicture * pictures;
    if (bytes <= most) return;
    fail(Exit::kInput,
         "{}: {} bytes are too many for the labels of {} (at most {}); --set data.labels=FILE "
         "(data inspect and data pack: --labels FILE) names another list, none does without",
         name,
         bytes,
         counted(pictures, "picture"),
         most);
  }

  // Returns the size of a file of the source, most of which is not read for it.
  int64_t bytes_of(size_t file) const {
    const std::optional<FilePart> part = source_.part(file);
    return part ? part->size : source_.mark(file).bytes;
  }

  Labels read(const std::string& text,
              const std::string& name,
              const std::vector<std::string>& pictures) const {
    ListReading reading{.unlabelled = options_.unlabelled, .lines = {}};
    if (ends_with(lower(name), ".json")) return labels_of_json(text, name, pictures, reading);
    const auto rows = read_csv(text, name, &reading.lines);
    auto columns = label_columns(rows);
    if (!columns) columns = vector_columns(rows);
    if (!columns) {
      fail(Exit::kInput,
           "{}: no columns of files and labels; wanted are two columns, or a first row with "
           "\"file_name\" and \"label\", or with \"file_name\" and names of numbers",
           name);
    }
    return labels_of_rows(rows, *columns, name, pictures, reading);
  }

  // Reads a list that nobody has named: it may be about something else. Columns of numbers are
  // labels in labels.csv and PATH.csv alone: other lists hold widths, dates and so on.
  std::optional<Labels> found(const std::string& text,
                              const std::string& name,
                              const std::vector<std::string>& pictures) const {
    ListReading reading{.unlabelled = options_.unlabelled, .lines = {}};
    if (ends_with(lower(name), ".json")) return found_labels_of_json(text, name, pictures, reading);
    const auto rows = read_csv(text, name, &reading.lines);
    auto columns = label_columns(rows);
    const bool other = ends_with(name, kCsvFiles[1]) || ends_with(name, kCsvFiles[2]);
    if (!columns && !other) columns = vector_columns(rows);
    if (columns) return found_labels_of_rows(rows, *columns, name, pictures, reading);
    info("{}: not used as labels: no columns of files and labels", name);
    return std::nullopt;
  }

  // PATH.json and PATH.csv beside the archive PATH.zip, and the lists with a usual name.
  std::optional<Labels> beside() {
    std::error_code ignored;
    const fs::path archive = options_.path;
    if (!fs::is_regular_file(archive, ignored)) return std::nullopt;
    std::string stem = archive.filename().string();
    stem = stem.substr(0, stem.find('.', 1));
    std::vector<std::string> lists = {stem + ".json", stem + ".csv"};
    lists.insert(lists.end(), kCsvFiles.begin(), kCsvFiles.end());
    for (const std::string& name : lists) {
      const std::string path = (archive.parent_path() / name).string();
      if (!fs::is_regular_file(path, ignored)) continue;
      if (auto labels = found(read_list(path), path, names_)) return labels;
    }
    return std::nullopt;
  }

  // webdataset's layout: files that begin alike belong together.
  std::optional<Labels> sidecars() {
    std::vector<std::string> texts;
    std::vector<size_t> files;
    const bool some = any_cls();
    for (const std::string& picture : names_) {
      auto label = sidecar(picture, files);
      if (!label && texts.empty() && !some) return std::nullopt;
      if (!label) {
        fail(Exit::kInput,
             "{}: {} has no label beside it, others have; {}",
             options_.path,
             picture,
             kWithoutLabels);
      }
      texts.push_back(std::move(*label));
    }
    used_.insert(files.begin(), files.end());
    return labels_of_texts(texts, options_.path, names_);
  }

  // What the names of files beside a picture begin with: its name up to the last or first dot.
  static std::vector<std::string> keys_of(const std::string& picture) {
    const size_t base = folder_of(picture).size();
    std::vector<std::string> keys;
    for (const size_t dot : {picture.rfind('.'), picture.find('.', base + 1)}) {
      if (dot != std::string::npos && dot >= base) keys.push_back(picture.substr(0, dot));
    }
    return keys;
  }

  // Whether a picture has a file NAME.cls beside it.
  bool any_cls() const {
    const std::vector<std::string>& files = source_.files();
    const auto is_cls = [](const std::string& name) { return ends_with(name, ".cls"); };
    if (std::ranges::none_of(files, is_cls)) return false;
    return std::ranges::any_of(names_, [&](const std::string& picture) {
      for (const std::string& key : keys_of(picture)) {
        if (source_.find(key + ".cls")) return true;
      }
      return false;
    });
  }

  std::optional<std::string> sidecar(const std::string& picture, std::vector<size_t>& files) {
    for (const std::string& key : keys_of(picture)) {
      std::string text;
      if (const auto cls = source_.find(key + ".cls")) {
        if (bytes_of(*cls) > kMaxClsBytes)
          fail(Exit::kInput, "{}: not a class", source_.name(*cls));
        files.push_back(*cls);
        source_.read(*cls, text);
        return trim(text);
      }
      const auto json = source_.find(key + ".json");
      if (!json || bytes_of(*json) > kListBytes) continue;
      source_.read(*json, text);
      if (auto label = label_in_json(text)) {
        files.push_back(*json);
        return label;
      }
    }
    return std::nullopt;
  }

  static std::optional<std::string> label_in_json(const std::string& text) {
    const nlohmann::json content = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
    if (!content.is_object()) return std::nullopt;
    for (const char* key : {"label", "cls", "class", "class_name", "class_id", "label_name"}) {
      if (!content.contains(key)) continue;
      const nlohmann::json& value = content[key];
      if (value.is_number_integer()) return std::to_string(value.get<int64_t>());
      if (value.is_string()) return value.get<std::string>();
    }
    return std::nullopt;
  }

  // The outermost file of that name whose folder has all pictures in it: "zip -r" keeps the
  // folder's name.
  std::optional<size_t> outermost(std::string_view name) const {
    const std::string shared = names_.front().substr(0, common_folders(names_));
    for (size_t end = 0; end != std::string::npos;) {
      if (const auto found = source_.find(shared.substr(0, end) + std::string(name))) return found;
      if (end == shared.size()) break;
      end = shared.find('/', end) + 1;
    }
    return std::nullopt;
  }

  // Pictures that lie beside folders of others, like a sheet of them, keep these from being
  // classes.
  void warn_of_loose(const std::vector<std::string>& pictures) const {
    const size_t skip = common_folders(pictures);
    std::set<std::string> folders;
    std::vector<std::string> loose;
    for (const std::string& path : pictures) {
      const size_t slash = path.find('/', skip);
      if (slash == std::string::npos) {
        loose.push_back(path);
      } else {
        folders.insert(path.substr(skip, slash - skip));
      }
    }
    if (loose.empty() || folders.size() < 2) return;
    const auto count = static_cast<int64_t>(loose.size());
    warn(
        "{}: its {} sub-folders are not taken for classes, since {} in none of them ({}{}); move "
        "or remove what is no picture of a class, or --set data.unlabelled=keep (data inspect and "
        "data pack: --unlabelled keep) takes it without a label; data.labels=none means it so",
        options_.path,
        folders.size(),
        count == 1 ? "1 picture lies" : fmt::format("{} pictures lie", count),
        loose.front(),
        count > 1 ? ", ..." : "");
  }

  size_t folder_at(size_t file) const { return folder_of(source_.files()[file]).size(); }

  // How long the leading folders are that stand for parts of the container.
  std::vector<size_t> own_folders() const {
    std::vector<size_t> lengths;
    for (const std::string& name : names_) {
      size_t length = 0;
      for (size_t i = 0; i < source_.own_folders(); ++i) length = name.find('/', length) + 1;
      lengths.push_back(length);
    }
    return lengths;
  }

  std::vector<std::string> strip(const std::vector<size_t>& lengths) const {
    std::vector<std::string> names = names_;
    for (size_t i = 0; i < names.size(); ++i) names[i].erase(0, lengths[i]);
    return names;
  }
  std::vector<std::string> strip(size_t length) const {
    return strip(std::vector<size_t>(names_.size(), length));
  }

  static Labels chosen(const Labels& all, const std::vector<size_t>& pictures) {
    return all.of_pictures({pictures.begin(), pictures.end()});
  }

  const Source& source_;
  const DataOptions& options_;
  std::vector<std::string> names_;  // of the pictures
  std::set<size_t> used_;           // files of the source that had labels
};

// How many of these files have each ending, in small letters.
std::map<std::string, int64_t> by_ending(const Source& source, const std::set<size_t>& files) {
  std::map<std::string, int64_t> counts;
  constexpr size_t kLongest = 12;  // others are no endings, but parts of names with dots
  for (const size_t file : files) {
    const std::string ending =
        valid_text(lower(fs::path(source.files()[file]).extension().string()));
    counts[ending.size() <= kLongest ? ending : ""] += 1;
  }
  return counts;
}

void leave_out_empty_end(Labels& labels, int64_t most) {
  if (most <= 0 || labels.classes <= most || *std::ranges::max_element(labels.of) >= most) return;
  labels.classes = most;
  if (!labels.names.empty()) labels.names.resize(static_cast<size_t>(most));
}

// A container among the files, which may be what was meant.
std::string container_inside(const Source& source) {
  for (size_t file = 0; file < source.files().size(); ++file) {
    const std::string name = source.name(file);
    const bool lmdb = ends_with(name, "/data.mdb");
    if (!lmdb && !ends_with(lower(name), ".zip")) continue;
    return fmt::format("; --data {}?", lmdb ? folder_of(name) : name);
  }
  return "";
}

}  // namespace

LabelVectors LabelVectors::of_pictures(const std::vector<int64_t>& pictures) const {
  LabelVectors some;
  some.names = names;
  for (const int64_t picture : pictures) {
    some.values.insert(some.values.end(), of(picture), of(picture) + length());
    for (int64_t k = 0; k < length() && !given.empty(); ++k)
      some.given.push_back(is_given(picture, k));
  }
  return some;
}

int64_t LabelVectors::unlabelled() const {
  if (given.empty()) return 0;
  int64_t count = 0;
  for (int64_t i = 0; i * length() < static_cast<int64_t>(values.size()); ++i) {
    bool some = false;
    for (int64_t k = 0; k < length(); ++k) some |= is_given(i, k);
    count += some ? 0 : 1;
  }
  return count;
}

int64_t Labels::number_of(int64_t picture) const {
  if (classes > 0) return of[static_cast<size_t>(picture)];
  if (vectors.length() == 0) return -1;
  const auto* bytes = reinterpret_cast<const char*>(vectors.of(picture));
  const size_t count = static_cast<size_t>(vectors.length()) * sizeof(float);
  return static_cast<int64_t>(hash64({bytes, count}) >> 1);
}

Labels Labels::of_pictures(const std::vector<int64_t>& pictures) const {
  Labels some{.classes = classes, .of = {}, .names = names, .vectors = {}};
  if (vectors.length() > 0) some.vectors = vectors.of_pictures(pictures);
  if (classes == 0) return some;
  for (const int64_t picture : pictures) some.of.push_back(of[static_cast<size_t>(picture)]);
  return some;
}

std::string ignored_text(const std::map<std::string, int64_t>& others) {
  static const std::set<std::string> kOtherPictures = {
      ".gif", ".bmp", ".tif", ".tiff", ".heic", ".heif", ".avif", ".jfif",
      ".jp2", ".jxl", ".ppm", ".pgm",  ".pnm",  ".tga",  ".dng",  ".cr2",
      ".nef", ".arw", ".psd", ".exr",  ".jpe",  ".svg",  ".ico"};
  constexpr size_t kShown = 4;
  std::vector<std::pair<std::string, int64_t>> rows(others.begin(), others.end());
  std::ranges::stable_sort(rows, [](const auto& a, const auto& b) { return a.second > b.second; });
  std::vector<std::string> parts;
  int64_t rest = 0;
  bool pictures = false;
  for (const auto& [ending, count] : rows) {
    pictures |= kOtherPictures.contains(ending);
    if (parts.size() < kShown) {
      parts.push_back(fmt::format("{} {}", count, ending.empty() ? "without an ending" : ending));
    } else {
      rest += count;
    }
  }
  if (parts.empty()) return "";
  if (rest > 0) parts.push_back(fmt::format("{} more files", rest));
  return fmt::format("{} ignored{}",
                     join(parts, ", "),
                     pictures ? ": convert pictures of these kinds to PNG or JPEG" : "");
}

FoundPictures find_pictures(const Source& source, const DataOptions& options) {
  FoundPictures found;
  std::set<size_t> others;
  for (size_t file = 0; file < source.files().size(); ++file) {
    if (source.is_picture(file)) {
      found.files.push_back(file);
    } else {
      others.insert(file);
    }
  }
  if (found.files.empty()) {
    const std::string ignored = ignored_text(by_ending(source, others));
    fail(Exit::kInput,
         "{}: no pictures in it; --data takes .png, .jpg, .jpeg and .webp in a folder, zip or tar, "
         "an LMDB, CIFAR's or MNIST's files{}{}{}",
         options.path,
         ignored.empty() ? "" : "; ",
         ignored,
         container_inside(source));
  }
  LabelSearch search(source, options, found.files);
  found.labels = search.run(found.files);
  leave_out_empty_end(found.labels, options.most_classes);
  for (std::string& name : found.labels.names) name = valid_text(name);
  for (std::string& name : found.labels.vectors.names) name = valid_text(name);
  for (const size_t file : search.used()) others.erase(file);
  found.others = by_ending(source, others);
  return found;
}

}  // namespace gantrain

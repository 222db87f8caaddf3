// SPDX-License-Identifier: Apache-2.0
#include <glob.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <functional>
#include <optional>
#include <utility>

#include "data/cifar.h"
#include "data/idx.h"
#include "data/lmdb.h"
#include "data/source.h"
#include "data/tar.h"
#include "data/unpack.h"
#include "util/error.h"
#include "util/text.h"

namespace gantrain {

namespace {

namespace fs = std::filesystem;

constexpr const char* kWhatIsTaken =
    "--data takes pictures in a folder, zip or tar (also shards-{000..010}.tar, plain or "
    "compressed) or LMDB, CIFAR's or MNIST's files, or synth:shapes";
constexpr size_t kMostPaths = 100'000;  // that a pattern may stand for

bool is_tar_name(std::string_view path) {
  const std::string name = lower(path);
  for (const char* ending : {".tar", ".tar.gz", ".tgz", ".tar.zst", ".tar.xz", ".tar.bz2"}) {
    if (ends_with(name, ending)) return true;
  }
  return false;
}

// Writes out "{000..010}" and "{a,b}", the first braces first, as shells do.
void expand_braces(const std::string& pattern, std::vector<std::string>& paths) {
  const size_t open = pattern.find('{');
  const size_t close = open == std::string::npos ? open : pattern.find('}', open);
  if (paths.size() > kMostPaths) fail(Exit::kInput, "{}: stands for too many files", pattern);
  if (close == std::string::npos) {
    paths.push_back(pattern);
    return;
  }
  const std::string inside = pattern.substr(open + 1, close - open - 1);
  const auto with = [&](const std::string& part) {
    expand_braces(pattern.substr(0, open) + part + pattern.substr(close + 1), paths);
  };
  const size_t dots = inside.find("..");
  if (dots == std::string::npos) {
    for (const std::string& part : split(inside, ',')) with(part);
    return;
  }
  const std::string low = inside.substr(0, dots);
  const auto first = parse_int(low);
  const auto last = parse_int(inside.substr(dots + 2));
  if (!first || !last || *first < 0 || *last < *first || *last - *first > int64_t{kMostPaths}) {
    fail(Exit::kInput, "{}: {{{}}} is no range such as {{000..010}}", pattern, inside);
  }
  const size_t digits = low.front() == '0' ? low.size() : 0;
  for (int64_t i = *first; i <= *last; ++i) with(fmt::format("{:0{}}", i, digits));
}

// The files that a pattern stands for. Those that braces name must be there.
std::vector<std::string> expand(const std::string& pattern) {
  std::vector<std::string> named;
  expand_braces(pattern, named);
  std::vector<std::string> paths;
  for (const std::string& path : named) {
    glob_t found = {};
    if (::glob(path.c_str(), 0, nullptr, &found) == 0) {
      paths.insert(paths.end(), found.gl_pathv, found.gl_pathv + found.gl_pathc);
    } else {
      ::globfree(&found);
      fail(Exit::kInput, "{}: no such file; {}", path, kWhatIsTaken);
    }
    ::globfree(&found);
  }
  return paths;
}

// The names of the labels that belong to the file of these pictures, compressed or not.
std::vector<std::string> label_names(const std::string& images) {
  std::string name = idx_labels_name(images);
  if (name.empty()) return {};
  if (ends_with(name, ".gz")) name.resize(name.size() - 3);
  return {name, name + ".gz"};
}

// The idx file of pictures in a folder: that for training, or the only one.
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
  const auto part_of = [&](size_t file) {
    const auto part = folder.part(file);
    if (!part)
      fail(Exit::kInput, "{}: is packed in an archive; unpack it first", folder.name(file));
    return unpacked(*part, stop);
  };
  const FilePart pictures = part_of(from.front());
  std::optional<FilePart> labels;
  for (const std::string& name : label_names(files[from.front()])) {
    const auto found = std::lower_bound(files.begin(), files.end(), name);
    if (labels || found == files.end() || *found != name) continue;
    labels = part_of(static_cast<size_t>(found - files.begin()));
  }
  return open_idx(pictures, labels, options);
}

// Data files among the files of a folder or archive that has no pictures; else the source itself.
std::unique_ptr<Source> with_records(std::unique_ptr<Source> source,
                                     const DataOptions& options,
                                     const StopCheck& stop) {
  for (size_t file = 0; file < source->files().size(); ++file) {
    if (source->is_picture(file)) return source;
  }
  if (auto cifar = cifar_in(*source)) return cifar;
  if (auto idx = idx_in(*source, options, stop)) return idx;
  return source;
}

std::unique_ptr<Source> open_directory(const DataOptions& options, const StopCheck& stop) {
  const fs::path data = fs::path(options.path) / "data.mdb";
  std::error_code ignored;
  if (fs::is_regular_file(data, ignored)) return open_lmdb(whole_file(data.string()), options);
  auto source = with_records(open_folder(options.path), options, stop);
  std::vector<std::string> tars;
  for (size_t file = 0; file < source->files().size(); ++file) {
    if (source->is_picture(file)) return source;
    if (is_tar_name(source->files()[file])) tars.push_back(source->name(file));
  }
  return tars.empty() ? std::move(source) : with_records(open_tars(tars, stop), options, stop);
}

std::string start_of(const FilePart& part) {
  std::array<char, 512> start = {};
  return std::string(start.data(), part.read(0, start.data(), start.size()));
}

std::unique_ptr<Source> open_single_idx(const FilePart& images,
                                        const DataOptions& options,
                                        const StopCheck& stop) {
  const fs::path path = options.path;
  std::optional<FilePart> labels;
  for (const std::string& name : label_names(path.filename().string())) {
    const fs::path beside = path.parent_path() / name;
    std::error_code ignored;
    if (!labels && fs::is_regular_file(beside, ignored)) {
      labels = unpacked(whole_file(beside.string()), stop);
    }
  }
  return open_idx(images, labels, options);
}

std::unique_ptr<Source> open_file(const DataOptions& options, const StopCheck& stop) {
  const std::string& path = options.path;
  const FilePart packed = whole_file(path);
  if (ends_with(lower(path), ".zip") || starts_with(start_of(packed), "PK")) {
    return with_records(open_zip(path), options, stop);
  }
  if (is_image_name(path)) {
    fail(Exit::kInput, "{}: a single picture; --data wants the folder that holds it", path);
  }
  const bool compressed = is_compressed(start_of(packed));
  if (compressed && is_tar_name(path)) return with_records(open_tars({path}, stop), options, stop);
  const FilePart part = unpacked(packed, stop);
  const std::string start = start_of(part);
  if (is_lmdb(start)) return open_lmdb(part, options);
  if (is_idx(start)) return open_single_idx(part, options, stop);
  if (is_tar(start) || is_tar_name(path)) {
    return with_records(open_tars({path}, stop), options, stop);
  }
  if (auto batch = cifar_batch(part)) return batch;
  fail(Exit::kInput,
       "{}: {}; {}",
       path,
       part.size == 0 ? "an empty file"
                      : "neither an archive of pictures nor a data file that is known here",
       kWhatIsTaken);
}

// Several files are one data set only where they are tar archives. A name such as a.tar is enough
// here: what is broken in the archive is said when it is opened.
void check_tars(const std::string& pattern, const std::vector<std::string>& paths) {
  for (const std::string& path : paths) {
    if (is_tar_name(path)) continue;
    std::error_code ignored;
    const std::string start = fs::is_regular_file(path, ignored) ? start_of(whole_file(path)) : "";
    if (is_tar(start) || is_compressed(start)) continue;
    const std::string folder = fs::path(path).parent_path().string();
    fail(Exit::kInput,
         "{}: {} is no tar archive; a pattern stands for tar archives, or for one file or folder. "
         "For pictures name their folder: --data {}",
         pattern,
         path,
         shell_quote(folder.empty() ? "." : folder));
  }
}

}  // namespace

std::unique_ptr<Source> open_source(const DataOptions& options, const StopCheck& stop) {
  const std::string& path = options.path;
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (fs::is_directory(status)) return open_directory(options, stop);
  if (fs::is_regular_file(status)) return open_file(options, stop);
  if (!fs::exists(status) && path.find_first_of("{*?[") != std::string::npos) {
    const std::vector<std::string> paths = expand(path);
    if (paths.size() == 1) {
      DataOptions one = options;
      one.path = paths.front();
      return open_source(one, stop);
    }
    check_tars(path, paths);
    return with_records(open_tars(paths, stop), options, stop);
  }
  if (!fs::exists(status)) {
    const bool denied = error == std::errc::permission_denied;
    fail(Exit::kInput,
         "{}: {}; {}",
         path,
         denied ? "no permission to look there" : "no such file or folder",
         kWhatIsTaken);
  }
  fail(Exit::kInput, "{}: neither a file nor a folder; {}", path, kWhatIsTaken);
}

}  // namespace gantrain

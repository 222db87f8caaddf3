// SPDX-License-Identifier: Apache-2.0
#include <glob.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <functional>
#include <optional>
#include <utility>

#include "data/containers/lmdb.h"
#include "data/containers/records.h"
#include "data/containers/source.h"
#include "data/containers/tar.h"
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

// The one file that --data names.
struct Given {
  const DataOptions& options;
  const StopCheck& stop;
  FilePart file;      // as it is, or unpacked
  std::string start;  // of that file
};

// What a file may be: the first row that recognises and opens it counts.
struct Format {
  const char* name;
  bool unpacked;  // the file is looked at unpacked
  bool (*recognise)(const Given&);
  std::unique_ptr<Source> (*open)(const Given&);  // null: it is not this after all
};

std::unique_ptr<Source> open_one_tar(const Given& given) {
  return open_tars({given.options.path}, given.stop);
}

constexpr Format kFormats[] = {
    {"zip",
     false,
     [](const Given& given) {
       return ends_with(lower(given.options.path), ".zip") || starts_with(given.start, "PK");
     },
     [](const Given& given) { return open_zip(given.options.path); }},
    {"single picture",
     false,
     [](const Given& given) { return is_image_name(given.options.path); },
     [](const Given& given) -> std::unique_ptr<Source> {
       fail(Exit::kInput,
            "{}: a single picture; --data wants the folder that holds it",
            given.options.path);
     }},
    {"compressed tar",
     false,
     [](const Given& given) {
       return is_compressed(given.start) && is_tar_name(given.options.path);
     },
     open_one_tar},
    {"LMDB",
     true,
     [](const Given& given) { return is_lmdb(given.start); },
     [](const Given& given) { return open_lmdb(given.file, given.options); }},
    {"idx",
     true,
     [](const Given& given) { return is_idx(given.start); },
     [](const Given& given) { return open_idx_file(given.file, given.options, given.stop); }},
    {"tar",
     true,
     [](const Given& given) { return is_tar(given.start) || is_tar_name(given.options.path); },
     open_one_tar},
    {"CIFAR",
     true,
     [](const Given&) { return true; },  // its binary files have no signature
     [](const Given& given) { return cifar_batch(given.file); }},
};

std::unique_ptr<Source> open_file(const DataOptions& options, const StopCheck& stop) {
  Given given{options, stop, whole_file(options.path), ""};
  given.start = start_of(given.file);
  bool is_unpacked = false;
  for (const Format& format : kFormats) {
    if (format.unpacked && !std::exchange(is_unpacked, true)) {
      given.file = unpacked(given.file, stop);
      given.start = start_of(given.file);
    }
    if (!format.recognise(given)) continue;
    if (auto source = format.open(given)) return with_records(std::move(source), options, stop);
  }
  fail(Exit::kInput,
       "{}: {}; {}",
       options.path,
       given.file.size == 0 ? "an empty file"
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

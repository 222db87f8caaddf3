// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <filesystem>
#include <set>

#include "data/random_access_file.h"
#include "data/source.h"
#include "util/error.h"
#include "util/log.h"
#include "util/text.h"

namespace gantrain {

namespace {

namespace fs = std::filesystem;

// Whether a folder is one that a run has written: its samples are no data, least of all its own.
bool is_run(const fs::path& folder) {
  std::error_code ignored;
  return fs::exists(folder / "STATUS", ignored) && fs::exists(folder / "config.json", ignored);
}

// Collects files below a folder. Folders reached twice through links are entered once, in the
// order of their names, so that a loop ends and the outcome does not depend on the file system.
class FolderScan {
 public:
  explicit FolderScan(fs::path root) : root_(std::move(root)) {}

  std::vector<std::string> files() {
    enter("");
    if (!runs_.empty()) {
      info("{}: left out, the folder of a run{}",
           runs_.front(),
           runs_.size() > 1 ? fmt::format(", and {} more", runs_.size() - 1) : "");
    }
    std::sort(files_.begin(), files_.end());
    return std::move(files_);
  }

 private:
  void enter(const std::string& folder) {
    std::error_code error;
    const fs::path path = root_ / folder;
    if (!folder.empty() && is_run(path)) {
      runs_.push_back(path.string());
      return;
    }
    if (!seen_.insert(fs::canonical(path, error).string()).second) return;
    std::vector<std::string> folders;
    fs::directory_iterator entry(path, error);
    for (; !error && entry != fs::directory_iterator(); entry.increment(error)) {
      const std::string name = entry->path().filename().string();
      if (is_hidden(name)) continue;
      const std::string relative = folder.empty() ? name : folder + "/" + name;
      std::error_code ignored;  // a dangling link is neither file nor folder
      if (entry->is_directory(ignored)) {
        folders.push_back(relative);
      } else if (entry->is_regular_file(ignored)) {
        files_.push_back(relative);
      }
    }
    if (error) fail(Exit::kInput, "{}: cannot read the folder: {}", path.string(), error.message());
    std::sort(folders.begin(), folders.end());
    for (const std::string& inner : folders) enter(inner);
  }

  fs::path root_;
  std::set<std::string> seen_;
  std::vector<std::string> files_;
  std::vector<std::string> runs_;
};

class Folder final : public Source {
 public:
  explicit Folder(const std::string& path) : root_(path), files_(FolderScan(path).files()) {}

  const std::vector<std::string>& files() const override { return files_; }
  std::string name(size_t file) const override { return (root_ / files_[file]).string(); }
  void read(size_t file, std::string& bytes) const override {
    read_part(whole_file(name(file)), bytes);
  }
  std::optional<FilePart> part(size_t file) const override { return whole_file(name(file)); }
  std::string stamp(size_t file) const override { return stamp_of(name(file)); }

 private:
  fs::path root_;
  std::vector<std::string> files_;
};

}  // namespace

std::unique_ptr<Source> open_folder(const std::string& path) {
  return std::make_unique<Folder>(path);
}

bool is_hidden(std::string_view path) {
  for (const std::string& part : split(path, '/')) {
    if (starts_with(part, ".") || part == "__MACOSX") return true;
  }
  return false;
}

}  // namespace gantrain

// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <filesystem>
#include <set>

#include "data/random_access_file.h"
#include "data/source.h"
#include "util/error.h"
#include "util/text.h"

namespace gantrain {

namespace {

namespace fs = std::filesystem;

// Collects files below a folder. Folders reached twice through links are entered once, in the
// order of their names, so that a loop ends and the outcome does not depend on the file system.
class FolderScan {
 public:
  explicit FolderScan(fs::path root) : root_(std::move(root)) {}

  std::vector<std::string> files() {
    enter("");
    std::sort(files_.begin(), files_.end());
    return std::move(files_);
  }

 private:
  void enter(const std::string& folder) {
    std::error_code error;
    const fs::path path = root_ / folder;
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
};

class Folder final : public Source {
 public:
  explicit Folder(const std::string& path) : root_(path), files_(FolderScan(path).files()) {}

  const std::vector<std::string>& files() const override { return files_; }
  std::string name(size_t file) const override { return (root_ / files_[file]).string(); }
  void read(size_t file, std::string& bytes) const override {
    const std::string path = name(file);
    const RandomAccessFile open(path, path);
    bytes.resize(static_cast<size_t>(open.size()));
    bytes.resize(open.read(0, bytes.data(), bytes.size()));
  }

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

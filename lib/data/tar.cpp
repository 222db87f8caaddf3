// SPDX-License-Identifier: Apache-2.0
#include "data/tar.h"

#include <archive_entry.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <set>
#include <tuple>
#include <utility>

#include "data/archive_input.h"
#include "data/labels.h"
#include "data/unpack.h"
#include "util/error.h"
#include "util/text.h"

namespace gantrain {

namespace {

constexpr size_t kHeaderBytes = 512;
// One header and what follows it: most of a large archive is skipped and never read.
constexpr size_t kBlock = 4096;
// More archives than this are opened for each read, for a process may have 1024 files open.
constexpr size_t kMostOpen = 256;

std::string name_of(archive_entry* entry) {
  const char* raw = archive_entry_pathname_utf8(entry);
  if (raw == nullptr) raw = archive_entry_pathname(entry);
  std::string name = raw != nullptr ? raw : "";
  std::replace(name.begin(), name.end(), '\\', '/');
  while (starts_with(name, "./")) name.erase(0, 2);
  return name;
}

// Whether the content of an entry lies in the archive as it is.
bool has_content(archive_entry* entry) {
  return archive_entry_filetype(entry) == AE_IFREG && archive_entry_hardlink(entry) == nullptr &&
         archive_entry_sparse_count(entry) == 0 && archive_entry_size_is_set(entry) != 0;
}

// Walks over the headers with libarchive, which knows pax and GNU names and sizes.
class HeaderWalk {
 public:
  explicit HeaderWalk(const FilePart& part)
      : part_(part), input_{part, std::vector<char>(kBlock)}, reader_(archive_read_new()) {
    if (!reader_) throw std::bad_alloc();
    archive_read_support_format_tar(reader_.get());
    archive_read_support_format_empty(reader_.get());
    if (archive_read_open2(
            reader_.get(), &input_, nullptr, read_archive_input, skip_archive_input, nullptr) !=
        ARCHIVE_OK) {
      fail_walk();
    }
  }

  // Returns false behind the last entry that has a content.
  bool next(TarEntry& entry) {
    archive_entry* header = nullptr;
    while (true) {
      const int code = archive_read_next_header(reader_.get(), &header);
      if (code == ARCHIVE_EOF) return false;
      if (code != ARCHIVE_OK && code != ARCHIVE_WARN) fail_walk();
      if (!has_content(header)) continue;
      entry.name = name_of(header);
      entry.offset = archive_filter_bytes(reader_.get(), 0);
      entry.size = archive_entry_size(header);
      if (entry.offset > part_.size || entry.size > part_.size - entry.offset || entry.size < 0) {
        fail(Exit::kInput,
             "{}: broken tar archive: {} ends behind the archive, which was probably cut off; copy "
             "it again",
             part_.name,
             entry.name);
      }
      return true;
    }
  }

 private:
  [[noreturn]] void fail_walk() const {
    if (!input_.failed.empty()) fail(Exit::kInput, "{}", input_.failed);
    const char* reason = archive_error_string(reader_.get());
    fail(Exit::kInput,
         "{}: broken tar archive: {}",
         part_.name,
         reason != nullptr ? reason : "damaged header");
  }

  const FilePart& part_;
  ArchiveInput input_;
  ArchiveReader reader_;
};

// One of the archives.
struct Shard {
  std::string path;
  FilePart part;  // without a file where there are too many to keep all open
};

struct ShardEntry {
  size_t shard = 0;
  int64_t offset = 0;
  int64_t size = 0;
};

bool all_different(const std::vector<std::string>& names) {
  return std::set<std::string_view>(names.begin(), names.end()).size() == names.size();
}

// A name without '/' for each archive, all of them different: that of its file; with its folders
// where files of several folders are called alike; with its number where that is not enough.
std::vector<std::string> names_of_shards(const std::vector<std::string>& paths) {
  std::vector<std::string> names;
  for (const std::string& path : paths) {
    names.push_back(std::filesystem::path(path).filename().string());
  }
  if (all_different(names)) return names;
  const size_t shared = common_folders(paths);
  for (size_t i = 0; i < paths.size(); ++i) {
    names[i] = paths[i].substr(shared);
    std::replace(names[i].begin(), names[i].end(), '/', '-');
  }
  if (all_different(names)) return names;
  for (size_t i = 0; i < names.size(); ++i) names[i] = fmt::format("{}-{}", i, names[i]);
  return names;
}

class Tars final : public Source {
 public:
  Tars(const std::vector<std::string>& paths, const StopCheck& stop) {
    std::vector<std::pair<TarEntry, size_t>> found;
    for (const std::string& path : paths) {
      if (stop && stop()) fail(Exit::kStopped, "stopped while {} was opened", path);
      const FilePart packed = whole_file(path);
      Shard shard{.path = path, .part = unpacked(packed, stop)};
      for (TarEntry& entry : read_tar_directory(shard.part)) {
        found.emplace_back(std::move(entry), shards_.size());
      }
      const bool plain = shard.part.file == packed.file;
      if (plain && shards_.size() >= kMostOpen) shard.part.file.reset();
      shards_.push_back(std::move(shard));
    }
    if (has_duplicates(found)) {
      own_folders_ = 1;
      const std::vector<std::string> names = names_of_shards(paths);
      for (auto& [entry, shard] : found) {
        entry.name = fmt::format("{}/{}", names[shard], entry.name);
      }
    }
    std::sort(found.begin(), found.end(), [](const auto& a, const auto& b) {
      return std::tie(a.first.name, a.second) < std::tie(b.first.name, b.second);
    });
    for (auto& [entry, shard] : found) {
      files_.push_back(std::move(entry.name));
      entries_.push_back({shard, entry.offset, entry.size});
    }
  }

  const std::vector<std::string>& files() const override { return files_; }
  size_t own_folders() const override { return own_folders_; }
  std::string kind() const override {
    return shards_.size() > 1 ? fmt::format("{} tar archives", shards_.size()) : "";
  }

  std::string name(size_t file) const override {
    const std::string& path = shards_[entries_[file].shard].path;
    const size_t skip = own_folders_ == 0 ? 0 : files_[file].find('/') + 1;
    return path + ":" + files_[file].substr(skip);
  }

  std::optional<FilePart> part(size_t file) const override {
    const ShardEntry& entry = entries_[file];
    const Shard& shard = shards_[entry.shard];
    FilePart whole = shard.part.file ? shard.part : whole_file(shard.path);
    return FilePart{.file = std::move(whole.file),
                    .offset = entry.offset,
                    .size = entry.size,
                    .name = name(file)};
  }

  void read(size_t file, std::string& bytes) const override { read_part(*part(file), bytes); }

 private:
  static bool has_duplicates(const std::vector<std::pair<TarEntry, size_t>>& found) {
    std::set<std::string_view> names;
    for (const auto& [entry, shard] : found) {
      if (!names.insert(entry.name).second) return true;
    }
    return false;
  }

  std::vector<Shard> shards_;
  std::vector<ShardEntry> entries_;
  std::vector<std::string> files_;
  size_t own_folders_ = 0;
};

}  // namespace

bool is_tar(std::string_view start) {
  constexpr size_t kChecksum = 148;  // of 8 octal digits, which count as blanks themselves
  if (start.size() < kHeaderBytes) return false;
  uint64_t sum = 0;
  for (size_t i = 0; i < kHeaderBytes; ++i) {
    const bool blank = i >= kChecksum && i < kChecksum + 8;
    sum += blank ? uint64_t{' '} : static_cast<uint8_t>(start[i]);
  }
  uint64_t stated = 0;
  size_t digits = 0;
  for (const char c : start.substr(kChecksum, 8)) {
    if (c >= '0' && c <= '7') {
      stated = stated * 8 + static_cast<uint64_t>(c - '0');
      ++digits;
    } else if (digits > 0) {
      break;
    }
  }
  return digits > 0 && stated == sum;
}

std::vector<TarEntry> read_tar_directory(const FilePart& archive) {
  HeaderWalk walk(archive);
  std::vector<TarEntry> entries;
  TarEntry entry;
  while (walk.next(entry)) {
    if (!entry.name.empty() && !is_hidden(entry.name)) entries.push_back(entry);
  }
  std::stable_sort(entries.begin(), entries.end(), [](const TarEntry& a, const TarEntry& b) {
    return a.name < b.name;
  });
  std::vector<TarEntry> last;
  for (TarEntry& one : entries) {
    if (!last.empty() && last.back().name == one.name) last.pop_back();
    last.push_back(std::move(one));
  }
  return last;
}

std::unique_ptr<Source> open_tars(const std::vector<std::string>& paths, const StopCheck& stop) {
  return std::make_unique<Tars>(paths, stop);
}

}  // namespace gantrain

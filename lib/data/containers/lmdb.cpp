// SPDX-License-Identifier: Apache-2.0
//
// The library of LMDB maps the file and follows the numbers in it unchecked: of a file that was cut
// off or damaged it ends the process. So its pages are read here, as lmdb.h and mdb.c of LMDB 0.9
// describe them. Nothing is locked and nothing written: folders of data are often read-only, and a
// data set does not change while it is trained on.

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "data/containers/formats.h"
#include "data/containers/source.h"
#include "util/error.h"
#include "util/text.h"
#include "util/wording.h"

namespace gantrain {

namespace {

constexpr uint64_t kMagic = 0xBEEFC0DE;
constexpr uint64_t kVersion = 1;
constexpr size_t kPageHeader = 16;
constexpr size_t kNodeHeader = 8;
constexpr size_t kMetaBytes = kPageHeader + 24 + 2 * 48 + 16;
constexpr uint64_t kNoPage = ~uint64_t{0};
constexpr uint64_t kManyValuesAKey = 4;  // a flag of a database
constexpr int kDeepest = 32;             // of the tree; LMDB itself allows as much

enum PageFlag : uint64_t { kBranch = 1, kLeaf = 2, kOverflow = 4, kMeta = 8, kFixedKeys = 0x20 };
enum NodeFlag : uint64_t { kBigValue = 1, kSubDatabase = 2, kManyValues = 4 };

// The bytes of a page.
class Page : public LittleEndian {
 public:
  using LittleEndian::LittleEndian;

  uint64_t flags() const { return u16(10); }
  size_t size() const { return bytes().size(); }

  // Places of the nodes in the page.
  std::vector<size_t> nodes() const {
    const size_t lower = u16(12);
    std::vector<size_t> places;
    for (size_t at = kPageHeader; at + 2 <= std::min(lower, size()); at += 2) {
      places.push_back(u16(at));
    }
    return places;
  }
  bool holds(size_t at, size_t count) const { return at <= size() && count <= size() - at; }
};

struct Meta {
  uint64_t page_bytes = 0;
  uint64_t flags = 0;
  uint64_t entries = 0;
  uint64_t root = kNoPage;
  uint64_t transaction = 0;
};

class Walk {
 public:
  explicit Walk(const FilePart& file) : file_(file), meta_(newest_meta()) {
    if ((meta_.flags & kManyValuesAKey) != 0) fail_damaged("its keys have several values each");
  }

  std::vector<LmdbEntry> entries() {
    if (meta_.root != kNoPage) enter(meta_.root, 0);
    if (entries_.size() != meta_.entries) fail_damaged("it holds less than it says");
    return std::move(entries_);
  }

 private:
  [[noreturn]] void fail_damaged(std::string_view reason) const {
    fail(Exit::kInput, "{}: broken LMDB: {}", file_.name, reason);
  }

  std::optional<Meta> read_meta(int64_t at) const {
    std::string bytes(kMetaBytes, '\0');
    bytes.resize(file_.read(at, bytes.data(), bytes.size()));
    if (bytes.size() < kMetaBytes) return std::nullopt;
    const Page page(bytes);
    constexpr size_t kStart = kPageHeader;
    if (page.u32(kStart) != kMagic || page.u32(kStart + 4) != kVersion) return std::nullopt;
    constexpr size_t kFree = kStart + 24;  // the database of free pages, which has the page's size
    constexpr size_t kMain = kFree + 48;
    return Meta{.page_bytes = page.u32(kFree),
                .flags = page.u16(kMain + 4),
                .entries = page.u64(kMain + 32),
                .root = page.u64(kMain + 40),
                .transaction = page.u64(kMain + 56)};
  }

  // Two pages take turns; the one with the later transaction counts.
  Meta newest_meta() const {
    const std::optional<Meta> first = read_meta(0);
    if (!first) fail_damaged("its first page is no meta page of version 1");
    const uint64_t bytes = first->page_bytes;
    const bool power = bytes != 0 && (bytes & (bytes - 1)) == 0;
    if (!power || bytes < 256 || bytes > 65536) fail_damaged("its pages have an impossible size");
    const std::optional<Meta> second = read_meta(static_cast<int64_t>(bytes));
    if (!second || second->page_bytes != bytes) fail_damaged("its second page is no meta page");
    return second->transaction > first->transaction ? *second : *first;
  }

  // The pages that are there; the last one that a meta page names may be any number.
  uint64_t pages() const { return static_cast<uint64_t>(file_.size) / meta_.page_bytes; }

  std::string read_page(uint64_t number) {
    if (number >= pages() || ++visited_ > pages()) fail_damaged("its tree of pages is damaged");
    const uint64_t bytes = meta_.page_bytes;
    return file_.bytes(static_cast<int64_t>(number * bytes), bytes);
  }

  void enter(uint64_t number, int depth) {
    if (depth > kDeepest) fail_damaged("its tree of pages is damaged");
    const std::string bytes = read_page(number);
    const Page page(bytes);
    const bool branch = (page.flags() & kBranch) != 0;
    if (!branch && (page.flags() & (kLeaf | kFixedKeys)) != kLeaf) {
      fail_damaged("its tree of pages is damaged");
    }
    size_t used = 0;  // entries that share bytes could make any number of keys of a page
    for (const size_t at : page.nodes()) {
      const size_t key_bytes = page.u16(at + 6);
      used += kNodeHeader + key_bytes;
      if (used > page.size() || !page.holds(at, kNodeHeader + key_bytes)) {
        fail_damaged("an entry leaves its page");
      }
      const uint64_t low = page.u16(at) | page.u16(at + 2) << 16;
      if (branch) {
        enter(low | page.u16(at + 4) << 32, depth + 1);
      } else {
        add(page, number, at, low);
      }
    }
  }

  void add(const Page& page, uint64_t number, size_t at, uint64_t size) {
    const size_t key_bytes = page.u16(at + 6);
    const uint64_t flags = page.u16(at + 4);
    const size_t value = at + kNodeHeader + key_bytes;
    LmdbEntry entry{.key = std::string(page.part(at + kNodeHeader, key_bytes)),
                    .size = static_cast<int64_t>(size)};
    if ((flags & (kSubDatabase | kManyValues)) != 0) {
      fail_damaged(fmt::format("{} is a database of its own, not a picture", entry.key));
    }
    uint64_t place = number * meta_.page_bytes + value;
    if ((flags & kBigValue) != 0) {  // the number of the first of its own pages stands here
      const uint64_t first = page.u64(value);
      if (!page.holds(value, 8) || first >= pages()) fail_damaged("an entry has no pages");
      place = first * meta_.page_bytes + kPageHeader;
    } else if (!page.holds(value, size)) {
      fail_damaged("an entry leaves its page");
    }
    if (place + size > static_cast<uint64_t>(file_.size)) {
      fail_damaged("an entry ends behind the file, which was probably cut off; copy it again");
    }
    entry.offset = static_cast<int64_t>(place);
    entries_.push_back(std::move(entry));
  }

  const FilePart& file_;
  const Meta meta_;
  uint64_t visited_ = 0;  // pages; more than the file has would be a loop
  std::vector<LmdbEntry> entries_;
};

// The size that a key "256-00017" begins with; 0 for others.
int64_t size_in(std::string_view key) {
  const size_t dash = key.find('-');
  if (dash == std::string_view::npos || !parse_int(key.substr(dash + 1))) return 0;
  return std::max<int64_t>(parse_int(key.substr(0, dash)).value_or(0), 0);
}

class Lmdb final : public Source {
 public:
  Lmdb(const FilePart& file, const DataOptions& options) : file_(file), entries_(read_lmdb(file)) {
    choose_size(options.resolution.longer());
    for (LmdbEntry& entry : entries_) {
      files_.push_back(std::move(entry.key));
      entry.key.clear();
    }
  }

  std::string name(size_t file) const override { return file_.name + ":" + files_[file]; }
  bool is_picture(size_t) const override { return true; }
  std::optional<FilePart> part(size_t file) const override {
    return file_.part(entries_[file].offset, entries_[file].size, name(file));
  }

 private:
  void choose_size(int64_t wanted) {
    const auto length = std::ranges::find_if(
        entries_, [](const LmdbEntry& entry) { return entry.key == "length"; });
    kind_ = "LMDB";
    if (length == entries_.end()) return;
    const std::string text =
        file_.bytes(length->offset, size_t(std::min<int64_t>(length->size, 20)));
    const std::optional<int64_t> count = parse_int(text);
    entries_.erase(length);
    std::map<int64_t, int64_t> pictures;  // of each size
    for (const LmdbEntry& entry : entries_) ++pictures[size_in(entry.key)];
    if (pictures.empty() || pictures.begin()->first == 0) return;
    const auto found = pictures.lower_bound(wanted);
    const auto [chosen, there] = found != pictures.end() ? *found : *pictures.rbegin();
    if (count && there < *count) {
      fail(Exit::kInput,
           "{}: has {} of size {}, and its \"length\" says {}; it was not finished",
           file_.name,
           counted(there, "picture"),
           chosen,
           *count);
    }
    std::erase_if(entries_, [chosen = chosen](const LmdbEntry& entry) {
      return size_in(entry.key) != chosen;
    });
    std::vector<std::string> sizes;
    for (const auto& [size, ignored] : pictures) sizes.push_back(fmt::format("{}", size));
    kind_ = fmt::format("LMDB, size {} of {}", chosen, join(sizes, ", "));
  }

  FilePart file_;
  std::vector<LmdbEntry> entries_;  // without their keys
};

}  // namespace

bool is_lmdb(std::string_view start) {
  const Page page(start);
  return start.size() >= kPageHeader + 8 && (page.flags() & kMeta) != 0 &&
         page.u32(kPageHeader) == kMagic;
}

std::vector<LmdbEntry> read_lmdb(const FilePart& file) { return Walk(file).entries(); }

std::unique_ptr<Source> open_lmdb(const FilePart& file, const DataOptions& options) {
  return std::make_unique<Lmdb>(file, options);
}

}  // namespace gantrain

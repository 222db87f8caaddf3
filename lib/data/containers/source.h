// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "data/labels/labels.h"
#include "data/pictures/dataset.h"
#include "image/image.h"

namespace gantrain {

// A file that is read at any place, also by several threads and forked processes at once.
class RandomAccessFile {
 public:
  // Throws UserError(kInput) that names the file as `name`.
  RandomAccessFile(const std::string& path, std::string name);
  // Takes over an open file that has no name in the file system.
  RandomAccessFile(int descriptor, std::string name);
  ~RandomAccessFile();
  RandomAccessFile(const RandomAccessFile&) = delete;
  RandomAccessFile& operator=(const RandomAccessFile&) = delete;

  int64_t size() const { return size_; }  // bytes when it was opened
  // Reads up to `count` bytes at `offset` and returns how many there were: fewer only at the end of
  // the file. Throws UserError(kInput).
  size_t read(int64_t offset, char* out, size_t count) const;

  const std::string& name() const { return name_; }  // for messages
  // Returns stamp_of() its path; "" for a file without a name, which is a new one each time.
  std::string stamp() const;

 private:
  std::string name_;
  int descriptor_ = -1;
  bool has_path_ = true;
  int64_t size_ = 0;
};

// Bytes that follow each other in a file: the whole of it, or one that an archive holds unchanged.
struct FilePart {
  std::shared_ptr<const RandomAccessFile> file;
  int64_t offset = 0;
  int64_t size = 0;
  std::string name;  // for messages

  // Does what RandomAccessFile::read() does, within the part.
  size_t read(int64_t at, char* out, size_t count) const;
  // Returns `count` bytes at `at`. Throws UserError(kInput) where they are not all there.
  std::string bytes(int64_t at, size_t count) const;
  // Returns a part of this part.
  FilePart part(int64_t at, int64_t count, std::string its_name) const {
    return {file, offset + at, count, std::move(its_name)};
  }
};

// Opens the whole of a file. Throws UserError(kInput) that names it.
FilePart whole_file(const std::string& path);

// Numbers in foreign bytes; 0 where they do not lie within the bytes whole.
template <bool kBigEndian>
class EndianNumbers {
 public:
  explicit EndianNumbers(std::string_view bytes) : bytes_(bytes) {}

  uint64_t u8(size_t at) const { return number(at, 1); }
  uint64_t u16(size_t at) const { return number(at, 2); }
  uint64_t u32(size_t at) const { return number(at, 4); }
  uint64_t u64(size_t at) const { return number(at, 8); }
  std::string_view bytes() const { return bytes_; }
  // Returns up to `count` bytes: fewer where they end.
  std::string_view part(size_t at, size_t count) const {
    return at <= bytes_.size() ? bytes_.substr(at, count) : std::string_view();
  }

 private:
  uint64_t number(size_t at, size_t count) const {
    if (bytes_.size() < count || at > bytes_.size() - count) return 0;
    uint64_t value = 0;
    for (size_t i = 0; i < count; ++i) {
      const size_t place = kBigEndian ? at + i : at + count - 1 - i;
      value = value << 8 | static_cast<uint8_t>(bytes_[place]);
    }
    return value;
  }

  std::string_view bytes_;
};
using LittleEndian = EndianNumbers<false>;
using BigEndian = EndianNumbers<true>;

// What tells two contents of a file apart, although not all of it may have been read.
struct FileMark {
  int64_t bytes = 0;
  std::string hash;  // "xxh3:..." by mark_of(), "crc32:..." where an archive's directory has it

  bool operator==(const FileMark&) const = default;
};

// Hash a content of up to 4 MiB, of a larger one the size and the first and last 64 KiB; both
// alike. The second throws UserError(kInput) that names the file.
FileMark mark_of(std::string_view content);
FileMark mark_of(const FilePart& part);

// Returns the mark of a content whose size and CRC-32 are known.
FileMark mark_of_checksum(int64_t bytes, uint32_t checksum);

// Returns a file's size, inode and ctime, which no program can set, as a text; "" where the file
// system does not tell. Copies and touched files have another one.
std::string stamp_of(const std::string& path);

// Larger files are refused before they are read: no picture needs as much.
inline constexpr int64_t kMaxFileBytes = int64_t{1} << 28;

// The files of a folder or archive, or the records of a data file, by position. Immutable; every
// member may be called from any thread, also in a process forked later.
class Source {
 public:
  virtual ~Source() = default;

  // Returns relative paths with '/', sorted bytewise, without hidden files.
  const std::vector<std::string>& files() const { return files_; }
  // Writes the whole content over `bytes`. Here it is that of part(). Throws UserError(kInput) that
  // names the file.
  virtual void read(size_t file, std::string& bytes) const;
  // Returns the file's name for messages.
  virtual std::string name(size_t file) const = 0;

  // Returns where the content lies unchanged in a file; nothing where it must be unpacked. Throws
  // UserError(kInput) that names what cannot be opened.
  virtual std::optional<FilePart> part(size_t) const { return std::nullopt; }

  // Returns the file of that path, or nothing.
  std::optional<size_t> find(std::string_view path) const;

  // Whether the file is meant to be a picture. Here its name says so; in some containers each is.
  // .npy and TIFF are, once take_stacks() was called.
  virtual bool is_picture(size_t file) const;
  void take_stacks() { stacks_ = true; }
  // Whether its files are records of pixels, which no decoder understands.
  virtual bool holds_pixels() const { return false; }
  // Decodes a picture over `image`; `bytes` is memory for the content of its file, used again.
  // Throws UserError(kInput) that names the file.
  virtual void decode(size_t file,
                      const NeededSize& needed,
                      std::string& bytes,
                      Image& image) const;
  // Returns size and channels of a picture, after checking, unless `headers_only`, that decode()
  // would not throw. Throws UserError(kInput) that names the file.
  virtual ImageInfo look(size_t file, bool headers_only) const;

  // Returns the class of every file where the container itself has labels, else no labels.
  const Labels& labels() const { return labels_; }
  // Returns how many leading folders of each path stand for parts of the container.
  size_t own_folders() const { return own_folders_; }
  // Returns words for a description: "CIFAR-10", "12 shards"; "" for plain ones.
  const std::string& kind() const { return kind_; }

  // Returns mark_of() the content; an archive with checksums overrides it. Throws UserError(kInput)
  // as read() does.
  virtual FileMark mark(size_t file) const;
  // Returns a text that is another one after every change of the content, from the file system's
  // notes alone (stamp_of()), or "".
  virtual std::string stamp(size_t file) const;

 protected:
  std::vector<std::string> files_;
  Labels labels_;
  size_t own_folders_ = 0;
  std::string kind_;
  bool stacks_ = false;
};

// Opens what options.path names, told by its content: a folder or zip of pictures, tar archives, an
// LMDB, CIFAR's or MNIST's files, one .npy of several pictures. Where there is no PNG, JPEG or
// WebP, .npy and TIFF are pictures. Files are joined as options.join says. Throws UserError(kInput)
// that names the path, and what is taken where it is none of these, UserError(kStopped) where
// `stop` returns true meanwhile.
std::unique_ptr<Source> open_source(const DataOptions& options, const StopCheck& stop = {});

// Returns the size that all its pictures have; nothing without one. Throws UserError(kInput) that
// names one that differs.
std::optional<Size> common_size(const Source& source);

// Opens every file below `path`, following links, but for the folders of runs. Throws
// UserError(kInput) that names what cannot be read.
std::unique_ptr<Source> open_folder(const std::string& path);

// Opens every entry of a zip archive. Throws UserError(kInput) that names the archive.
std::unique_ptr<Source> open_zip(const std::string& path);

// Throws UserError(kInput) that names the file where it has more than kMaxFileBytes.
void check_file_bytes(const std::string& name, uint64_t bytes);

// Writes the whole of a part over `bytes`. Throws UserError(kInput) that names it where it is cut
// off or fails check_file_bytes().
void read_part(const FilePart& part, std::string& bytes);

// Whether a part of the path begins with a dot or is macOS' "__MACOSX".
bool is_hidden(std::string_view path);

}  // namespace gantrain

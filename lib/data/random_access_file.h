// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

namespace gantrain {

// A file that is read at any place. It has no position of its own, so that threads and forked
// processes may read it at the same time.
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
  // Reads up to `count` bytes that begin at `offset`, and returns how many there were: fewer only
  // at the end of the file. Throws UserError(kInput).
  size_t read(int64_t offset, char* out, size_t count) const;

  const std::string& name() const { return name_; }  // for messages
  // Returns what stamp_of() in data/file_mark.h returns for its path; "" for a file without a name,
  // which is a new one each time.
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
  // Returns `count` bytes that begin at `at`. Throws UserError(kInput) where they are not all
  // there.
  std::string bytes(int64_t at, size_t count) const;
};

// Opens the whole of a file. Throws UserError(kInput) that names it.
FilePart whole_file(const std::string& path);

}  // namespace gantrain

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace gantrain {

// A file that is read at any place. It has no position of its own, so that threads and forked
// processes may read it at the same time.
class RandomAccessFile {
 public:
  // Throws UserError(kInput) that names the file as `name`.
  RandomAccessFile(const std::string& path, std::string name);
  ~RandomAccessFile();
  RandomAccessFile(const RandomAccessFile&) = delete;
  RandomAccessFile& operator=(const RandomAccessFile&) = delete;

  int64_t size() const { return size_; }  // bytes when it was opened
  // Reads up to `count` bytes that begin at `offset`, and returns how many there were: fewer only
  // at the end of the file. Throws UserError(kInput).
  size_t read(int64_t offset, char* out, size_t count) const;

 private:
  std::string name_;
  int descriptor_ = -1;
  int64_t size_ = 0;
};

}  // namespace gantrain

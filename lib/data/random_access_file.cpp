// SPDX-License-Identifier: Apache-2.0
#include "data/random_access_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "util/error.h"

namespace gantrain {

RandomAccessFile::RandomAccessFile(const std::string& path, std::string name)
    : name_(std::move(name)), descriptor_(::open(path.c_str(), O_RDONLY | O_CLOEXEC)) {
  if (descriptor_ < 0) fail(Exit::kInput, "{}: cannot be opened: {}", name_, errno_text());
  struct stat status = {};
  if (::fstat(descriptor_, &status) == 0) size_ = status.st_size;
}

RandomAccessFile::RandomAccessFile(int descriptor, std::string name)
    : name_(std::move(name)), descriptor_(descriptor), has_path_(false) {
  struct stat status = {};
  if (::fstat(descriptor_, &status) == 0) size_ = status.st_size;
}

RandomAccessFile::~RandomAccessFile() { ::close(descriptor_); }

size_t RandomAccessFile::read(int64_t offset, char* out, size_t count) const {
  size_t done = 0;
  while (done < count) {
    const ssize_t got =
        ::pread(descriptor_, out + done, count - done, offset + static_cast<int64_t>(done));
    if (got == 0) break;
    if (got > 0) {
      done += static_cast<size_t>(got);
    } else if (errno != EINTR) {
      fail(Exit::kInput, "{}: cannot be read: {}", name_, errno_text());
    }
  }
  return done;
}

size_t FilePart::read(int64_t at, char* out, size_t count) const {
  if (at < 0 || at >= size) return 0;
  return file->read(offset + at, out, std::min(count, static_cast<size_t>(size - at)));
}

std::string FilePart::bytes(int64_t at, size_t count) const {
  const bool inside = at >= 0 && at <= size && count <= static_cast<size_t>(size - at);
  std::string result(inside ? count : 0, '\0');
  if (!inside || read(at, result.data(), count) != count) {
    fail(Exit::kInput, "{}: ends too early, the file was probably cut off", name);
  }
  return result;
}

FilePart whole_file(const std::string& path) {
  auto file = std::make_shared<const RandomAccessFile>(path, path);
  const int64_t size = file->size();
  return {.file = std::move(file), .offset = 0, .size = size, .name = path};
}

}  // namespace gantrain

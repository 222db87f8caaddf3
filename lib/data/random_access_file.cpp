// SPDX-License-Identifier: Apache-2.0
#include "data/random_access_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

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

}  // namespace gantrain

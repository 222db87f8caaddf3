// SPDX-License-Identifier: Apache-2.0
#include "fuzz/fuzz_input.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <stdexcept>

namespace gantrain {

namespace {

void write_all(int descriptor, std::string_view content) {
  while (!content.empty()) {
    const ssize_t count = ::write(descriptor, content.data(), content.size());
    if (count < 0) throw std::runtime_error("no memory for the input");
    content.remove_prefix(static_cast<size_t>(count));
  }
}

// Where files lie in memory, if there is such a place.
std::filesystem::path fast_folder() {
  return access("/dev/shm", W_OK) == 0 ? "/dev/shm" : std::filesystem::temp_directory_path();
}

}  // namespace

MemoryFile::MemoryFile(std::string_view content) : descriptor_(memfd_create("input", MFD_CLOEXEC)) {
  if (descriptor_ < 0) throw std::runtime_error("memfd_create failed");
  write_all(descriptor_, content);
}

MemoryFile::~MemoryFile() { close(descriptor_); }

std::string MemoryFile::path() const { return fmt::format("/proc/self/fd/{}", descriptor_); }

MemoryFolder::MemoryFolder() {
  std::string name = (fast_folder() / "gantrain-fuzz-XXXXXX").string();
  if (mkdtemp(name.data()) == nullptr) throw std::runtime_error("no temporary folder");
  root_ = name;
}

MemoryFolder::~MemoryFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(root_, ignored);
}

std::string MemoryFolder::write(std::string_view name, std::string_view content) const {
  const std::filesystem::path path = root_ / name;
  std::ofstream(path, std::ios::binary)
      .write(content.data(), static_cast<std::streamsize>(content.size()));
  return path.string();
}

uint8_t InputReader::byte() {
  if (left_.empty()) return 0;
  const auto value = static_cast<uint8_t>(left_.front());
  left_.remove_prefix(1);
  return value;
}

std::string_view InputReader::until(char end) {
  const size_t at = std::min(left_.find(end), left_.size());
  const std::string_view part = left_.substr(0, at);
  left_.remove_prefix(std::min(at + 1, left_.size()));
  return part;
}

}  // namespace gantrain

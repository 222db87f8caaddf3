// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <string_view>

#include "util/error.h"

// What libFuzzer calls for each input; every fuzz target defines it. Returns 0.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace gantrain {

// The bytes of an input as text.
inline std::string_view text_of_input(const uint8_t* data, size_t size) {
  return {reinterpret_cast<const char*>(data), size};
}

// Runs a reader. Returns false where it refused its input by UserError, which is a reader's only
// way to say no: any other exception escapes and ends the fuzzer, and so does a refusal without a
// reason or a reason that does not name `source`.
template <class Action>
bool accepts(std::string_view source, Action&& action) {
  try {
    action();
    return true;
  } catch (const UserError& error) {
    if (std::string_view(error.what()).find(source) == std::string_view::npos)
      throw std::logic_error(error.what());
    return false;
  }
}

// Ends the fuzzer where a reader accepted its input and broke what it promises about the result.
inline void require(bool promise, const char* what) {
  if (!promise) throw std::logic_error(what);
}

// A file that lives in memory, for readers that want a path.
class MemoryFile {
 public:
  explicit MemoryFile(std::string_view content);
  ~MemoryFile();
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;

  std::string path() const;

 private:
  int descriptor_ = -1;
};

// A folder for readers that look for files beside each other; removed at the end.
class MemoryFolder {
 public:
  MemoryFolder();
  ~MemoryFolder();
  MemoryFolder(const MemoryFolder&) = delete;
  MemoryFolder& operator=(const MemoryFolder&) = delete;

  // Writes a file and returns its path.
  std::string write(std::string_view name, std::string_view content) const;
  std::string path() const { return root_.string(); }

 private:
  std::filesystem::path root_;
};

// Takes numbers and parts off the front of an input; zeros and empty parts behind its end.
class InputReader {
 public:
  explicit InputReader(std::string_view bytes) : left_(bytes) {}

  uint8_t byte();
  // Returns everything up to the next `end`, which is dropped.
  std::string_view until(char end);
  std::string_view rest() const { return left_; }
  bool empty() const { return left_.empty(); }

 private:
  std::string_view left_;
};

}  // namespace gantrain

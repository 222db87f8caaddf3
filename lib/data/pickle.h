// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "data/random_access_file.h"

namespace gantrain {

// A value that a Python pickle holds.
struct PickledItem {
  enum class Kind { kNumber, kText, kTrue, kFalse, kOther };
  Kind kind = Kind::kOther;
  int64_t number = 0;
  int64_t offset = 0;     // where the bytes of a text lie in the file
  int64_t size = 0;       // how many these are
  std::string text = {};  // the same, where it is short
};

// Reads the values of a pickle one after the other, without building or calling anything: enough
// for data that lies in plain lists, dictionaries and arrays of bytes (protocols 2 to 5 as Python's
// pickletools describes them). It takes constant memory.
class PickleReader {
 public:
  explicit PickleReader(FilePart part);

  // Returns the next value; nothing at the end. Marks, memo entries and all that builds objects
  // count as nothing, tuples and globals as kOther. Throws UserError(kInput) that names the file
  // for operations of other kinds, and where it is cut off.
  std::optional<PickledItem> next();

 private:
  char take();
  int64_t take_number(size_t bytes);
  PickledItem take_text(size_t length_bytes);
  void skip(int64_t count);
  void skip_line();

  FilePart part_;
  int64_t at_ = 0;
  std::string block_;
  int64_t block_at_ = 0;
};

}  // namespace gantrain

// SPDX-License-Identifier: Apache-2.0
#include "data/pickle.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "util/error.h"

namespace gantrain {

namespace {

constexpr size_t kBlock = size_t{64} << 10;
constexpr int64_t kShort = 1000;  // bytes of a text that is handed out

// Operations without an argument that hold no value of their own: MARK, STOP is apart, EMPTY_DICT,
// EMPTY_LIST, EMPTY_TUPLE, APPEND(S), SETITEM(S), BUILD, LIST, DICT, MEMOIZE.
constexpr std::string_view kNothing = "(}])aesubld\x94";
// And those that hold one which is of no use: TUPLE, TUPLE1 to 3, REDUCE, NONE, STACK_GLOBAL,
// NEWOBJ.
constexpr std::string_view kOther = "t\x85\x86\x87RN\x93\x81";

[[noreturn]] void fail_kind(const FilePart& part, int operation) {
  fail(Exit::kInput,
       "{}: not a pickle of plain lists and arrays (operation {:#04x})",
       part.name,
       operation);
}

}  // namespace

PickleReader::PickleReader(FilePart part) : part_(std::move(part)) {}

char PickleReader::take() {
  if (at_ < block_at_ || at_ >= block_at_ + static_cast<int64_t>(block_.size())) {
    block_.resize(kBlock);
    block_.resize(part_.read(at_, block_.data(), block_.size()));
    block_at_ = at_;
    if (block_.empty()) {
      fail(Exit::kInput, "{}: ends too early, the file was probably cut off", part_.name);
    }
  }
  return block_[static_cast<size_t>(at_++ - block_at_)];
}

// Little-endian; of four bytes a signed number.
int64_t PickleReader::take_number(size_t bytes) {
  uint64_t value = 0;
  for (size_t i = 0; i < bytes; ++i) {
    value |= static_cast<uint64_t>(static_cast<uint8_t>(take())) << (8 * i);
  }
  return bytes == 4 ? static_cast<int32_t>(value) : static_cast<int64_t>(value);
}

void PickleReader::skip(int64_t count) {
  if (count < 0 || count > part_.size - at_) {
    fail(Exit::kInput, "{}: ends too early, the file was probably cut off", part_.name);
  }
  at_ += count;
}

void PickleReader::skip_line() {
  while (take() != '\n') {
  }
}

PickledItem PickleReader::take_text(size_t length_bytes) {
  PickledItem value{.kind = PickledItem::Kind::kText, .size = take_number(length_bytes)};
  value.offset = at_;
  skip(value.size);
  if (value.size <= kShort) value.text = part_.bytes(value.offset, static_cast<size_t>(value.size));
  return value;
}

std::optional<PickledItem> PickleReader::next() {
  using Kind = PickledItem::Kind;
  while (true) {
    const char operation = take();
    if (kNothing.find(operation) != std::string_view::npos) continue;
    if (kOther.find(operation) != std::string_view::npos) return PickledItem{};
    switch (static_cast<uint8_t>(operation)) {
      case '.':  // STOP
        return std::nullopt;
      case 0x80:  // PROTO
      case 'q':   // BINPUT
        skip(1);
        continue;
      case 'r':  // LONG_BINPUT
        skip(4);
        continue;
      case 0x95:  // FRAME
        skip(8);
        continue;
      case 'h':  // BINGET
        skip(1);
        return PickledItem{};
      case 'j':  // LONG_BINGET
        skip(4);
        return PickledItem{};
      case 'c':  // GLOBAL
        skip_line();
        skip_line();
        return PickledItem{};
      case 'G':  // BINFLOAT
        skip(8);
        return PickledItem{};
      case 0x88:
        return PickledItem{.kind = Kind::kTrue};
      case 0x89:
        return PickledItem{.kind = Kind::kFalse};
      case 'K':
        return PickledItem{.kind = Kind::kNumber, .number = take_number(1)};
      case 'M':
        return PickledItem{.kind = Kind::kNumber, .number = take_number(2)};
      case 'J':
        return PickledItem{.kind = Kind::kNumber, .number = take_number(4)};
      case 'U':   // SHORT_BINSTRING
      case 'C':   // SHORT_BINBYTES
      case 0x8c:  // SHORT_BINUNICODE
        return take_text(1);
      case 'T':  // BINSTRING
      case 'B':  // BINBYTES
      case 'X':  // BINUNICODE
        return take_text(4);
      case 0x8d:  // BINUNICODE8
      case 0x8e:  // BINBYTES8
      case 0x96:  // BYTEARRAY8
        return take_text(8);
      default:
        fail_kind(part_, static_cast<uint8_t>(operation));
    }
  }
}

}  // namespace gantrain

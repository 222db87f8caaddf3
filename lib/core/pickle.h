// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <deque>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace gantrain {

enum class PickleKind {
  kNone,
  kBool,
  kInt,
  kBigInt,  // outside int64
  kFloat,
  kString,
  kBytes,
  kTuple,
  kList,
  kSet,
  kDict,
  kGlobal,      // a function or class, named and never called
  kObject,      // what calling a global would have given
  kPersistent,  // what the file's writer stored elsewhere
};

// A value as it stands in the file. Lists and dicts may hold themselves: who walks down must count.
struct PickleValue {
  PickleKind kind = PickleKind::kNone;
  size_t position = 0;    // byte at which it was made
  int64_t integer = 0;    // kInt, kBool
  double real = 0;        // kFloat
  std::string_view text;  // kString, kBytes; kBigInt: two's complement, lowest byte first;
                          // kGlobal, kObject: "module.name"
  std::vector<const PickleValue*> items;   // kTuple, kList, kSet; kDict, kObject: key, value, ...
  const PickleValue* arguments = nullptr;  // kObject: a tuple; kPersistent: the id
  const PickleValue* state = nullptr;      // kObject, kDict: what BUILD gave, or null

  // The value of a dict's or object's last item with this text as key, or null.
  const PickleValue* find(std::string_view key) const;
  // "a dict", "torch.Size": for messages, printable whatever the file holds.
  std::string describe() const;
};

struct PickleRules {
  std::string source;                          // file, for messages
  std::set<std::string, std::less<>> globals;  // may be named, beside those of Python's plain data
  std::string hint;                            // ends the message about any other global
  bool persistent_ids = false;
  int64_t max_operations = 2'000'000;
};

// All values of one pickle; their texts lie here or in the content that was read.
struct Pickle {
  Pickle() = default;
  Pickle(Pickle&&) = default;
  Pickle& operator=(Pickle&&) = default;
  Pickle(const Pickle&) = delete;
  Pickle& operator=(const Pickle&) = delete;

  const PickleValue* root = nullptr;
  size_t end = 0;  // bytes read, STOP included
  std::deque<PickleValue> values;
  std::deque<std::string> texts;
};

// Reads the pickle at the start of `content` (protocols 0 to 5), which must outlive the result.
// Nothing is executed or imported. Plain data (OrderedDict, set, bytes, ...) comes as values, all
// else as kObject. Memory and time are bounded by the content's size and max_operations. Throws
// UserError(kInput) naming source, byte and what is wrong: a global that is not allowed, an unknown
// opcode, lengths outside the content, an empty stack.
Pickle parse_pickle(std::string_view content, const PickleRules& rules);

}  // namespace gantrain

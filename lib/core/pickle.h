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
  kObject,      // the result that calling a global would have
  kPersistent,  // a reference to something stored outside the pickle
};

// A value of a pickle. Lists and dicts may contain themselves, so code that walks down a value must
// bound its depth.
struct PickleValue {
  PickleKind kind = PickleKind::kNone;
  size_t position = 0;    // byte of the opcode that made the value
  int64_t integer = 0;    // kInt, kBool
  double real = 0;        // kFloat
  std::string_view text;  // kString, kBytes; kBigInt: two's complement, lowest byte first;
                          // kGlobal, kObject: "module.name"
  std::vector<const PickleValue*> items;   // kTuple, kList, kSet; kDict, kObject: key, value, ...
  const PickleValue* arguments = nullptr;  // kObject: a tuple; kPersistent: the id
  const PickleValue* state = nullptr;      // kObject, kDict: argument of BUILD, or null

  // Returns the value of the last item of a dict or object whose key is this text, or null.
  const PickleValue* find(std::string_view key) const;
  // Describes the value for messages: "a dict", "torch.Size". The text is printable whatever the
  // file holds.
  std::string describe() const;
};

struct PickleRules {
  std::string source;  // the file's name, for messages
  // Allowed beside Python's plain data: "module.name", or "module.*" for all that lies in it.
  std::set<std::string, std::less<>> globals;
  std::string hint;  // ends the message about any other global
  bool persistent_ids = false;
  int64_t max_operations = 2'000'000;
};

// All values of one pickle. Their texts lie here or in the content that was read.
struct Pickle {
  Pickle() = default;
  Pickle(Pickle&&) = default;
  Pickle& operator=(Pickle&&) = default;
  Pickle(const Pickle&) = delete;
  Pickle& operator=(const Pickle&) = delete;

  const PickleValue* root = nullptr;
  size_t end = 0;  // number of bytes read, STOP included
  std::deque<PickleValue> values;
  std::deque<std::string> texts;
};

// Reads the pickle (protocols 0 to 5) at the start of `content`, which must outlive the result.
// Nothing is executed or imported. Plain data (OrderedDict, set, bytes, ...) becomes values;
// everything else that a pickle would construct becomes a kObject. Memory and time are bounded by
// the content's size and max_operations. Throws UserError(kInput) that names the source, the byte
// and what is wrong: a global that is not allowed, an unknown opcode, a length outside the content,
// an empty stack.
Pickle parse_pickle(std::string_view content, const PickleRules& rules);

}  // namespace gantrain

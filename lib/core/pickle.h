// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
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

  const PickleValue* root = nullptr;
  size_t end = 0;  // number of bytes read, STOP included
  std::deque<PickleValue> values;
  std::deque<std::string> texts;
};

// Reads the pickle (protocols 0 to 5) at the start of `content`, which must outlive the result.
// Nothing is executed or imported. Plain data (OrderedDict, set, bytes, ...) becomes values;
// everything else that a pickle would construct becomes a kObject. Memory and time are bounded by
// the content's size and max_operations. Throws UserError(kInput) with source, byte and reason.
Pickle parse_pickle(std::string_view content, const PickleRules& rules);

// Readers of the text forms of old pickle protocols, which return nothing if a text has not theirs.

// Reads a quoted literal of Python 2, for example 'it\'s' or "a\x00b". The escapes \\ \' \" \n \r
// \t \xNN are known.
std::optional<std::string> unquote_python(std::string_view literal);

// Turns Latin-1 with \uXXXX and \UXXXXXXXX, the form of texts in protocol 0, into UTF-8.
std::optional<std::string> decode_raw_unicode(std::string_view text);

// Turns UTF-8 whose characters are all below 256 into bytes, which protocols 0 to 2 write so.
std::optional<std::string> utf8_to_latin1(std::string_view text);

// Whether a name is a global of Python's plain data, which any pickle may use: builtins.set, ...
bool is_plain_global(std::string_view name);

// Turns `object`, a kObject of a plain global, into the value that calling the global would give.
// Objects of other globals stay as they are. Texts that are made on the way are stored in `texts`.
// Returns what is wrong with the arguments, or "".
std::string evaluate_plain(PickleValue& object, std::deque<std::string>& texts);

}  // namespace gantrain

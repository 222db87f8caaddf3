// SPDX-License-Identifier: Apache-2.0
#include "core/pickle.h"

#include <bit>
#include <initializer_list>
#include <unordered_map>
#include <utility>

#include "util/error.h"
#include "util/text.h"

namespace gantrain {

namespace {

// The opcodes of pickles, with their names in Python's pickletools.
enum PickleOp : uint8_t {
  kOpMark = '(',
  kOpStop = '.',
  kOpPop = '0',
  kOpPopMark = '1',
  kOpDup = '2',
  kOpBinBytes = 'B',
  kOpShortBinBytes = 'C',
  kOpFloatText = 'F',
  kOpBinFloat = 'G',
  kOpIntText = 'I',
  kOpBinInt = 'J',
  kOpBinInt1 = 'K',
  kOpLongText = 'L',
  kOpBinInt2 = 'M',
  kOpNone = 'N',
  kOpPersId = 'P',
  kOpBinPersId = 'Q',
  kOpReduce = 'R',
  kOpStringText = 'S',
  kOpBinString = 'T',
  kOpShortBinString = 'U',
  kOpUnicodeText = 'V',
  kOpBinUnicode = 'X',
  kOpEmptyList = ']',
  kOpAppend = 'a',
  kOpBuild = 'b',
  kOpGlobal = 'c',
  kOpDict = 'd',
  kOpAppends = 'e',
  kOpGet = 'g',
  kOpBinGet = 'h',
  kOpInst = 'i',
  kOpLongBinGet = 'j',
  kOpList = 'l',
  kOpObj = 'o',
  kOpPut = 'p',
  kOpBinPut = 'q',
  kOpLongBinPut = 'r',
  kOpSetItem = 's',
  kOpTuple = 't',
  kOpSetItems = 'u',
  kOpEmptyTuple = ')',
  kOpEmptyDict = '}',
  kOpProto = 0x80,
  kOpNewObj = 0x81,
  kOpTuple1 = 0x85,
  kOpTuple2 = 0x86,
  kOpTuple3 = 0x87,
  kOpNewTrue = 0x88,
  kOpNewFalse = 0x89,
  kOpLong1 = 0x8a,
  kOpLong4 = 0x8b,
  kOpShortBinUnicode = 0x8c,
  kOpBinUnicode8 = 0x8d,
  kOpBinBytes8 = 0x8e,
  kOpEmptySet = 0x8f,
  kOpAddItems = 0x90,
  kOpFrozenSet = 0x91,
  kOpNewObjEx = 0x92,
  kOpStackGlobal = 0x93,
  kOpMemoize = 0x94,
  kOpFrame = 0x95,
  kOpByteArray8 = 0x96,
};

using Kind = PickleKind;

// Python's pickle machine without its calls: the bytes not read yet, the stack with its marks, and
// the values made so far. Opcodes come in groups; each returns false for an opcode of another
// group. Every mistake in the file ends in bad(), which throws UserError(kInput) with the position
// of the current opcode.
class Machine {
 public:
  Machine(std::string_view content, const PickleRules& rules, Pickle& out)
      : content_(content), rules_(rules), out_(out) {}

  const PickleValue* run() {
    for (uint8_t op = next_opcode(); op != kOpStop; op = next_opcode()) {
      if (number(op) || text(op) || container(op) || memo(op) || object(op)) continue;
      bad("0x{:02x} is no opcode of a pickle: {}",
          op,
          start_ == 0 ? "the file is something else" : "damaged?");
    }
    return pop();
  }
  size_t end() const { return at_; }

 private:
  template <class... Args>
  [[noreturn]] void bad(fmt::format_string<Args...> format, Args&&... args) const {
    fail(Exit::kInput,
         "{}: byte {}: {}",
         rules_.source,
         start_,
         fmt::format(format, std::forward<Args>(args)...));
  }

  // Counts operations against the limit. All memory and time is proportional to the count and to
  // the content's size.
  void charge(size_t operations) {
    operations_ += static_cast<int64_t>(operations);
    if (operations_ > rules_.max_operations) bad("more than {} values", rules_.max_operations);
  }

  uint8_t next_opcode() {
    start_ = at_;
    charge(1);
    return static_cast<uint8_t>(take(1)[0]);
  }
  size_t left() const { return content_.size() - at_; }

  std::string_view take(uint64_t count) {
    if (count > left()) bad("{} bytes are needed, {} are left: truncated?", count, left());
    at_ += count;
    return content_.substr(at_ - count, count);
  }
  uint64_t take_number(int bytes) {  // lowest byte first
    uint64_t value = 0;
    int shift = 0;
    for (const char byte : take(static_cast<uint64_t>(bytes))) {
      value |= uint64_t{static_cast<unsigned char>(byte)} << shift;
      shift += 8;
    }
    return value;
  }
  std::string_view take_counted(int bytes) { return take(take_number(bytes)); }
  std::string_view take_line() {
    const size_t end = content_.find('\n', at_);
    if (end == std::string_view::npos) bad("a line without its end: truncated?");
    const std::string_view text = take(end - at_);
    take(1);
    return text;
  }

  PickleValue* push(PickleKind kind) {
    PickleValue& value = out_.values.emplace_back();
    value.kind = kind;
    value.position = start_;
    stack_.push_back(&value);
    return &value;
  }
  void push_again(PickleValue* value) { stack_.push_back(value); }
  void push_int(int64_t value, PickleKind kind = PickleKind::kInt) { push(kind)->integer = value; }
  void push_text(PickleKind kind, std::string_view text) { push(kind)->text = text; }
  void push_items(PickleKind kind, std::vector<const PickleValue*> items) {
    push(kind)->items = std::move(items);
  }

  // Whether the stack is empty above the last mark. Values below that mark cannot be reached.
  bool empty() const { return stack_.size() <= (marks_.empty() ? 0 : marks_.back()); }
  PickleValue* top() {
    if (empty()) bad("nothing on the stack");
    return stack_.back();
  }
  PickleValue* pop() {
    PickleValue* value = top();
    stack_.pop_back();
    return value;
  }
  std::vector<const PickleValue*> pop(size_t count) {
    std::vector<const PickleValue*> items(count);
    for (size_t i = count; i > 0; --i) items[i - 1] = pop();
    return items;
  }
  void push_mark() { marks_.push_back(stack_.size()); }
  bool mark_is_on_top() const { return !marks_.empty() && marks_.back() == stack_.size(); }
  std::vector<const PickleValue*> pop_to_mark() {
    if (marks_.empty()) bad("no mark on the stack");
    const auto first = stack_.begin() + static_cast<std::ptrdiff_t>(marks_.back());
    std::vector<const PickleValue*> items(first, stack_.end());
    stack_.erase(first, stack_.end());
    marks_.pop_back();
    return items;
  }
  // Adds items to the value on top of the stack, which must be of one of these kinds.
  void extend_top(const std::vector<const PickleValue*>& items,
                  std::initializer_list<PickleKind> kinds) {
    std::vector<const PickleValue*>& target = top()->items;
    if (!contains(kinds, top()->kind)) bad("items are given to {}", top()->describe());
    target.insert(target.end(), items.begin(), items.end());
  }

  std::string_view keep(std::string text) { return out_.texts.emplace_back(std::move(text)); }

  bool number(uint8_t op) {
    if (op == kOpNone) {
      push(Kind::kNone);
    } else if (op == kOpNewTrue || op == kOpNewFalse) {
      push_int(op == kOpNewTrue, Kind::kBool);
    } else if (op == kOpBinInt) {
      push_int(static_cast<int32_t>(take_number(4)));
    } else if (op == kOpBinInt1 || op == kOpBinInt2) {
      push_int(static_cast<int64_t>(take_number(op == kOpBinInt1 ? 1 : 2)));
    } else if (op == kOpLong1 || op == kOpLong4) {
      push_long(take_counted(op == kOpLong1 ? 1 : 4));
    } else if (op == kOpIntText || op == kOpLongText) {
      push_int_text(take_line());
    } else if (op == kOpBinFloat) {  // highest byte first
      push(Kind::kFloat)->real = std::bit_cast<double>(__builtin_bswap64(take_number(8)));
    } else if (op == kOpFloatText) {
      const auto value = parse_double(take_line());
      if (!value) bad("not a number");
      push(Kind::kFloat)->real = *value;
    } else {
      return false;
    }
    return true;
  }

  // Two's complement, lowest byte first; no bytes are 0.
  void push_long(std::string_view bytes) {
    if (bytes.size() > 8) return push_text(Kind::kBigInt, bytes);
    uint64_t value = !bytes.empty() && (bytes.back() & 0x80) != 0 ? ~uint64_t{0} : 0;
    for (size_t i = bytes.size(); i > 0; --i)
      value = value << 8 | static_cast<unsigned char>(bytes[i - 1]);
    push_int(static_cast<int64_t>(value));
  }

  void push_int_text(std::string_view text) {
    if (text == "00" || text == "01") return push_int(text == "01", Kind::kBool);
    if (ends_with(text, "L")) text.remove_suffix(1);
    const auto value = parse_int(text);
    if (!value) bad("{} is no integer of 64 bits", printable(text));
    push_int(*value);
  }

  bool text(uint8_t op) {
    if (op == kOpShortBinBytes || op == kOpBinBytes) {
      push_text(Kind::kBytes, take_counted(op == kOpBinBytes ? 4 : 1));
    } else if (op == kOpBinBytes8 || op == kOpByteArray8) {
      push_text(Kind::kBytes, take_counted(8));
    } else if (op == kOpShortBinString || op == kOpShortBinUnicode) {
      push_text(Kind::kString, take_counted(1));
    } else if (op == kOpBinString || op == kOpBinUnicode) {
      push_text(Kind::kString, take_counted(4));
    } else if (op == kOpBinUnicode8) {
      push_text(Kind::kString, take_counted(8));
    } else if (op == kOpStringText) {
      push_decoded(unquote_python(trim(take_line())));
    } else if (op == kOpUnicodeText) {
      push_decoded(decode_raw_unicode(take_line()));
    } else {
      return false;
    }
    return true;
  }

  void push_decoded(const std::optional<std::string>& text) {
    if (!text) bad("text that is not written as this opcode has it");
    push_text(Kind::kString, keep(*text));
  }

  bool container(uint8_t op) {
    if (op == kOpEmptyTuple) {
      push(Kind::kTuple);
    } else if (op == kOpTuple1 || op == kOpTuple2 || op == kOpTuple3) {
      push_items(Kind::kTuple, pop(size_t{op} - kOpTuple1 + 1));
    } else if (op == kOpTuple) {
      push_items(Kind::kTuple, pop_to_mark());
    } else if (op == kOpEmptyList) {
      push(Kind::kList);
    } else if (op == kOpList) {
      push_items(Kind::kList, pop_to_mark());
    } else if (op == kOpEmptySet) {
      push(Kind::kSet);
    } else if (op == kOpFrozenSet) {
      push_items(Kind::kSet, pop_to_mark());
    } else if (op == kOpEmptyDict) {
      push(Kind::kDict);
    } else if (op == kOpDict) {
      const auto items = pop_to_mark();
      push(Kind::kDict);
      add_pairs(items);
    } else if (op == kOpAppend) {
      extend_top(pop(1), {Kind::kList});
    } else if (op == kOpAppends || op == kOpAddItems) {
      extend_top(pop_to_mark(), {op == kOpAppends ? Kind::kList : Kind::kSet});
    } else if (op == kOpSetItem) {
      add_pairs(pop(2));
    } else if (op == kOpSetItems) {
      add_pairs(pop_to_mark());
    } else {
      return false;
    }
    return true;
  }

  void add_pairs(const std::vector<const PickleValue*>& items) {
    if (items.size() % 2 != 0) bad("a key without its value");
    extend_top(items, {Kind::kDict, Kind::kObject});
  }

  bool memo(uint8_t op) {
    if (op == kOpMark) {
      push_mark();
    } else if (op == kOpPop) {
      if (mark_is_on_top()) {
        pop_to_mark();
      } else {
        pop();
      }
    } else if (op == kOpPopMark) {
      pop_to_mark();
    } else if (op == kOpDup) {
      push_again(top());
    } else if (op == kOpPut) {
      memo_[memo_number()] = top();
    } else if (op == kOpBinPut || op == kOpLongBinPut) {
      memo_[take_number(op == kOpBinPut ? 1 : 4)] = top();
    } else if (op == kOpMemoize) {
      memo_.insert_or_assign(memo_.size(), top());
    } else if (op == kOpGet) {
      recall(memo_number());
    } else if (op == kOpBinGet || op == kOpLongBinGet) {
      recall(take_number(op == kOpBinGet ? 1 : 4));
    } else if (op == kOpProto) {
      if (const uint64_t protocol = take_number(1); protocol > 5)
        bad("protocol {}; 0 to 5 are known", protocol);
    } else if (op == kOpFrame) {
      if (const uint64_t size = take_number(8); size > left())
        bad("a frame of {} bytes, {} are left: truncated?", size, left());
    } else {
      return false;
    }
    return true;
  }

  uint64_t memo_number() {
    const auto index = parse_int(take_line());
    if (!index || *index < 0) bad("no number of the memo");
    return static_cast<uint64_t>(*index);
  }

  void recall(uint64_t index) {
    const auto known = memo_.find(index);
    if (known == memo_.end()) bad("the memo has no {}", index);
    push_again(known->second);
  }

  bool object(uint8_t op) {
    if (op == kOpGlobal) {
      const std::string_view module = take_line();
      push_global(module, take_line());
    } else if (op == kOpStackGlobal) {
      const auto names = pop(2);
      for (const PickleValue* name : names) {
        if (name->kind != Kind::kString) bad("a global's name is {}", name->describe());
      }
      push_global(names[0]->text, names[1]->text);
    } else if (op == kOpReduce || op == kOpNewObj || op == kOpNewObjEx) {
      if (op == kOpNewObjEx && !pop()->items.empty()) bad("a class is called with keywords");
      const auto called = pop(2);
      call(called[0], called[1]);
    } else if (op == kOpInst || op == kOpObj) {
      call_to_mark(op);
    } else if (op == kOpBuild) {
      const PickleValue* state = pop();
      PickleValue* object = top();
      if (object->kind != Kind::kObject && object->kind != Kind::kDict)
        bad("a state is given to {}", object->describe());
      object->state = state;
    } else if (op == kOpPersId) {
      push_text(Kind::kString, take_line());
      push_persistent(pop());
    } else if (op == kOpBinPersId) {
      push_persistent(pop());
    } else {
      return false;
    }
    return true;
  }

  // By its name, or by that of a module around it.
  bool is_allowed(const std::string& full) const {
    const auto& globals = rules_.globals;
    bool allowed = globals.count(full) != 0;
    for (size_t dot = full.find('.'); !allowed && dot != full.npos; dot = full.find('.', dot + 1))
      allowed = globals.count(full.substr(0, dot) + ".*") != 0;
    return allowed;
  }

  void push_global(std::string_view module, std::string_view name) {
    if (module == "__builtin__") module = "builtins";  // Python 2's names
    if (module == "copy_reg") module = "copyreg";
    const std::string full = fmt::format("{}.{}", module.substr(0, 200), name.substr(0, 200));
    if (!is_allowed(full) && !is_plain_global(full))
      bad("global {} is not allowed{}", printable(full), rules_.hint);
    push_text(Kind::kGlobal, keep(full));
  }

  // Pushes what the call would give.
  void call(const PickleValue* callee, const PickleValue* arguments) {
    if (callee->kind != Kind::kGlobal) bad("{} is called", callee->describe());
    if (arguments->kind != Kind::kTuple) bad("the arguments are {}", arguments->describe());
    PickleValue* result = push(Kind::kObject);
    result->text = callee->text;
    result->arguments = arguments;
    const std::string misfit = evaluate_plain(*result, out_.texts);
    if (!misfit.empty()) bad("{}: {}", printable(callee->text), misfit);
    charge(result->items.size());
    if (result->kind == Kind::kBytes) decoded_ += result->text.size();
    if (decoded_ > content_.size()) bad("one text is decoded again and again");
  }

  // Protocols 0 and 1: the arguments lie on the stack down to the mark, below them the class.
  void call_to_mark(uint8_t op) {
    std::vector<const PickleValue*> items;
    if (op == kOpInst) {
      const std::string_view module = take_line();
      const std::string_view name = take_line();
      items = pop_to_mark();
      push_global(module, name);
      items.insert(items.begin(), pop());
    } else {
      items = pop_to_mark();
    }
    if (items.empty()) bad("an object without its class");
    push_items(Kind::kTuple, {items.begin() + 1, items.end()});
    call(items.front(), pop());
  }

  void push_persistent(const PickleValue* id) {
    if (!rules_.persistent_ids) bad("a persistent id, which this kind of file does not have");
    push(Kind::kPersistent)->arguments = id;
  }

  std::string_view content_;
  const PickleRules& rules_;
  Pickle& out_;
  size_t at_ = 0;
  size_t start_ = 0;  // position of the current opcode
  int64_t operations_ = 0;
  std::vector<PickleValue*> stack_;
  std::vector<size_t> marks_;
  std::unordered_map<uint64_t, PickleValue*> memo_;
  size_t decoded_ = 0;  // bytes made by calls
};

}  // namespace

Pickle parse_pickle(std::string_view content, const PickleRules& rules) {
  Pickle out;
  Machine machine(content, rules, out);
  out.root = machine.run();
  out.end = machine.end();
  return out;
}

}  // namespace gantrain

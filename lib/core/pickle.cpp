// SPDX-License-Identifier: Apache-2.0
#include "core/pickle.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <initializer_list>
#include <unordered_map>
#include <utility>

#include "core/pickle_values.h"
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

// The state of the pickle machine: the bytes not read yet, the stack with its marks, and the values
// made so far. Every mistake in the file ends in bad(), which throws UserError(kInput) with the
// position of the current opcode.
class PickleStack {
 public:
  PickleStack(std::string_view content, const PickleRules& rules, Pickle& out)
      : content_(content), rules_(rules), out_(out) {}

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
  bool at_start() const { return start_ == 0; }
  size_t at() const { return at_; }
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
    if (std::find(kinds.begin(), kinds.end(), top()->kind) == kinds.end())
      bad("items are given to {}", top()->describe());
    target.insert(target.end(), items.begin(), items.end());
  }

  std::string_view keep(std::string text) { return out_.texts.emplace_back(std::move(text)); }
  const PickleRules& rules() const { return rules_; }
  std::deque<std::string>& texts() { return out_.texts; }
  size_t content_size() const { return content_.size(); }

 private:
  std::string_view content_;
  const PickleRules& rules_;
  Pickle& out_;
  size_t at_ = 0;
  size_t start_ = 0;  // position of the current opcode
  int64_t operations_ = 0;
  std::vector<PickleValue*> stack_;
  std::vector<size_t> marks_;
};

using Kind = PickleKind;

// Python's pickle machine without its calls. Opcodes come in groups; each returns false for an
// opcode of another group.
class Machine {
 public:
  Machine(std::string_view content, const PickleRules& rules, Pickle& out)
      : stack_(content, rules, out) {}

  const PickleValue* run() {
    for (uint8_t op = stack_.next_opcode(); op != kOpStop; op = stack_.next_opcode()) {
      if (number(op) || text(op) || container(op) || memo(op) || object(op)) continue;
      stack_.bad("0x{:02x} is no opcode of a pickle: {}",
                 op,
                 stack_.at_start() ? "the file is something else" : "damaged?");
    }
    return stack_.pop();
  }
  size_t end() const { return stack_.at(); }

 private:
  bool number(uint8_t op) {
    switch (op) {
      case kOpNone:
        stack_.push(Kind::kNone);
        return true;
      case kOpNewTrue:
      case kOpNewFalse:
        stack_.push_int(op == kOpNewTrue, Kind::kBool);
        return true;
      case kOpBinInt:
        stack_.push_int(static_cast<int32_t>(stack_.take_number(4)));
        return true;
      case kOpBinInt1:
      case kOpBinInt2:
        stack_.push_int(static_cast<int64_t>(stack_.take_number(op == kOpBinInt1 ? 1 : 2)));
        return true;
      case kOpLong1:
      case kOpLong4:
        push_long(stack_.take_counted(op == kOpLong1 ? 1 : 4));
        return true;
      case kOpIntText:
      case kOpLongText:
        push_int_text(stack_.take_line());
        return true;
      case kOpBinFloat:  // highest byte first
        stack_.push(Kind::kFloat)->real =
            std::bit_cast<double>(__builtin_bswap64(stack_.take_number(8)));
        return true;
      case kOpFloatText: {
        const auto value = parse_double(stack_.take_line());
        if (!value) stack_.bad("not a number");
        stack_.push(Kind::kFloat)->real = *value;
        return true;
      }
      default:
        return false;
    }
  }

  // Two's complement, lowest byte first; no bytes are 0.
  void push_long(std::string_view bytes) {
    if (bytes.size() > 8) return stack_.push_text(Kind::kBigInt, bytes);
    uint64_t value = !bytes.empty() && (bytes.back() & 0x80) != 0 ? ~uint64_t{0} : 0;
    for (size_t i = bytes.size(); i > 0; --i)
      value = value << 8 | static_cast<unsigned char>(bytes[i - 1]);
    stack_.push_int(static_cast<int64_t>(value));
  }

  void push_int_text(std::string_view text) {
    if (text == "00" || text == "01") return stack_.push_int(text == "01", Kind::kBool);
    if (ends_with(text, "L")) text.remove_suffix(1);
    const auto value = parse_int(text);
    if (!value) stack_.bad("{} is no integer of 64 bits", printable(text));
    stack_.push_int(*value);
  }

  bool text(uint8_t op) {
    switch (op) {
      case kOpShortBinBytes:
      case kOpBinBytes:
        stack_.push_text(Kind::kBytes, stack_.take_counted(op == kOpBinBytes ? 4 : 1));
        return true;
      case kOpBinBytes8:
      case kOpByteArray8:
        stack_.push_text(Kind::kBytes, stack_.take_counted(8));
        return true;
      case kOpShortBinString:
      case kOpShortBinUnicode:
        stack_.push_text(Kind::kString, stack_.take_counted(1));
        return true;
      case kOpBinString:
      case kOpBinUnicode:
        stack_.push_text(Kind::kString, stack_.take_counted(4));
        return true;
      case kOpBinUnicode8:
        stack_.push_text(Kind::kString, stack_.take_counted(8));
        return true;
      case kOpStringText:
        push_decoded(unquote_python(trim(stack_.take_line())));
        return true;
      case kOpUnicodeText:
        push_decoded(decode_raw_unicode(stack_.take_line()));
        return true;
      default:
        return false;
    }
  }

  void push_decoded(const std::optional<std::string>& text) {
    if (!text) stack_.bad("text that is not written as this opcode has it");
    stack_.push_text(Kind::kString, stack_.keep(*text));
  }

  bool container(uint8_t op) {
    switch (op) {
      case kOpEmptyTuple:
        stack_.push(Kind::kTuple);
        return true;
      case kOpTuple1:
      case kOpTuple2:
      case kOpTuple3:
        stack_.push_items(Kind::kTuple, stack_.pop(size_t{op} - kOpTuple1 + 1));
        return true;
      case kOpTuple:
        stack_.push_items(Kind::kTuple, stack_.pop_to_mark());
        return true;
      case kOpEmptyList:
        stack_.push(Kind::kList);
        return true;
      case kOpList:
        stack_.push_items(Kind::kList, stack_.pop_to_mark());
        return true;
      case kOpEmptySet:
        stack_.push(Kind::kSet);
        return true;
      case kOpFrozenSet:
        stack_.push_items(Kind::kSet, stack_.pop_to_mark());
        return true;
      case kOpEmptyDict:
        stack_.push(Kind::kDict);
        return true;
      case kOpDict: {
        const auto items = stack_.pop_to_mark();
        stack_.push(Kind::kDict);
        add_pairs(items);
        return true;
      }
      case kOpAppend: {
        const auto item = stack_.pop(1);
        stack_.extend_top(item, {Kind::kList});
        return true;
      }
      case kOpAppends:
      case kOpAddItems: {
        const auto items = stack_.pop_to_mark();
        stack_.extend_top(items, {op == kOpAppends ? Kind::kList : Kind::kSet});
        return true;
      }
      case kOpSetItem:
        add_pairs(stack_.pop(2));
        return true;
      case kOpSetItems:
        add_pairs(stack_.pop_to_mark());
        return true;
      default:
        return false;
    }
  }

  void add_pairs(const std::vector<const PickleValue*>& items) {
    if (items.size() % 2 != 0) stack_.bad("a key without its value");
    stack_.extend_top(items, {Kind::kDict, Kind::kObject});
  }

  bool memo(uint8_t op) {
    switch (op) {
      case kOpMark:
        stack_.push_mark();
        return true;
      case kOpPop:
        if (stack_.mark_is_on_top()) {
          stack_.pop_to_mark();
        } else {
          stack_.pop();
        }
        return true;
      case kOpPopMark:
        stack_.pop_to_mark();
        return true;
      case kOpDup:
        stack_.push_again(stack_.top());
        return true;
      case kOpPut:
        memo_[memo_number()] = stack_.top();
        return true;
      case kOpBinPut:
      case kOpLongBinPut:
        memo_[stack_.take_number(op == kOpBinPut ? 1 : 4)] = stack_.top();
        return true;
      case kOpMemoize:
        memo_.insert_or_assign(memo_.size(), stack_.top());
        return true;
      case kOpGet:
        recall(memo_number());
        return true;
      case kOpBinGet:
      case kOpLongBinGet:
        recall(stack_.take_number(op == kOpBinGet ? 1 : 4));
        return true;
      case kOpProto:
        if (const uint64_t protocol = stack_.take_number(1); protocol > 5)
          stack_.bad("protocol {}; 0 to 5 are known", protocol);
        return true;
      case kOpFrame:
        if (const uint64_t size = stack_.take_number(8); size > stack_.left())
          stack_.bad("a frame of {} bytes, {} are left: truncated?", size, stack_.left());
        return true;
      default:
        return false;
    }
  }

  uint64_t memo_number() {
    const auto index = parse_int(stack_.take_line());
    if (!index || *index < 0) stack_.bad("no number of the memo");
    return static_cast<uint64_t>(*index);
  }

  void recall(uint64_t index) {
    const auto known = memo_.find(index);
    if (known == memo_.end()) stack_.bad("the memo has no {}", index);
    stack_.push_again(known->second);
  }

  bool object(uint8_t op) {
    switch (op) {
      case kOpGlobal: {
        const std::string_view module = stack_.take_line();
        push_global(module, stack_.take_line());
        return true;
      }
      case kOpStackGlobal: {
        const auto names = stack_.pop(2);
        for (const PickleValue* name : names) {
          if (name->kind != Kind::kString) stack_.bad("a global's name is {}", name->describe());
        }
        push_global(names[0]->text, names[1]->text);
        return true;
      }
      case kOpReduce:
      case kOpNewObj:
      case kOpNewObjEx: {
        if (op == kOpNewObjEx && !stack_.pop()->items.empty())
          stack_.bad("a class is called with keywords");
        const auto called = stack_.pop(2);
        call(called[0], called[1]);
        return true;
      }
      case kOpInst:
      case kOpObj:
        call_to_mark(op);
        return true;
      case kOpBuild: {
        const PickleValue* state = stack_.pop();
        PickleValue* object = stack_.top();
        if (object->kind != Kind::kObject && object->kind != Kind::kDict)
          stack_.bad("a state is given to {}", object->describe());
        object->state = state;
        return true;
      }
      case kOpPersId:
        stack_.push_text(Kind::kString, stack_.take_line());
        push_persistent(stack_.pop());
        return true;
      case kOpBinPersId:
        push_persistent(stack_.pop());
        return true;
      default:
        return false;
    }
  }

  // By its name, or by that of a module around it.
  bool is_allowed(const std::string& full) const {
    const auto& globals = stack_.rules().globals;
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
      stack_.bad("global {} is not allowed{}", printable(full), stack_.rules().hint);
    stack_.push_text(Kind::kGlobal, stack_.keep(full));
  }

  // Pushes what the call would give.
  void call(const PickleValue* callee, const PickleValue* arguments) {
    if (callee->kind != Kind::kGlobal) stack_.bad("{} is called", callee->describe());
    if (arguments->kind != Kind::kTuple) stack_.bad("the arguments are {}", arguments->describe());
    PickleValue* result = stack_.push(Kind::kObject);
    result->text = callee->text;
    result->arguments = arguments;
    const std::string misfit = evaluate_plain(*result, stack_.texts());
    if (!misfit.empty()) stack_.bad("{}: {}", printable(callee->text), misfit);
    stack_.charge(result->items.size());
    if (result->kind == Kind::kBytes) decoded_ += result->text.size();
    if (decoded_ > stack_.content_size()) stack_.bad("one text is decoded again and again");
  }

  // Protocols 0 and 1: the arguments lie on the stack down to the mark, below them the class.
  void call_to_mark(uint8_t op) {
    std::vector<const PickleValue*> items;
    if (op == kOpInst) {
      const std::string_view module = stack_.take_line();
      const std::string_view name = stack_.take_line();
      items = stack_.pop_to_mark();
      push_global(module, name);
      items.insert(items.begin(), stack_.pop());
    } else {
      items = stack_.pop_to_mark();
    }
    if (items.empty()) stack_.bad("an object without its class");
    stack_.push_items(Kind::kTuple, {items.begin() + 1, items.end()});
    call(items.front(), stack_.pop());
  }

  void push_persistent(const PickleValue* id) {
    if (!stack_.rules().persistent_ids)
      stack_.bad("a persistent id, which this kind of file does not have");
    stack_.push(Kind::kPersistent)->arguments = id;
  }

  PickleStack stack_;
  std::unordered_map<uint64_t, PickleValue*> memo_;
  size_t decoded_ = 0;  // bytes made by calls
};

}  // namespace

const PickleValue* PickleValue::find(std::string_view key) const {
  if (kind != Kind::kDict && kind != Kind::kObject) return nullptr;
  for (size_t i = items.size(); i >= 2; i -= 2) {
    if (items[i - 2]->kind == Kind::kString && items[i - 2]->text == key) return items[i - 1];
  }
  return nullptr;
}

std::string PickleValue::describe() const {
  constexpr const char* kNames[] = {"None",
                                    "a bool",
                                    "an integer",
                                    "a large integer",
                                    "a number",
                                    "text",
                                    "bytes",
                                    "a tuple",
                                    "a list",
                                    "a set",
                                    "a dict"};
  if (kind == Kind::kPersistent) return "a persistent object";
  if (kind == Kind::kGlobal || kind == Kind::kObject) return printable(text);
  return kNames[static_cast<size_t>(kind)];
}

Pickle parse_pickle(std::string_view content, const PickleRules& rules) {
  Pickle out;
  Machine machine(content, rules, out);
  out.root = machine.run();
  out.end = machine.end();
  return out;
}

}  // namespace gantrain

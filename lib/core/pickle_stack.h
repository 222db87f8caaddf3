// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <initializer_list>
#include <utility>

#include "core/pickle.h"
#include "util/error.h"

namespace gantrain {

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

}  // namespace gantrain

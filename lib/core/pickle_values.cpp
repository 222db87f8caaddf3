// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <array>
#include <charconv>

#include "core/pickle.h"
#include "util/text.h"

namespace gantrain {

namespace {

std::optional<uint32_t> hex_digits(std::string_view text, size_t at, size_t count) {
  if (at + count > text.size()) return {};
  uint32_t value = 0;
  const char* end = text.data() + at + count;
  const auto [stop, error] = std::from_chars(text.data() + at, end, value, 16);
  if (error != std::errc() || stop != end) return {};
  return value;
}

void append_utf8(std::string& out, uint32_t code) {
  const auto tail = [&](int shift) { out += static_cast<char>(0x80 | ((code >> shift) & 0x3f)); };
  if (code < 0x80) {
    out += static_cast<char>(code);
  } else if (code < 0x800) {
    out += static_cast<char>(0xc0 | (code >> 6));
    tail(0);
  } else if (code < 0x10000) {
    out += static_cast<char>(0xe0 | (code >> 12));
    tail(6);
    tail(0);
  } else {
    out += static_cast<char>(0xf0 | (code >> 18));
    tail(12);
    tail(6);
    tail(0);
  }
}

using Kind = PickleKind;
using Items = std::vector<const PickleValue*>;

constexpr std::array<std::string_view, 12> kPlain = {"_codecs.encode",
                                                     "builtins.bytearray",
                                                     "builtins.bytes",
                                                     "builtins.dict",
                                                     "builtins.frozenset",
                                                     "builtins.list",
                                                     "builtins.object",
                                                     "builtins.set",
                                                     "builtins.tuple",
                                                     "collections.OrderedDict",
                                                     "copyreg.__newobj__",
                                                     "copyreg._reconstructor"};

bool is_sequence(const PickleValue& value) {
  return value.kind == Kind::kTuple || value.kind == Kind::kList || value.kind == Kind::kSet;
}

// dict(), dict([(key, value), ...]), dict({...}).
std::string make_dict(PickleValue& object, const Items& arguments) {
  Items items;
  if (arguments.size() > 1) return "more than one argument";
  if (!arguments.empty() && arguments[0]->kind == Kind::kDict) {
    items = arguments[0]->items;
  } else if (!arguments.empty()) {
    if (!is_sequence(*arguments[0])) return "its argument is " + arguments[0]->describe();
    for (const PickleValue* pair : arguments[0]->items) {
      if (!is_sequence(*pair) || pair->items.size() != 2) return "its argument holds no pairs";
      items.insert(items.end(), pair->items.begin(), pair->items.end());
    }
  }
  object.kind = Kind::kDict;
  object.items = std::move(items);
  return "";
}

// set(), set([...]).
std::string make_sequence(PickleValue& object, const Items& arguments, Kind kind) {
  if (arguments.size() > 1) return "more than one argument";
  if (!arguments.empty() && !is_sequence(*arguments[0]))
    return "its argument is " + arguments[0]->describe();
  if (!arguments.empty()) object.items = arguments[0]->items;
  object.kind = kind;
  return "";
}

// bytes(), bytearray(b"..."), encode("...", "latin1").
std::string make_bytes(PickleValue& object,
                       const Items& arguments,
                       std::deque<std::string>& texts) {
  object.kind = Kind::kBytes;
  object.text = {};
  if (arguments.empty()) return "";
  if (arguments.size() == 1 && arguments[0]->kind == Kind::kBytes) {
    object.text = arguments[0]->text;
    return "";
  }
  if (arguments.size() != 2 || arguments[0]->kind != Kind::kString ||
      (arguments[1]->text != "latin1" && arguments[1]->text != "latin-1")) {
    return "text and \"latin1\" are expected";
  }
  const auto bytes = utf8_to_latin1(arguments[0]->text);
  if (!bytes) return "text that is not Latin-1";
  object.text = texts.emplace_back(*bytes);
  return "";
}

// _reconstructor(class, base, state of the base): protocols 0 and 1.
std::string reconstruct(PickleValue& object, const Items& arguments) {
  if (arguments.size() != 3 || arguments[0]->kind != Kind::kGlobal ||
      arguments[1]->kind != Kind::kGlobal) {
    return "a class, its base and a state are expected";
  }
  const bool dict = arguments[1]->text == "builtins.dict" && arguments[2]->kind == Kind::kDict;
  if (!dict && arguments[1]->text != "builtins.object")
    return "a base that is neither dict nor object";
  object.text = arguments[0]->text;
  if (dict) object.items = arguments[2]->items;
  return "";
}

}  // namespace

std::optional<std::string> unquote_python(std::string_view literal) {
  const size_t last = literal.size() - 1;
  if (literal.size() < 2 || literal[0] != literal[last]) return {};
  if (literal[0] != '\'' && literal[0] != '"') return {};
  std::string out;
  for (size_t at = 1; at < last; ++at) {
    if (literal[at] != '\\') {
      out += literal[at];
      continue;
    }
    constexpr std::string_view kEscapes = "\\'\"nrt", kMeant = "\\'\"\n\r\t";
    if (++at >= last) return {};
    if (literal[at] == 'x') {
      const auto code = hex_digits(literal.substr(0, last), at + 1, 2);
      if (!code) return {};
      out += static_cast<char>(*code);
      at += 2;
    } else {
      const size_t which = kEscapes.find(literal[at]);
      if (which == std::string_view::npos) return {};
      out += kMeant[which];
    }
  }
  return out;
}

std::optional<std::string> decode_raw_unicode(std::string_view text) {
  std::string out;
  for (size_t at = 0; at < text.size(); ++at) {
    const bool escape = text[at] == '\\' && at + 1 < text.size();
    const size_t digits = !escape ? 0 : text[at + 1] == 'u' ? 4 : text[at + 1] == 'U' ? 8 : 0;
    if (digits == 0) {
      append_utf8(out, static_cast<unsigned char>(text[at]));
      continue;
    }
    const auto code = hex_digits(text, at + 2, digits);
    if (!code || *code > 0x10ffff) return {};
    append_utf8(out, *code);
    at += 1 + digits;
  }
  return out;
}

std::optional<std::string> utf8_to_latin1(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (size_t at = 0; at < text.size(); ++at) {
    const auto byte = static_cast<unsigned char>(text[at]);
    if (byte < 0x80) {
      out += text[at];
      continue;
    }
    if ((byte != 0xc2 && byte != 0xc3) || at + 1 >= text.size()) return {};
    const auto next = static_cast<unsigned char>(text[++at]);
    if ((next & 0xc0) != 0x80) return {};
    out += static_cast<char>(((byte & 3) << 6) | (next & 0x3f));
  }
  return out;
}

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

bool is_plain_global(std::string_view name) { return contains(kPlain, name); }

std::string evaluate_plain(PickleValue& object, std::deque<std::string>& texts) {
  const std::string_view name = object.text;
  if (!is_plain_global(name)) return "";
  const Items& arguments = object.arguments->items;
  std::string misfit = "not called by pickles";
  if (name == "collections.OrderedDict" || name == "builtins.dict") {
    misfit = make_dict(object, arguments);
  } else if (name == "builtins.set" || name == "builtins.frozenset") {
    misfit = make_sequence(object, arguments, Kind::kSet);
  } else if (name == "builtins.list" || name == "builtins.tuple") {
    misfit = make_sequence(object, arguments, name == "builtins.list" ? Kind::kList : Kind::kTuple);
  } else if (name == "copyreg._reconstructor") {
    misfit = reconstruct(object, arguments);
  } else if (name == "copyreg.__newobj__") {
    if (arguments.size() != 1 || arguments[0]->kind != Kind::kGlobal)
      return "a class alone is expected";
    object.text = arguments[0]->text;
    misfit = "";
  } else if (name != "builtins.object") {
    misfit = make_bytes(object, arguments, texts);
  }
  if (misfit.empty() && object.kind != Kind::kObject) object.arguments = nullptr;
  return misfit;
}

}  // namespace gantrain

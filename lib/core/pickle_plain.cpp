// SPDX-License-Identifier: Apache-2.0
#include "core/pickle_plain.h"

#include <array>

#include "core/pickle_text.h"

namespace gantrain {

namespace {

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

bool is_plain_global(std::string_view name) {
  for (const std::string_view plain : kPlain) {
    if (plain == name) return true;
  }
  return false;
}

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

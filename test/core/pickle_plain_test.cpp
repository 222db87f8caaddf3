// SPDX-License-Identifier: Apache-2.0
#include "core/pickle.h"
#include "support/catch.h"
#include "util/error.h"

using namespace gantrain;
using namespace std::string_view_literals;

namespace {

PickleRules rules() {
  PickleRules rules;
  rules.source = "net.pkl";
  rules.globals = {"m.Dict"};
  return rules;
}

Pickle called(std::string_view name, std::string_view arguments) {
  const std::string content = "c" + std::string(name) + "\n" + std::string(arguments) + "R.";
  // The values' texts lie in the content.
  static std::deque<std::string> contents;
  return parse_pickle(contents.emplace_back(content), rules());
}

std::string misfit(std::string_view name, std::string_view arguments) {
  try {
    called(name, arguments);
  } catch (const UserError& e) {
    return e.what();
  }
  return "";
}

}  // namespace

TEST_CASE("PlainDataIsWhatTheCallWouldGive") {
  const std::vector<std::tuple<std::string_view, std::string_view, PickleKind, size_t>> table = {
      {"collections\nOrderedDict", ")", PickleKind::kDict, 0},
      {"collections\nOrderedDict", "]](K\1K\2ea\x85", PickleKind::kDict, 2},
      {"builtins\ndict", "}(K\1K\2u\x85", PickleKind::kDict, 2},
      {"__builtin__\nset", "](K\1K\2e\x85", PickleKind::kSet, 2},
      {"__builtin__\nfrozenset", ")", PickleKind::kSet, 0},
      {"builtins\nlist", "K\1\x85\x85", PickleKind::kList, 1},
      {"builtins\ntuple", "](K\1K\2e\x85", PickleKind::kTuple, 2},
      {"__builtin__\nbytes", ")", PickleKind::kBytes, 0},
  };
  for (const auto& [name, arguments, kind, items] : table) {
    CAPTURE(name);
    const Pickle pickle = called(name, arguments);
    CHECK(pickle.root->kind == kind);
    CHECK(pickle.root->items.size() == items);
    CHECK(pickle.root->arguments == nullptr);
  }
  CHECK(called("__builtin__\nbytearray", "C\2ab\x85").root->text == "ab");
  CHECK(called("_codecs\nencode", "X\3\0\0\0a\xc3\xbcX\6\0\0\0latin1\x86"sv).root->text == "a\xfc");
}

TEST_CASE("SubclassesOfDictKeepTheirNameAndItems") {
  const Pickle old =
      called("copy_reg\n_reconstructor", "(cm\nDict\nc__builtin__\ndict\n}(K\1K\2ut");
  CHECK(old.root->text == "m.Dict");
  CHECK(old.root->items.size() == 2);
  const Pickle plain = called("copyreg\n_reconstructor", "(cm\nDict\ncbuiltins\nobject\nNt");
  CHECK(plain.root->kind == PickleKind::kObject);
  CHECK(plain.root->items.empty());
  CHECK(called("copyreg\n__newobj__", "cm\nDict\n\x85").root->text == "m.Dict");
}

TEST_CASE("OtherArgumentsAreRefused") {
  const std::vector<std::pair<std::string_view, std::string_view>> table = {
      {"builtins\ndict", "NN\x86"},
      {"builtins\ndict", "N\x85"},
      {"builtins\ndict", "](Ne\x85"},
      {"builtins\nset", "N\x85"},
      {"builtins\nset", "NN\x86"},
      {"builtins\nbytes", "K\x09\x85"},
      {"_codecs\nencode", "X\1\0\0\0aX\5\0\0\0utf-8\x86"sv},
      {"_codecs\nencode", "X\3\0\0\0\xe2\x82\xacX\6\0\0\0latin1\x86"sv},
      {"copyreg\n_reconstructor", "N\x85"},
      {"copyreg\n_reconstructor", "(cm\nDict\ncbuiltins\nlist\n]t"},
      {"copyreg\n__newobj__", "cm\nDict\nN\x86"},
      {"builtins\nobject", ")"},
  };
  for (const auto& [name, arguments] : table) {
    CAPTURE(name, arguments);
    CHECK(misfit(name, arguments).find("net.pkl: byte ") == 0);
  }
}

TEST_CASE("NothingThatActsIsPlain") {
  for (const char* name : {"builtins.eval",
                           "builtins.exec",
                           "builtins.getattr",
                           "builtins.__import__",
                           "builtins.open",
                           "_codecs.decode",
                           "copyreg._extension_registry"}) {
    CAPTURE(name);
    CHECK_FALSE(is_plain_global(name));
  }
}

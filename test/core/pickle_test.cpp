// SPDX-License-Identifier: Apache-2.0
#include "core/pickle.h"

#include <chrono>
#include <random>

#include "support/catch.h"
#include "util/error.h"
#include "util/text.h"

using namespace gantrain;
using namespace std::string_literals;
using namespace std::string_view_literals;

namespace {

PickleRules rules_with(const std::set<std::string, std::less<>>& globals) {
  PickleRules rules;
  rules.source = "net.pkl";
  rules.globals = globals;
  rules.hint = "; a hint";
  return rules;
}

// The value as Python shows it; objects as name(arguments){items}[state].
std::string show(const PickleValue& value);

std::string show_items(const PickleValue& value, const char* open, const char* close) {
  std::vector<std::string> parts;
  for (const PickleValue* item : value.items) parts.push_back(show(*item));
  return open + join(parts, ", ") + close;
}

std::string show(const PickleValue& value) {
  switch (value.kind) {
    case PickleKind::kNone:
      return "None";
    case PickleKind::kBool:
      return value.integer != 0 ? "True" : "False";
    case PickleKind::kInt:
      return std::to_string(value.integer);
    case PickleKind::kBigInt:
      return "big" + std::to_string(value.text.size());
    case PickleKind::kFloat:
      return shortest(value.real);
    case PickleKind::kString:
      return "'" + std::string(value.text) + "'";
    case PickleKind::kBytes:
      return "b'" + std::string(value.text) + "'";
    case PickleKind::kTuple:
      return show_items(value, "(", ")");
    case PickleKind::kList:
      return show_items(value, "[", "]");
    case PickleKind::kSet:
      return show_items(value, "set(", ")");
    case PickleKind::kDict:
      return show_items(value, "{", "}") + (value.state ? "+" + show(*value.state) : "");
    case PickleKind::kGlobal:
      return std::string(value.text);
    case PickleKind::kPersistent:
      return "pid " + show(*value.arguments);
    case PickleKind::kObject:
      return std::string(value.text) + (value.arguments ? show(*value.arguments) : "") +
             (value.items.empty() ? "" : show_items(value, "{", "}")) +
             (value.state ? "+" + show(*value.state) : "");
  }
  return "?";
}

std::string shown(std::string_view content, const PickleRules& rules) {
  return show(*parse_pickle(content, rules).root);
}

std::string message_of(std::string_view content, const PickleRules& rules) {
  try {
    parse_pickle(content, rules);
  } catch (const UserError& e) {
    CHECK(e.code() == Exit::kInput);
    return e.what();
  }
  return "";
}

// {'n': [None, True, False], 'i': [...], 'f': [0.5, -1e300], 's': 'zü\n\\€', 'b': b'\x00\xff\n',
//  't': ((), (1,), (1, 2), (1, 2, 3), (1, 2, 3, 4)), 'e': [[], {}, set()],
//  'o': OrderedDict(a=1)}, written by Python 3.11 in each protocol.
constexpr std::string_view kByPython[] = {
    //  0
    "(dp0\012Vn\012p1\012(lp2\012NaI01\012aI00\012asVi\012p3\012(lp4\012I0\012aI255\012aI6553"
    "5\012aI-1\012aI2147483647\012aI-2147483648\012aL1099511627776L\012aL-9223372036854775808"
    "L\012asVf\012p5\012(lp6\012F0.5\012aF-1e+300\012asVs\012p7\012Vz\374\134u000a\134u005c"
    "\134u20ac\012p8\012sVb\012p9\012c_codecs\012encode\012p10\012(V\134u0000\377\134u000a"
    "\012p11\012Vlatin1\012p12\012tp13\012Rp14\012sVt\012p15\012((t(I1\012tp16\012(I1\012I2"
    "\012tp17\012(I1\012I2\012I3\012tp18\012(I1\012I2\012I3\012I4\012tp19\012tp20\012sVe\012p"
    "21\012(lp22\012(lp23\012a(dp24\012ac__builtin__\012set\012p25\012((lp26\012tp27\012Rp28"
    "\012asVo\012p29\012ccollections\012OrderedDict\012p30\012(tRp31\012Va\012p32\012I1\012ss"
    "."sv,
    //  1
    "}q\000(X\001\000\000\000nq\001]q\002(NI01\012I00\012eX\001\000\000\000iq\003]q\004(K\000"
    "K\377M\377\377J\377\377\377\377J\377\377\377\177J\000\000\000\200L1099511627776L\012L-92"
    "23372036854775808L\012eX\001\000\000\000fq\005]q\006(G\077\340\000\000\000\000\000\000G"
    "\3767\344<\210\000u\234eX\001\000\000\000sq\007X\010\000\000\000z\303\274\012\134\342"
    "\202\254q\010X\001\000\000\000bq\011c_codecs\012encode\012q\012(X\004\000\000\000\000"
    "\303\277\012q\013X\006\000\000\000latin1q\014tq\015Rq\016X\001\000\000\000tq\017()(K\001"
    "tq\020(K\001K\002tq\021(K\001K\002K\003tq\022(K\001K\002K\003K\004tq\023tq\024X\001\000"
    "\000\000eq\025]q\026(]q\027}q\030c__builtin__\012set\012q\031(]q\032tq\033Rq\034eX\001"
    "\000\000\000oq\035ccollections\012OrderedDict\012q\036)Rq\037X\001\000\000\000aq K\001su"
    "."sv,
    //  2
    "\200\002}q\000(X\001\000\000\000nq\001]q\002(N\210\211eX\001\000\000\000iq\003]q\004(K"
    "\000K\377M\377\377J\377\377\377\377J\377\377\377\177J\000\000\000\200\212\006\000\000"
    "\000\000\000\001\212\010\000\000\000\000\000\000\000\200eX\001\000\000\000fq\005]q\006(G"
    "\077\340\000\000\000\000\000\000G\3767\344<\210\000u\234eX\001\000\000\000sq\007X\010"
    "\000\000\000z\303\274\012\134\342\202\254q\010X\001\000\000\000bq\011c_codecs\012encode"
    "\012q\012X\004\000\000\000\000\303\277\012q\013X\006\000\000\000latin1q\014\206q\015Rq"
    "\016X\001\000\000\000tq\017()K\001\205q\020K\001K\002\206q\021K\001K\002K\003\207q\022(K"
    "\001K\002K\003K\004tq\023tq\024X\001\000\000\000eq\025]q\026(]q\027}q\030c__builtin__"
    "\012set\012q\031]q\032\205q\033Rq\034eX\001\000\000\000oq\035ccollections\012OrderedDict"
    "\012q\036)Rq\037X\001\000\000\000aq K\001su."sv,
    //  3
    "\200\003}q\000(X\001\000\000\000nq\001]q\002(N\210\211eX\001\000\000\000iq\003]q\004(K"
    "\000K\377M\377\377J\377\377\377\377J\377\377\377\177J\000\000\000\200\212\006\000\000"
    "\000\000\000\001\212\010\000\000\000\000\000\000\000\200eX\001\000\000\000fq\005]q\006(G"
    "\077\340\000\000\000\000\000\000G\3767\344<\210\000u\234eX\001\000\000\000sq\007X\010"
    "\000\000\000z\303\274\012\134\342\202\254q\010X\001\000\000\000bq\011C\003\000\377\012q"
    "\012X\001\000\000\000tq\013()K\001\205q\014K\001K\002\206q\015K\001K\002K\003\207q\016(K"
    "\001K\002K\003K\004tq\017tq\020X\001\000\000\000eq\021]q\022(]q\023}q\024cbuiltins\012se"
    "t\012q\025]q\026\205q\027Rq\030eX\001\000\000\000oq\031ccollections\012OrderedDict\012q"
    "\032)Rq\033X\001\000\000\000aq\034K\001su."sv,
    //  4
    "\200\004\225\322\000\000\000\000\000\000\000}\224(\214\001n\224]\224(N\210\211e\214\001i"
    "\224]\224(K\000K\377M\377\377J\377\377\377\377J\377\377\377\177J\000\000\000\200\212\006"
    "\000\000\000\000\000\001\212\010\000\000\000\000\000\000\000\200e\214\001f\224]\224(G"
    "\077\340\000\000\000\000\000\000G\3767\344<\210\000u\234e\214\001s\224\214\010z\303\274"
    "\012\134\342\202\254\224\214\001b\224C\003\000\377\012\224\214\001t\224()K\001\205\224K"
    "\001K\002\206\224K\001K\002K\003\207\224(K\001K\002K\003K\004t\224t\224\214\001e\224]"
    "\224(]\224}\224\217\224e\214\001o\224\214\013collections\224\214\013OrderedDict\224\223"
    "\224)R\224\214\001a\224K\001su."sv,
    //  5
    "\200\005\225\322\000\000\000\000\000\000\000}\224(\214\001n\224]\224(N\210\211e\214\001i"
    "\224]\224(K\000K\377M\377\377J\377\377\377\377J\377\377\377\177J\000\000\000\200\212\006"
    "\000\000\000\000\000\001\212\010\000\000\000\000\000\000\000\200e\214\001f\224]\224(G"
    "\077\340\000\000\000\000\000\000G\3767\344<\210\000u\234e\214\001s\224\214\010z\303\274"
    "\012\134\342\202\254\224\214\001b\224C\003\000\377\012\224\214\001t\224()K\001\205\224K"
    "\001K\002\206\224K\001K\002K\003\207\224(K\001K\002K\003K\004t\224t\224\214\001e\224]"
    "\224(]\224}\224\217\224e\214\001o\224\214\013collections\224\214\013OrderedDict\224\223"
    "\224)R\224\214\001a\224K\001su."sv};

}  // namespace

TEST_CASE("PlainValuesOfEveryProtocolComeBack") {
  const std::string expected =
      "{'n', [None, True, False], "
      "'i', [0, 255, 65535, -1, 2147483647, -2147483648, 1099511627776, -9223372036854775808], "
      "'f', [0.5, -1e+300], 's', 'z\u00fc\n\\\u20ac', 'b', b'"s +
      "\0\xff\n"s +
      "', 't', ((), (1), (1, 2), (1, 2, 3), (1, 2, 3, 4)), 'e', [[], {}, set()], 'o', {'a', 1}}";
  for (const std::string_view content : kByPython) {
    CAPTURE(content);
    const Pickle pickle = parse_pickle(content, rules_with({}));
    CHECK(show(*pickle.root) == expected);
    CHECK(pickle.end == content.size());
  }
}

TEST_CASE("WhatFollowsThePickleIsLeftAlone") {
  CHECK(parse_pickle("K\1.K\2.", rules_with({})).end == 3);
}

TEST_CASE("RareOpcodesDoWhatPythonDoes") {
  const PickleRules rules = rules_with({"m.C"});
  const std::vector<std::pair<std::string_view, std::string>> table = {
      {"S'it\\'s'\n."sv, "'it's'"},
      {"T\2\0\0\0ab."sv, "'ab'"},
      {"U\2ab."sv, "'ab'"},
      {"\x8d\2\0\0\0\0\0\0\0ab."sv, "'ab'"},
      {"\x8e\2\0\0\0\0\0\0\0ab."sv, "b'ab'"},
      {"\x96\2\0\0\0\0\0\0\0ab."sv, "b'ab'"},
      {"\x8b\2\0\0\0\xff\xff."sv, "-1"},
      {"\x8a\0."sv, "0"},
      {"\x8a\x09\0\0\0\0\0\0\0\0\1."sv, "big9"},
      {"L-12L\n."sv, "-12"},
      {"(K\1K\2\x91."sv, "set(1, 2)"},
      {"\x8f(K\1\x90."sv, "set(1)"},
      {"K\1K\2\x30."sv, "1"},
      {"K\1(\x30."sv, "1"},
      {"K\1(K\2\x31."sv, "1"},
      {"K\1\x32\x86."sv, "(1, 1)"},
      {"(K\1K\2d."sv, "{1, 2}"},
      {"]p12\nK\1ag12\n\x86."sv, "([1], [1])"},
      {"]r\0\1\0\0j\0\1\0\0\x86."sv, "([], [])"},
      {"cm\nC\n)R."sv, "m.C()"},
      {"cm\nC\n)\x81N\x62."sv, "m.C()+None"},
      {"cm\nC\n)}\x92."sv, "m.C()"},
      {"(K\1im\nC\n."sv, "m.C(1)"},
      {"(cm\nC\nK\1o."sv, "m.C(1)"},
      {"\x8c\1m\x8c\1C\x93."sv, "m.C"},
      {"cm\nC\n)R(K\1K\2u."sv, "m.C(){1, 2}"},
      {"ccollections\nOrderedDict\n)R}b."sv, "{}+{}"},
  };
  for (const auto& [content, expected] : table) {
    CAPTURE(content);
    CHECK(shown(content, rules) == expected);
  }
}

TEST_CASE("PersistentIdsComeWhereTheyAreAllowed") {
  PickleRules rules = rules_with({});
  CHECK(message_of("Px\n.", rules).find("persistent") != std::string::npos);
  CHECK(message_of("K\1Q.", rules).find("persistent") != std::string::npos);
  rules.persistent_ids = true;
  CHECK(shown("Px\n.", rules) == "pid 'x'");
  CHECK(shown("K\1Q.", rules) == "pid 1");
}

TEST_CASE("ItemsAreFoundByTheirKey") {
  const Pickle pickle = parse_pickle("(X\1\0\0\0aK\1X\1\0\0\0aK\2K\7K\3d."sv, rules_with({}));
  REQUIRE(pickle.root->find("a") != nullptr);
  CHECK(pickle.root->find("a")->integer == 2);  // the last one, as in Python
  CHECK(pickle.root->find("b") == nullptr);
  CHECK(pickle.root->items[0]->find("a") == nullptr);
}

TEST_CASE("OtherGlobalsAreRefusedByName") {
  const PickleRules rules = rules_with({"torch.Size"});
  const std::vector<std::pair<std::string, std::string>> names = {{"os", "system"},
                                                                  {"posix", "system"},
                                                                  {"nt", "system"},
                                                                  {"subprocess", "Popen"},
                                                                  {"builtins", "eval"},
                                                                  {"builtins", "getattr"},
                                                                  {"torch", "Size.x"}};
  for (const auto& [module, name] : names) {
    const std::string full = module + "." + name;
    CAPTURE(full);
    const std::string counted =
        fmt::format("\x8c{}{}\x8c{}{}", char(module.size()), module, char(name.size()), name);
    for (const std::string& content : {"c" + module + "\n" + name + "\n(S'true'\ntR.",
                                       counted + "\x93\x8c\4true\x85R.",
                                       "(S'true'\ni" + module + "\n" + name + "\n."}) {
      const std::string message = message_of("}" + content, rules);
      CHECK(message.find("net.pkl: byte ") == 0);
      CHECK(message.find("global " + full + " is not allowed; a hint") != std::string::npos);
    }
  }
  CHECK(message_of("}c__builtin__\neval\n.", rules).find("byte 1: global builtins.eval ") !=
        std::string::npos);
}

TEST_CASE("AMessageHoldsNoControlCharacters") {
  const std::string message = message_of("cos\nx\x1b[31m\r\n.", rules_with({}));
  CHECK(message.find("os.x\\x1b[31m\\x0d") != std::string::npos);
}

TEST_CASE("MistakesAreNamedWithTheirByte") {
  const PickleRules rules = rules_with({"m.C"});
  const std::vector<std::pair<std::string_view, std::string>> table = {
      {""sv, "byte 0: 1 bytes are needed, 0 are left"},
      {"<html>"sv, "byte 0: 0x3c is no opcode of a pickle: the file is something else"},
      {"N\xff"sv, "byte 1: 0xff is no opcode"},
      {"."sv, "nothing on the stack"},
      {"N(."sv, "nothing on the stack"},
      {"t."sv, "no mark"},
      {"K\1a."sv, "nothing on the stack"},
      {"NNa."sv, "items are given to None"},
      {"N(NNu."sv, "items are given to None"},
      {"}(Nu."sv, "a key without its value"},
      {"]NNs."sv, "items are given to a list"},
      {"h\7."sv, "the memo has no 7"},
      {"g-1\n."sv, "no number of the memo"},
      {"Ix\n."sv, "x is no integer"},
      {"L99999999999999999999L\n."sv, "99999999999999999999 is no integer"},
      {"Fx\n."sv, "not a number"},
      {"Sabc\n."sv, "not written as this opcode"},
      {"V\\u12\n."sv, "not written as this opcode"},
      {"N)R."sv, "None is called"},
      {"cm\nC\nNR."sv, "the arguments are None"},
      {"cm\nC\n)(NNd\x92."sv, "keywords"},
      {"NNb."sv, "a state is given to None"},
      {"NN\x93."sv, "a global's name is None"},
      {"(o."sv, "an object without its class"},
      {"\x80\6N."sv, "protocol 6"},
      {"\x95\xff\0\0\0\0\0\0\0N."sv, "a frame of 255 bytes"},
      {"B\xff\xff\xff\xffN."sv, "4294967295 bytes are needed"},
      {"\x8e\xff\xff\xff\xff\xff\xff\xff\xffN."sv, "18446744073709551615 bytes are needed"},
      {"\x82\1."sv, "0x82 is no opcode"},  // extension registry
      {"\x97."sv, "0x97 is no opcode"},    // buffers beside the file
  };
  for (const auto& [content, named] : table) {
    CAPTURE(content, named);
    CHECK(message_of(content, rules).find(named) != std::string::npos);
  }
}

TEST_CASE("NothingGrowsBeyondItsFile") {
  const PickleRules rules = rules_with({});
  std::string deep(200'000, ']');
  deep.append(199'999, 'a');
  deep += '.';
  CHECK(parse_pickle(deep, rules).root->kind == PickleKind::kList);
  CHECK(shown("]q\0h\0\x30."sv, rules) == "[]");
  CHECK(parse_pickle("]q\0h\0a."sv, rules).root->items[0]->kind == PickleKind::kList);  // itself
  PickleRules few = rules;
  few.max_operations = 100;
  CHECK(message_of(std::string(200, 'N'), few).find("more than 100 values") != std::string::npos);
  // A list copied into a set again and again.
  std::string copies = "](" + std::string(60, 'N') + "eq";
  copies += '\0';
  for (int i = 0; i < 3; ++i) copies += "cbuiltins\nset\nh" + std::string(1, '\0') + "\x85R0";
  CHECK(message_of(copies + ".", few).find("more than 100 values") != std::string::npos);
  // A text decoded again and again.
  std::string decoded = "(X" + "\xe8\3\0\0"s + std::string(1000, 'x') + "X\6\0\0\0latin1tq\0"s;
  for (int i = 0; i < 9; ++i) decoded += "c_codecs\nencode\nh\0R0"s;
  CHECK(message_of(decoded + ".", rules).find("again and again") != std::string::npos);
}

TEST_CASE("EveryTruncationIsRefused") {
  for (const std::string_view content : kByPython) {
    for (size_t length = 0; length < content.size(); ++length) {
      CAPTURE(length);
      CHECK_FALSE(message_of(content.substr(0, length), rules_with({})).empty());
    }
  }
}

TEST_CASE("DamagedPicklesEndInAValueOrInAnError") {
  std::mt19937 random(7);  // NOLINT: the same damage every time
  const auto start = std::chrono::steady_clock::now();
  int values = 0, errors = 0;
  for (int round = 0; round < 6000; ++round) {
    std::string content(kByPython[round % 6]);
    for (int i = 0; i <= round % 4; ++i) content[random() % content.size()] = char(random());
    const std::string message = message_of(content, rules_with({}));
    ++(message.empty() ? values : errors);
    if (!message.empty()) CHECK(message.find("net.pkl: byte ") == 0);
  }
  CHECK(values > 100);
  CHECK(errors > 1000);
  CHECK(std::chrono::steady_clock::now() - start < std::chrono::seconds(60));
}

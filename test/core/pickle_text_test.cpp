// SPDX-License-Identifier: Apache-2.0
#include "core/pickle.h"
#include "support/catch.h"

using namespace gantrain;
using namespace std::string_literals;

TEST_CASE("QuotedLiteralsOfPython2AreRead") {
  CHECK(unquote_python("''") == "");
  CHECK(unquote_python("'a\"b'") == "a\"b");
  CHECK(unquote_python("\"it's\"") == "it's");
  CHECK(unquote_python(R"('\\\'\"\n\r\t\x00\xfe')") == "\\'\"\n\r\t\0\xfe"s);
  for (const char* wrong : {"", "'", "'a", "a'", "'a\"", "'\\'", "'\\x1'", "'\\q'", "'\\xgg'"}) {
    CAPTURE(wrong);
    CHECK_FALSE(unquote_python(wrong));
  }
}

TEST_CASE("RawUnicodeBecomesUtf8") {
  CHECK(decode_raw_unicode("z\xfc") == "z\xc3\xbc");
  CHECK(decode_raw_unicode(R"(\u005c\u20ac\U0001f600\n)") == "\\\xe2\x82\xac\xf0\x9f\x98\x80\\n");
  CHECK(decode_raw_unicode("\\") == "\\");
  for (const char* wrong : {"\\u12", "\\uxxxx", "\\U00110000", "\\Uffffffff"}) {
    CAPTURE(wrong);
    CHECK_FALSE(decode_raw_unicode(wrong));
  }
}

TEST_CASE("Latin1IsUndone") {
  std::string all, utf8;
  for (int byte = 0; byte < 256; ++byte) {
    all += static_cast<char>(byte);
    if (byte >= 128) utf8 += static_cast<char>(byte < 192 ? 0xc2 : 0xc3);
    utf8 += static_cast<char>(byte < 192 ? byte : byte - 64);
  }
  CHECK(utf8_to_latin1(utf8) == all);
  for (const char* wrong : {"\xc3", "\xe2\x82\xac", "\xff", "\xc2\x41", "\xc4\x80"}) {
    CAPTURE(wrong);
    CHECK_FALSE(utf8_to_latin1(wrong));
  }
}

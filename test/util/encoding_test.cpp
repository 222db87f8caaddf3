// SPDX-License-Identifier: Apache-2.0
#include "support/catch.h"
#include "util/text.h"

using namespace gantrain;

// RFC 4648, sec. 10.
TEST_CASE("Base64OfTheTestVectors") {
  for (const auto& [bytes, text] : {std::pair{"", ""},
                                    {"f", "Zg=="},
                                    {"fo", "Zm8="},
                                    {"foo", "Zm9v"},
                                    {"foob", "Zm9vYg=="},
                                    {"fooba", "Zm9vYmE="},
                                    {"foobar", "Zm9vYmFy"}})
    CHECK(base64(bytes) == text);
  CHECK(base64("\xfb\xff\xbf") == "+/+/");
}

TEST_CASE("PercentEncodingLeavesUnreservedCharactersAlone") {
  CHECK(percent_encoded("Az09-._~") == "Az09-._~");
  CHECK(percent_encoded("a/b c\"<%") == "a%2Fb%20c%22%3C%25");
  CHECK(percent_encoded("a/b c\"<%", "/") == "a/b%20c%22%3C%25");
  CHECK(percent_encoded("\xc3\xa9") == "%C3%A9");
}

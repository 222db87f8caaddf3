// SPDX-License-Identifier: Apache-2.0
#include "util/hash.h"

#include <catch2/catch.hpp>

using namespace gantrain;

TEST_CASE("Sha256MatchesTheStandardsVectors") {
  CHECK(sha256("") == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  CHECK(sha256("abc") == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  CHECK(sha256("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq") ==
        "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  CHECK(sha256(std::string(1000000, 'a')) ==
        "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST_CASE("Crc32cMatchesTheStandardsVectors") {
  CHECK(crc32c("123456789") == 0xe3069283u);
  CHECK(crc32c(std::string(32, '\0')) == 0x8a9136aau);  // RFC 3720, B.4
}

TEST_CASE("ADigestInPiecesIsTheDigestOfTheWhole") {
  Digest whole, pieces;
  const std::string text(5000, 'x');
  whole.update(text.data(), text.size());
  for (size_t at = 0; at < text.size(); at += 7)
    pieces.update(text.data() + at, std::min<size_t>(7, text.size() - at));
  CHECK(whole.hex() == pieces.hex());
  CHECK(whole.hex().size() == 32);
  pieces.update("y", 1);
  CHECK(whole.hex() != pieces.hex());
}

TEST_CASE("TheSeedChangesAHash") {
  CHECK(hash64("abc") == hash64("abc", 0));
  CHECK(hash64("abc") != hash64("abc", 1));
}

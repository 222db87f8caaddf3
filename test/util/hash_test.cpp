// SPDX-License-Identifier: Apache-2.0
#include "util/hash.h"

#include "support/catch.h"

using namespace gantrain;

TEST_CASE("Sha256MatchesTheStandardsVectors") {
  CHECK(sha256("") == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  CHECK(sha256("abc") == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  CHECK(sha256("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq") ==
        "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  CHECK(sha256(std::string(1000000, 'a')) ==
        "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST_CASE("HmacMatchesTheStandardsVectors") {  // RFC 4231
  CHECK(hmac_sha256(std::string(20, '\x0b'), "Hi There") ==
        "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7");
  CHECK(hmac_sha256("Jefe", "what do ya want for nothing?") ==
        "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
  CHECK(hmac_sha256(std::string(20, '\xaa'), std::string(50, '\xdd')) ==
        "773ea91e36800e46854db8ebd09181a72959098b3ef8c122d9635514ced565fe");
  std::string counted;
  for (char byte = 1; byte <= 25; ++byte) counted += byte;
  CHECK(hmac_sha256(counted, std::string(50, '\xcd')) ==
        "82558a389a443c0ea4cc819899f2083a85f0faa3e578f8077a2e3ff46729665b");
  CHECK(hmac_sha256(std::string(131, '\xaa'),
                    "Test Using Larger Than Block-Size Key - Hash Key First") ==
        "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
  CHECK(
      hmac_sha256(std::string(131, '\xaa'),
                  "This is a test using a larger than block-size key and a larger than block-size "
                  "data. The key needs to be hashed before being used by the HMAC algorithm.") ==
      "9b09ffa71b942fcb27635fbcd5b0e944bfdc63644f0713938a7f51535c3a35e2");
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

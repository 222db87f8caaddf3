// SPDX-License-Identifier: Apache-2.0
#include "util/error.h"

#include <cerrno>

#include "support/catch.h"

using namespace gantrain;

TEST_CASE("FailThrowsTheFormattedMessageWithItsCode") {
  try {
    fail(Exit::kInput, "{}: {} is wrong", "file", 7);
    FAIL("nothing was thrown");
  } catch (const UserError& e) {
    CHECK(e.code() == Exit::kInput);
    CHECK(std::string(e.what()) == "file: 7 is wrong");
  }
}

TEST_CASE("ErrnoTextIsTheSystemsSentence") {
  errno = ENOENT;
  CHECK(errno_text() == "No such file or directory");
}

TEST_CASE("ARefusedThreadIsToldFromAFullPipe") {
  const std::error_code again = std::make_error_code(std::errc::resource_unavailable_try_again);
  CHECK(lacks_threads(std::system_error(again)));
  CHECK_FALSE(lacks_threads(std::system_error(again, "cannot write to file")));
  CHECK_FALSE(lacks_threads(std::system_error(std::make_error_code(std::errc::io_error))));
}

TEST_CASE("AMessageIsOneLineWhateverItsArgumentsHold") {
  CHECK_THROWS_WITH(fail(Exit::kInput, "{}: no", std::string("a\nb\x1b")), "a\\x0ab\\x1b: no");
}

// SPDX-License-Identifier: Apache-2.0
#include "serve/server.h"
#include "support/catch.h"
#include "support/scoped_variable.h"
#include "support/temporary_folder.h"
#include "util/error.h"
#include "util/file.h"

namespace gantrain {

TEST_CASE("OnlyAddressesOfThisMachineAreLoopback") {
  for (const char* yes : {"127.0.0.1", "127.1.2.3", "::1", "localhost"}) {
    CAPTURE(yes);
    CHECK(is_loopback(yes));
  }
  for (const char* no : {"0.0.0.0", "::", "10.0.0.1", "127.evil.org", "localhost.evil.org", ""}) {
    CAPTURE(no);
    CHECK_FALSE(is_loopback(no));
  }
}

TEST_CASE("AHostHeaderOfAnotherNameIsRefused") {
  for (const char* yes : {"127.0.0.1", "127.0.0.1:8300", "LOCALHOST:80", "[::1]", "[::1]:8300"}) {
    CAPTURE(yes);
    CHECK(names_loopback(yes));
  }
  for (const char* no :
       {"", "evil.org", "evil.org:8300", "127.0.0.1.evil.org", "[::1", "[::1]evil", "::1"}) {
    CAPTURE(no);
    CHECK_FALSE(names_loopback(no));
  }
}

TEST_CASE("ATokenIsTakenFromBearerAndWhereAllowedFromBasic") {
  const std::string token = "0123456789abcdef";
  CHECK(authorizes("Bearer " + token, token, false));
  CHECK(authorizes("bearer " + token, token, true));
  // base64 of "anybody:0123456789abcdef"
  const std::string basic = "Basic YW55Ym9keTowMTIzNDU2Nzg5YWJjZGVm";
  CHECK(authorizes(basic, token, true));
  CHECK_FALSE(authorizes(basic, token, false));
  for (const std::string wrong :
       {"", "Bearer", "Bearer ", "Bearer 0123456789abcdeF", "Basic !!!"}) {
    CAPTURE(wrong);
    CHECK_FALSE(authorizes(wrong, token, true));
  }
  CHECK_FALSE(authorizes("Bearer ", "", true));
  CHECK_FALSE(authorizes("Basic Og==", "", true));
}

TEST_CASE("TokensAreRandomAndFilesOfTokensAreChecked") {
  const TemporaryFolder folder;
  const ScopedVariable runtime("XDG_RUNTIME_DIR", folder.path().c_str());
  const auto made = write_random_token();
  const std::string token = token_in(made);
  CHECK(token.size() == 32);
  CHECK(std::filesystem::status(made).permissions() == std::filesystem::perms(0600));
  std::filesystem::remove(made);
  std::filesystem::create_symlink(folder / "victim", made);  // of a process with this number
  CHECK(token_in(write_random_token()) != token);
  CHECK_FALSE(std::filesystem::exists(folder / "victim"));
  write_file(folder / "token", "0123456789abcdef\nmore\n");
  CHECK(token_in(folder / "token") == "0123456789abcdef");
  for (const std::string wrong :
       {"", "short\n", "0123456789 abcdef\n", "0123456789abcd\xC3\xA4\n"}) {
    write_file(folder / "wrong", wrong);
    CHECK_THROWS_AS(token_in(folder / "wrong"), UserError);
  }
  CHECK_THROWS_AS(token_in(folder / "missing"), UserError);
}

}  // namespace gantrain

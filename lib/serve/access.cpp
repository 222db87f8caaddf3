// SPDX-License-Identifier: Apache-2.0
#include <arpa/inet.h>
#include <unistd.h>

#include <algorithm>

#include "serve/server.h"
#include "util/error.h"
#include "util/file.h"
#include "util/system.h"
#include "util/text.h"

namespace gantrain {

namespace {

constexpr size_t kLeastToken = 16;  // characters

// What base64 stands for, up to the first character that is none of its own.
std::string from_base64(const std::string& text) {
  constexpr std::string_view kDigits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  uint32_t bits = 0;
  int count = 0;
  for (const char c : text) {
    const size_t digit = kDigits.find(c);
    if (digit == std::string_view::npos) break;
    bits = (bits << 6) | static_cast<uint32_t>(digit);
    count += 6;
    if (count < 8) continue;
    count -= 8;
    out += static_cast<char>((bits >> count) & 0xFF);
  }
  return out;
}

}  // namespace

std::filesystem::path write_random_token() {
  const std::filesystem::path runtime = environment_variable("XDG_RUNTIME_DIR");
  const auto folder = runtime.is_absolute() ? runtime / "gantrain" : cache_folder("serve");
  if (folder.empty()) {
    fail(Exit::kEnvironment,
         "--token auto: neither $XDG_RUNTIME_DIR nor a home folder is there for the file of the "
         "token; --token FILE needs none");
  }
  make_private_folder(folder);
  const auto path = folder / fmt::format("serve-{}.token", ::getpid());
  AtomicFile file(path, 0600);
  file.write(random_hex(16) + "\n");
  file.commit();
  return path;
}

std::string token_in(const std::filesystem::path& file) {
  std::error_code error;
  if (!std::filesystem::exists(file, error)) {
    // The text itself is not repeated: it may be the secret.
    fail(Exit::kInput,
         "--token: there is no such file. It is auto, or a file whose first line is the token: "
         "arguments can be read by every user of the machine");
  }
  const std::string text = read_file(file);
  const std::string token = trim(text.substr(0, text.find('\n')));
  const bool visible = std::ranges::all_of(token, [](char c) { return c > 0x20 && c < 0x7F; });
  if (token.size() < kLeastToken || !visible) {
    fail(Exit::kInput,
         "{}: its first line is no token, which is {} or more visible ASCII characters without a "
         "blank",
         file.string(),
         kLeastToken);
  }
  return token;
}

bool same_secret(const std::string& a, const std::string& b) {
  // Only the length is told.
  if (a.size() != b.size()) return false;
  unsigned difference = 0;
  for (size_t i = 0; i < a.size(); ++i)
    difference |= static_cast<unsigned char>(a[i]) ^ static_cast<unsigned char>(b[i]);
  return difference == 0;
}

bool is_loopback(const std::string& address) {
  if (address == "localhost") return true;
  in_addr v4{};
  if (::inet_pton(AF_INET, address.c_str(), &v4) == 1) return (ntohl(v4.s_addr) >> 24) == 127;
  in6_addr v6{};
  return ::inet_pton(AF_INET6, address.c_str(), &v6) == 1 && IN6_IS_ADDR_LOOPBACK(&v6);
}

bool names_loopback(const std::string& host_header) {
  std::string host = lower(host_header);
  if (starts_with(host, "[")) {
    const size_t close = host.find(']');
    if (close == std::string::npos) return false;
    const std::string rest = host.substr(close + 1);
    return (rest.empty() || rest[0] == ':') && is_loopback(host.substr(1, close - 1));
  }
  return is_loopback(host.substr(0, host.find(':')));
}

bool authorizes(const std::string& header, const std::string& token, bool basic) {
  if (token.empty()) return false;
  const size_t blank = header.find(' ');
  if (blank == std::string::npos) return false;
  const std::string scheme = lower(header.substr(0, blank));
  const std::string rest = trim(header.substr(blank + 1));
  if (scheme == "bearer") return same_secret(rest, token);
  if (scheme != "basic" || !basic) return false;
  const std::string both = from_base64(rest);
  const size_t colon = both.find(':');
  return colon != std::string::npos && same_secret(both.substr(colon + 1), token);
}

}  // namespace gantrain

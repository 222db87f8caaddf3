// SPDX-License-Identifier: Apache-2.0
// HTTP/1.1 (RFC 9112), one request a connection. lib/serve's library is compiled without OpenSSL,
// and the layout of its classes depends on that, so this client is our own: plain sockets, and
// OpenSSL's libssl by dlopen for https.
#include <dlfcn.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>

#include "track/track.h"
#include "util/error.h"
#include "util/system.h"
#include "util/text.h"

namespace gantrain {

namespace {

constexpr double kConnectSeconds = 10;
constexpr size_t kMostHeaders = 64 << 10;  // bytes
constexpr size_t kMostBody = 64 << 20;     // bytes

// The functions of OpenSSL 1.1 and 3 that are used, under their own names.
struct Tls {
  const void* (*TLS_client_method)() = nullptr;
  void* (*SSL_CTX_new)(const void*) = nullptr;
  void (*SSL_CTX_free)(void*) = nullptr;
  int (*SSL_CTX_set_default_verify_paths)(void*) = nullptr;
  int (*SSL_CTX_load_verify_locations)(void*, const char*, const char*) = nullptr;
  void (*SSL_CTX_set_verify)(void*, int, void*) = nullptr;
  long (*SSL_CTX_ctrl)(void*, int, long, void*) = nullptr;
  void* (*SSL_new)(void*) = nullptr;
  void (*SSL_free)(void*) = nullptr;
  int (*SSL_set_fd)(void*, int) = nullptr;
  int (*SSL_set1_host)(void*, const char*) = nullptr;
  long (*SSL_ctrl)(void*, int, long, void*) = nullptr;
  int (*SSL_connect)(void*) = nullptr;
  int (*SSL_read)(void*, void*, int) = nullptr;
  int (*SSL_write)(void*, const void*, int) = nullptr;
  int (*SSL_get_error)(const void*, int) = nullptr;
  long (*SSL_get_verify_result)(const void*) = nullptr;
  const char* (*X509_verify_cert_error_string)(long) = nullptr;
  bool complete = false;
};

template <class Function>
bool take(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(::dlsym(library, name));
  return function != nullptr;
}

// A library that is loaded stays: OpenSSL has functions that run when the process ends.
Tls load_tls() {
  Tls tls;
  void* library = nullptr;
  for (const char* name : {"libssl.so.3", "libssl.so.1.1", "libssl.so"}) {
    if (library == nullptr) library = ::dlopen(name, RTLD_NOW | RTLD_LOCAL);
  }
  if (library == nullptr) return tls;
#define GANTRAIN_TAKE(name) take(library, #name, tls.name)
  tls.complete =
      GANTRAIN_TAKE(TLS_client_method) && GANTRAIN_TAKE(SSL_CTX_new) &&
      GANTRAIN_TAKE(SSL_CTX_free) && GANTRAIN_TAKE(SSL_CTX_set_default_verify_paths) &&
      GANTRAIN_TAKE(SSL_CTX_load_verify_locations) && GANTRAIN_TAKE(SSL_CTX_set_verify) &&
      GANTRAIN_TAKE(SSL_CTX_ctrl) && GANTRAIN_TAKE(SSL_new) && GANTRAIN_TAKE(SSL_free) &&
      GANTRAIN_TAKE(SSL_set_fd) && GANTRAIN_TAKE(SSL_set1_host) && GANTRAIN_TAKE(SSL_ctrl) &&
      GANTRAIN_TAKE(SSL_connect) && GANTRAIN_TAKE(SSL_read) && GANTRAIN_TAKE(SSL_write) &&
      GANTRAIN_TAKE(SSL_get_error) && GANTRAIN_TAKE(SSL_get_verify_result) &&
      GANTRAIN_TAKE(X509_verify_cert_error_string);
#undef GANTRAIN_TAKE
  return tls;
}

const Tls& tls() {
  static const Tls loaded = load_tls();
  return loaded;
}

// Numbers of OpenSSL's headers.
constexpr int kVerifyPeer = 1;
constexpr int kSetMinimumVersion = 123;
constexpr long kTls12 = 0x0303;
constexpr int kSetServerName = 55;
constexpr int kWantRead = 2, kWantWrite = 3, kZeroReturn = 6;

// A connection that gives up at a moment in monotonic seconds.
class Wire {
 public:
  Wire(const Url& url, const Trust& trust, double end) : end_(end) {
    try {
      connect(url);
      if (url.tls) encrypt(url, trust);
    } catch (...) {
      close();
      throw;
    }
  }
  ~Wire() { close(); }
  Wire(const Wire&) = delete;
  Wire& operator=(const Wire&) = delete;

  void send(std::string_view bytes) {
    while (!bytes.empty()) {
      const size_t piece = std::min<size_t>(bytes.size(), 1 << 20);
      const long done = ssl_ != nullptr
                            ? tls().SSL_write(ssl_, bytes.data(), static_cast<int>(piece))
                            : ::send(socket_, bytes.data(), piece, MSG_NOSIGNAL);
      if (done > 0) {
        bytes.remove_prefix(static_cast<size_t>(done));
      } else if (!wait_to_repeat(done, POLLOUT)) {
        throw NoAnswer("closed the connection");
      }
    }
  }

  // Returns 0 at the end of what the server sends.
  size_t receive(char* to, size_t size) {
    for (;;) {
      const long done = ssl_ != nullptr ? tls().SSL_read(ssl_, to, static_cast<int>(size))
                                        : ::recv(socket_, to, size, 0);
      if (done > 0) return static_cast<size_t>(done);
      if (!wait_to_repeat(done, POLLIN)) return 0;
    }
  }

 private:
  void close() {
    if (ssl_ != nullptr) tls().SSL_free(ssl_);
    if (context_ != nullptr) tls().SSL_CTX_free(context_);
    if (socket_ >= 0) ::close(socket_);
    socket_ = -1;
  }

  // Waits until the socket is ready. Throws NoAnswer when the time is over.
  void wait(short events, double end) const {
    for (;;) {
      const double left = end - monotonic_seconds();
      if (left <= 0) throw NoAnswer("does not answer in time");
      pollfd polled{socket_, events, 0};
      if (::poll(&polled, 1, static_cast<int>(left * 1e3) + 1) > 0) return;
    }
  }

  // After a call that did nothing: waits until it is worth repeating; false if the connection is
  // over.
  bool wait_to_repeat(long done, short events) const {
    if (ssl_ != nullptr) {
      const int error = tls().SSL_get_error(ssl_, static_cast<int>(done));
      if (error != kWantRead && error != kWantWrite) return false;
      wait(error == kWantRead ? POLLIN : POLLOUT, end_);
      return true;
    }
    if (done == 0) return false;
    if (errno == EINTR) return true;
    if (errno != EAGAIN && errno != EWOULDBLOCK) return false;
    wait(events, end_);
    return true;
  }

  void connect(const Url& url) {
    addrinfo hints{};
    hints.ai_socktype = SOCK_STREAM;
    addrinfo* found = nullptr;
    const int error =
        ::getaddrinfo(url.host.c_str(), std::to_string(url.port).c_str(), &hints, &found);
    if (error != 0) throw NoAnswer(fmt::format("is not found: {}", ::gai_strerror(error)));
    const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> all(found, ::freeaddrinfo);
    std::string reason = "no address";
    for (const addrinfo* each = found; each != nullptr; each = each->ai_next) {
      reason = try_address(*each);
      if (reason.empty()) return;
    }
    throw NoAnswer("cannot be reached: " + reason);
  }

  // Returns why there is no connection; "" if there is one.
  std::string try_address(const addrinfo& address) {
    if (socket_ >= 0) ::close(socket_);
    socket_ = ::socket(
        address.ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, address.ai_protocol);
    if (socket_ < 0) return errno_text();
    const int yes = 1;
    ::setsockopt(socket_, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
    if (::connect(socket_, address.ai_addr, address.ai_addrlen) == 0) return "";
    if (errno != EINPROGRESS) return errno_text();
    try {
      wait(POLLOUT, std::min(end_, monotonic_seconds() + kConnectSeconds));
    } catch (const NoAnswer&) {
      return "no answer in time";
    }
    socklen_t size = sizeof(errno);
    ::getsockopt(socket_, SOL_SOCKET, SO_ERROR, &errno, &size);
    return errno == 0 ? "" : errno_text();
  }

  void encrypt(const Url& url, const Trust& trust) {
    if (!tls().complete) throw NoAnswer(lacking_for_https());
    context_ = tls().SSL_CTX_new(tls().TLS_client_method());
    if (context_ == nullptr) throw NoAnswer("OpenSSL does not start");
    tls().SSL_CTX_ctrl(context_, kSetMinimumVersion, kTls12, nullptr);
    if (trust.certificates.empty()) {
      tls().SSL_CTX_set_default_verify_paths(context_);
    } else if (tls().SSL_CTX_load_verify_locations(context_, trust.certificates.c_str(), nullptr) !=
               1) {
      throw NoAnswer(trust.certificates + ": no certificates can be read from it");
    }
    if (trust.verify) tls().SSL_CTX_set_verify(context_, kVerifyPeer, nullptr);
    ssl_ = tls().SSL_new(context_);
    if (ssl_ == nullptr) throw NoAnswer("OpenSSL does not start");
    std::string name = url.host;
    tls().SSL_ctrl(ssl_, kSetServerName, 0, name.data());
    tls().SSL_set1_host(ssl_, name.c_str());
    tls().SSL_set_fd(ssl_, socket_);
    for (;;) {
      const int done = tls().SSL_connect(ssl_);
      if (done == 1) return;
      if (wait_to_repeat(done, POLLIN)) continue;
      const long verdict = tls().SSL_get_verify_result(ssl_);
      if (verdict != 0) {
        throw NoAnswer(fmt::format("has a certificate that is not trusted: {}",
                                   tls().X509_verify_cert_error_string(verdict)));
      }
      throw NoAnswer("does not speak https");
    }
  }

  double end_;
  int socket_ = -1;
  void* context_ = nullptr;
  void* ssl_ = nullptr;
};

// Reads an answer from the wire, piece by piece.
class AnswerReader {
 public:
  explicit AnswerReader(Wire& wire) : wire_(wire) {}

  HttpAnswer read() {
    HttpAnswer answer;
    do {
      read_head(answer);
    } while (answer.status < 200);  // 100 Continue and its kind come before the answer
    if (answer.status != 204 && answer.status != 304) read_body(answer);
    return answer;
  }

 private:
  bool more() {
    char piece[16 << 10];
    const size_t got = wire_.receive(piece, sizeof piece);
    bytes_.append(piece, got);
    return got > 0;
  }

  std::string line() {
    size_t end = 0;
    while ((end = bytes_.find("\r\n")) == std::string::npos) {
      if (bytes_.size() > kMostHeaders) throw NoAnswer("answers with something that is no HTTP");
      if (!more()) throw NoAnswer("closed the connection");
    }
    std::string text = bytes_.substr(0, end);
    bytes_.erase(0, end + 2);
    return text;
  }

  std::string exactly(size_t size) {
    if (size > kMostBody) throw NoAnswer("answers with more than 64 MiB");
    while (bytes_.size() < size) {
      if (!more()) throw NoAnswer("broke off in the middle of its answer");
    }
    std::string text = bytes_.substr(0, size);
    bytes_.erase(0, size);
    return text;
  }

  void read_head(HttpAnswer& answer) {
    const std::vector<std::string> words = split(line(), ' ');
    const auto status = words.size() > 1 ? parse_int(words[1]) : std::nullopt;
    if (!starts_with(words[0], "HTTP/1.") || !status)
      throw NoAnswer("answers with something that is no HTTP");
    answer = {static_cast<int>(*status), {}, {}};
    for (std::string field; !(field = line()).empty();) {
      const size_t colon = field.find(':');
      if (colon == std::string::npos || answer.headers.size() > 1000) continue;
      answer.headers[lower(field.substr(0, colon))] = trim(field.substr(colon + 1));
    }
  }

  void read_body(HttpAnswer& answer) {
    if (lower(answer.header("transfer-encoding")).find("chunked") != std::string::npos) {
      while (const size_t size = chunk_size()) {
        answer.body += exactly(size);
        if (answer.body.size() > kMostBody) throw NoAnswer("answers with more than 64 MiB");
        line();
      }
      return;
    }
    const std::string length = answer.header("content-length");
    if (!length.empty()) {
      const auto size = parse_int(length);
      if (!size || *size < 0) throw NoAnswer("answers with something that is no HTTP");
      answer.body = exactly(static_cast<size_t>(*size));
      return;
    }
    while (bytes_.size() <= kMostBody && more()) continue;
    answer.body = std::move(bytes_);
  }

  size_t chunk_size() {
    const std::string text = line();
    size_t size = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), size, 16);
    if (error != std::errc() || end == text.data())
      throw NoAnswer("answers with something that is no HTTP");
    return size;
  }

  Wire& wire_;
  std::string bytes_;  // that have come and are not used yet
};

}  // namespace

std::string Url::authority() const {
  const std::string name = host.find(':') == std::string::npos ? host : "[" + host + "]";
  return port == (tls ? 443 : 80) ? name : fmt::format("{}:{}", name, port);
}

std::string Url::text() const { return (tls ? "https://" : "http://") + authority() + path; }

Url parse_url(const std::string& flag, const std::string& text) {
  Url url;
  url.tls = starts_with(lower(text), "https://");
  if (!url.tls && !starts_with(lower(text), "http://"))
    fail(Exit::kUsage, "{}: an address begins with http:// or https://", flag);
  const std::string rest = text.substr(url.tls ? 8 : 7);
  if (rest.find_first_of("@?#") != std::string::npos) {
    fail(Exit::kUsage,
         "{}: the address holds a user, a password or a query (@, ? or #), which would stand in "
         "files, logs and lists of processes: leave it out; secrets come from the environment "
         "(gantrain help track)",
         flag);
  }
  const bool odd =
      std::ranges::any_of(rest, [](unsigned char c) { return c <= ' ' || c > '~' || c == ','; });
  const size_t slash = std::min(rest.find('/'), rest.size());
  std::string authority = rest.substr(0, slash);
  url.path = rest.substr(slash);
  while (ends_with(url.path, "/")) url.path.pop_back();
  url.port = url.tls ? 443 : 80;
  const size_t bracket = authority.find(']');
  const size_t colon = authority.find(':', bracket == std::string::npos ? 0 : bracket);
  bool right = !odd;
  if (colon != std::string::npos) {
    const auto port = parse_int(authority.substr(colon + 1));
    right = right && port && *port > 0 && *port < 65536;
    if (port) url.port = static_cast<int>(*port);
    authority.resize(colon);
  }
  if (starts_with(authority, "[") && ends_with(authority, "]"))
    authority = authority.substr(1, authority.size() - 2);
  url.host = authority;
  if (!right || url.host.empty())
    fail(Exit::kUsage, "{}: an address is http://HOST, http://HOST:PORT or https://...", flag);
  return url;
}

std::string HttpAnswer::header(const std::string& name) const {
  const auto found = headers.find(name);
  return found == headers.end() ? "" : found->second;
}

HttpAnswer ask(const Url& server, const Trust& trust, const HttpRequest& request, double seconds) {
  Wire wire(server, trust, monotonic_seconds() + seconds);
  std::string text = fmt::format("{} {}{} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n",
                                 request.method,
                                 server.path,
                                 request.path,
                                 server.authority());
  text += "User-Agent: gantrain\r\nAccept: application/json\r\n";
  for (const auto& [name, value] : request.headers) text += fmt::format("{}: {}\r\n", name, value);
  if (request.method != "GET") text += fmt::format("Content-Length: {}\r\n", request.body.size());
  wire.send(text + "\r\n" + request.body);
  return AnswerReader(wire).read();
}

std::string lacking_for_https() {
  if (tls().complete) return "";
  return "https needs OpenSSL (libssl.so.3 or libssl.so.1.1), which this system lacks: install it "
         "(Debian: apt install libssl3 ca-certificates), or use http through a tunnel, such as ssh "
         "-L 5000:HOST:5000";
}

}  // namespace gantrain

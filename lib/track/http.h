// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <stdexcept>
#include <string>

namespace gantrain {

// The address of a server: "https://host:5000/prefix".
struct Url {
  bool tls = false;
  std::string host;  // without the brackets of IPv6
  int port = 0;
  std::string path;  // "" or "/prefix", without a slash at its end

  std::string authority() const;  // "host:5000", without the port where it is the usual one
  std::string text() const;
};

// Reads an http or https address. Throws UserError(kUsage) that names `flag` for what is none, and
// for one with a user, a password, a query or a fragment: these may be secrets, so the text itself
// is not repeated.
Url parse_url(const std::string& flag, const std::string& text);

// Whose certificates an https client trusts.
struct Trust {
  bool verify = true;
  std::string certificates;  // a file of trusted certificates; "": the system's
};

struct HttpRequest {
  std::string method = "POST";
  std::string path;  // behind the server's own
  std::string body;
  std::map<std::string, std::string> headers;
};

struct HttpAnswer {
  int status = 0;
  std::map<std::string, std::string> headers;  // names in lower case
  std::string body;

  std::string header(const std::string& name) const;  // "" where there is none
};

// The server gave no answer: it cannot be reached, is silent, or breaks off. The text says which.
// Whether it has obeyed the request is not known.
class NoAnswer : public std::runtime_error {
  using runtime_error::runtime_error;
};

// Sends one request over a connection of its own and returns the answer, whatever its status;
// redirects are not followed. Takes at most `seconds`, beside the time of the system's resolver.
// Throws NoAnswer.
HttpAnswer ask(const Url& server, const Trust& trust, const HttpRequest& request, double seconds);

// For a part of a path or a query, and for a header of HTTP's Basic scheme.
std::string percent_encoded(const std::string& text);
std::string base64(const std::string& bytes);

// Why there can be no https here, and what to do; "" if there can. OpenSSL is loaded where it is
// needed: the program itself does not link it.
std::string lacking_for_https();

}  // namespace gantrain

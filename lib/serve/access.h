// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>

namespace gantrain {

// Returns 128 bits of the system's random source as 32 hexadecimal digits. Throws
// UserError(kEnvironment) where there is none.
std::string random_token();

// Returns the first line of a file as a token. Throws UserError(kInput) where the file cannot be
// read, or its first line has less than 16 characters or any but visible ASCII ones.
std::string token_in(const std::filesystem::path& file);

// Whether two texts are equal, in a time that does not tell where they differ.
bool same_secret(const std::string& a, const std::string& b);

// Whether nobody but this machine reaches the address: 127.0.0.0/8, ::1, localhost.
bool is_loopback(const std::string& address);

// Whether a request's Host header names this machine as is_loopback() means it, with or without a
// port. A page of another site whose name is made to point to 127.0.0.1 ("DNS rebinding") has its
// own name there.
bool names_loopback(const std::string& host_header);

// Whether an Authorization header holds the token: "Bearer TOKEN", or, with `basic`, the password
// of "Basic ..." (RFC 7617), which browsers ask for and then send by themselves.
bool authorizes(const std::string& header, const std::string& token, bool basic);

}  // namespace gantrain

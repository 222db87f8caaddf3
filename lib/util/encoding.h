// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

namespace gantrain {

// Returns bytes as text (RFC 4648, sec. 4).
std::string base64(std::string_view bytes);

// Returns text as a part of a URL's path or query (RFC 3986, sec. 2.1): letters, digits, "-._~" and
// the `kept` characters stay, "%20" stands for a blank.
std::string percent_encoded(std::string_view text, std::string_view kept = "");

}  // namespace gantrain

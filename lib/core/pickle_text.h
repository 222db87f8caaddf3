// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace gantrain {

// Text forms of old pickle protocols. Each gives nothing if the text is not of that form.

// 'it\'s', "a\x00b": a quoted literal of Python 2, without escapes beyond \\ \' \" \n \r \t \xNN.
std::optional<std::string> unquote_python(std::string_view literal);

// Latin-1 with \uXXXX and \UXXXXXXXX, as protocol 0 writes text; gives UTF-8.
std::optional<std::string> decode_raw_unicode(std::string_view text);

// UTF-8 whose characters are all below 256, as bytes: how protocols 0 to 2 write bytes.
std::optional<std::string> utf8_to_latin1(std::string_view text);

// At most 80 characters, those that cannot be printed as \xNN: foreign text in a message.
std::string printable(std::string_view text);

}  // namespace gantrain

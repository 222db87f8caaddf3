// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "core/pickle.h"

namespace gantrain {

// Readers of the text forms that old pickle protocols use. Each returns nothing if the text does
// not have its form.

// Reads a quoted literal of Python 2, for example 'it\'s' or "a\x00b". The escapes \\ \' \" \n \r
// \t \xNN are known.
std::optional<std::string> unquote_python(std::string_view literal);

// Turns Latin-1 with \uXXXX and \UXXXXXXXX, the form of texts in protocol 0, into UTF-8.
std::optional<std::string> decode_raw_unicode(std::string_view text);

// Turns UTF-8 whose characters are all below 256 into bytes. Protocols 0 to 2 write bytes in that
// form.
std::optional<std::string> utf8_to_latin1(std::string_view text);

// Makes foreign text fit for a message: at most 80 characters, with \xNN for those that cannot be
// printed.
std::string printable(std::string_view text);

// Whether a name is a global of Python's plain data, which any pickle may use:
// collections.OrderedDict, builtins.set, _codecs.encode (how old protocols write bytes),
// copyreg._reconstructor, ...
bool is_plain_global(std::string_view name);

// Turns `object`, a kObject of a plain global, into the value that calling the global would give.
// Objects of other globals stay as they are. Texts that are made on the way are stored in `texts`.
// Returns what is wrong with the arguments, or "".
std::string evaluate_plain(PickleValue& object, std::deque<std::string>& texts);

}  // namespace gantrain

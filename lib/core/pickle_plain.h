// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/pickle.h"

namespace gantrain {

// Globals of Python's plain data, which any pickle may name: collections.OrderedDict, builtins.set,
// _codecs.encode (how old protocols write bytes), copyreg._reconstructor, ...
bool is_plain_global(std::string_view name);

// `object` is a kObject of a plain global: makes it the value that the call would give. Objects of
// other globals stay. Texts made on the way go to `texts`. Returns what is wrong with the
// arguments, or "".
std::string evaluate_plain(PickleValue& object, std::deque<std::string>& texts);

}  // namespace gantrain

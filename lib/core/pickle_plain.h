// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/pickle.h"

namespace gantrain {

// Whether a name is a global of Python's plain data, which any pickle may use:
// collections.OrderedDict, builtins.set, _codecs.encode (how old protocols write bytes),
// copyreg._reconstructor, ...
bool is_plain_global(std::string_view name);

// Turns `object`, a kObject of a plain global, into the value that calling the global would give.
// Objects of other globals stay as they are. Texts that are made on the way are stored in `texts`.
// Returns what is wrong with the arguments, or "".
std::string evaluate_plain(PickleValue& object, std::deque<std::string>& texts);

}  // namespace gantrain

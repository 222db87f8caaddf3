// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "config/value.h"
#include "curation/advice.h"

namespace gantrain {

// Returns what `data inspect` prints: lines with counts, sizes, forms, classes, copies, all bad
// files and the advice. Of groups of copies only the first ones are listed, unless `all`.
std::string inspection_text(const Inspection& inspection, const Advice& advice, bool all);

// Returns the same as one object.
Json inspection_json(const Inspection& inspection, const Advice& advice);

}  // namespace gantrain

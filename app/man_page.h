// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "verb_description.h"

namespace gantrain {

// Returns the manual page gantrain(1), or gantrain-VERB(1) where a verb is named ("data pack" is
// gantrain-data-pack), in the man macros of roff. It is made of what the verbs declare, as --help
// is. Throws UserError(kUsage) for an unknown verb.
std::string man_page(const std::string& verb);

// Returns the name of a verb's page: "gantrain-data-pack".
std::string page_name(const VerbDescription& verb);

}  // namespace gantrain

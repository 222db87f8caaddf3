// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "config/value.h"

namespace gantrain {

// Prints what `gantrain doctor` found out, name -> text, number or array, to standard output: as
// one JSON line, or a line for each fact and for each element of an array.
void print_facts(const Json& facts, bool json);

}  // namespace gantrain

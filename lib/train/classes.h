// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "data/dataset.h"
#include "gan/class_table.h"

namespace gantrain {

// Counts the pictures of each class of the data; empty where it has no labels.
ClassTable class_table_of(const Dataset& dataset);

// Returns the lines that show the table when a run starts: number, name and pictures of each class;
// of more than 20 classes the first 19 and what the others have in common.
std::vector<std::string> class_lines(const ClassTable& table);

// Returns how the classes of a run differ from those of a state that it is to go on from, in words
// that name the first class in question; "" where names and order are the same. The numbers of
// pictures may differ. A state that is older than the table has an empty one, which fits all.
std::string class_difference(const ClassTable& saved, const ClassTable& now);

}  // namespace gantrain

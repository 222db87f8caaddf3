// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "data/pictures/dataset.h"
#include "gan/class_table.h"
#include "gan/recipe_facts.h"

namespace gantrain {

// Counts the pictures of each class of the data; empty where it has no labels.
ClassTable class_table_of(const Dataset& dataset);

// Whether a run would use the labels of its data: --cond asks for them, or leaves it to the recipe.
bool wants_labels(const DataOptions& data, const RecipeFacts& recipe, const Config& config);

// Returns the classes of the data that a run is trained on; empty where labels are not used. Throws
// UserError(kInput) where --cond asks for labels that the data has not.
ClassTable trained_classes(const ClassTable& of_data,
                           const DataOptions& data,
                           const RecipeFacts& recipe,
                           const Config& config);

// Returns the number of pictures of each class.
std::vector<int64_t> pictures_of_classes(const ClassTable& table);

// Returns the lines that show the table when a run starts: number, name and pictures of each class;
// of more than 20 classes the first 19 and what the others have in common.
std::vector<std::string> class_lines(const ClassTable& table);

// Returns how the classes of a run differ from those of a state that it is to go on from, in words
// that name the first class in question; "" where names and order are the same. The numbers of
// pictures may differ. A state that is older than the table has an empty one, which fits all.
std::string class_difference(const ClassTable& saved, const ClassTable& now);

}  // namespace gantrain

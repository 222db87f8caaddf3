// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "data/dataset.h"
#include "data/label_files.h"
#include "data/source.h"

namespace gantrain {

// Makes a data set of the pictures that find_pictures() finds. It verifies them, decides the
// channels, and leaves out or refuses bad pictures, as the options say. Throws UserError(kInput).
std::shared_ptr<const Dataset> make_picture_set(std::unique_ptr<Source> source,
                                                const DataOptions& options,
                                                const StopCheck& stop);

}  // namespace gantrain

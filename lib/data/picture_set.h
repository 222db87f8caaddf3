// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "data/dataset.h"
#include "data/source.h"

namespace gantrain {

// Makes a data set of the pictures among a source's files. It reads labels from dataset.json or
// folders, verifies pictures, decides the channels, and leaves out or refuses bad pictures, as the
// options say. Throws UserError(kInput).
std::shared_ptr<const Dataset> make_picture_set(std::unique_ptr<Source> source,
                                                const DataOptions& options,
                                                const StopCheck& stop);

}  // namespace gantrain

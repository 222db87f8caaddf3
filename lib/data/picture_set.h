// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "data/dataset.h"
#include "data/source.h"

namespace gantrain {

// The pictures among a source's files: labels from dataset.json or folders, pictures verified,
// channels decided, bad ones dropped or refused as options say. Throws UserError(kInput).
std::shared_ptr<const Dataset> make_picture_set(std::unique_ptr<Source> source,
                                                const DataOptions& options,
                                                const StopCheck& stop);

}  // namespace gantrain

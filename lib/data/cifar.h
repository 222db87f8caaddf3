// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <optional>

#include "data/random_access_file.h"
#include "data/source.h"

namespace gantrain {

// Opens CIFAR-10's or CIFAR-100's files (Krizhevsky 2009) among the files of a folder or archive,
// in their binary or Python version: the training batches, or the test batch where there are no
// others. Labels are the classes, of CIFAR-100 the fine ones, with their names where the file of
// the names is there. Returns nothing where there are no such files. Throws UserError(kInput) that
// names the file that is broken.
std::unique_ptr<Source> cifar_in(const Source& files);

// Opens one binary batch of either by itself; nothing where the size and the labels do not fit.
std::unique_ptr<Source> cifar_batch(const FilePart& part);

}  // namespace gantrain

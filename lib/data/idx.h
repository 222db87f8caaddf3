// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "data/random_access_file.h"
#include "data/source.h"

namespace gantrain {

// Whether a content begins as an idx file of bytes does (LeCun, Cortes & Burges, the MNIST
// database).
bool is_idx(std::string_view start);

// Returns the name that the labels of these pictures have: "train-labels-idx1-ubyte" for
// "train-images-idx3-ubyte"; "" where it follows another custom.
std::string idx_labels_name(const std::string& images_name);

// Opens the grey pictures of an idx file with three dimensions, which is not compressed, and the
// labels of an idx file with one. Pictures of 28 x 28 pixels get a black border of two pixels where
// options ask for 32 x 32 and for fit=pad, as MNIST is usually brought to that size. Throws
// UserError(kInput) that names the file where its size is not what its header says, or where the
// labels are not as many.
std::unique_ptr<Source> open_idx(const FilePart& images,
                                 const std::optional<FilePart>& labels,
                                 const DataOptions& options);

}  // namespace gantrain

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "curation/requests.h"

namespace gantrain {

// Whether the output is a zip archive; else it is a folder.
bool is_zip_name(const std::string& output);

// Throws UserError(kUsage) where the output of `data pack` must not be written: it exists (unless
// request.force), is the source or lies in its folder, its name asks for another kind of archive,
// or a name that the work needs beside it is taken by something else; UserError(kDisk) where the
// folder that it shall lie in is missing or cannot be written.
void check_pack_target(const PackRequest& request);

// Gives a folder its name back that a killed command had just moved aside to replace it.
void put_back_replaced(const std::string& output);

}  // namespace gantrain

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>

namespace gantrain {

// Locks a run folder until the returned descriptor is closed. Where the process that holds the lock
// is being killed, or is gone and left it to what is left of its run, it waits for their end for up
// to a minute: a thread that writes to a slow disk ends only then. Throws UserError(kUsage) where
// another run is at work there, UserError(kDisk) where the folder or its file .lock cannot be
// written. On file systems without locks it warns and returns a descriptor that locks nothing.
int lock_run_folder(const std::filesystem::path& folder);

}  // namespace gantrain
